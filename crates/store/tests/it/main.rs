//! The store's drivers against what the trait promises.

#![allow(clippy::unwrap_used)]

mod conformance;
mod crash;
mod full_disk;
mod lifecycle;
mod model;
