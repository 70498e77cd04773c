//! The only crate with `unsafe`: Linux calls that the safe wrappers leave out.

pub mod network_namespace;
pub mod process;
