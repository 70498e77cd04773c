//! The registry as its callers see it: requests in, responses and watch events out, over the
//! in-memory store.
#![allow(clippy::unwrap_used)]

mod bad_inputs;
mod base_layer;
mod clusters;
mod deleting;
mod isolation;
mod lists;
mod pods;
mod services;
mod shapes;
mod support;
mod watches;
mod writes;
