//! The store's drivers against what the trait promises.

mod conformance;
mod crash;
mod full_disk;
mod lifecycle;
mod model;
