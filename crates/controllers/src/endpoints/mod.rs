//! Which Pods are behind a Service: its Endpoints and its EndpointSlices.

mod addresses;
mod controller;
mod slices;
mod subsets;

pub use controller::{Options, spawn};
pub use slices::{Plan, plan_slices};
pub use subsets::endpoints;

#[cfg(test)]
mod tests;
