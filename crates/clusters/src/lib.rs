//! Virtual clusters: their life, how their nodes scale, and the machines that are claimed for them.

pub mod scale;
