//! The store's drivers against what the trait promises.

mod conformance;
