//! Pods on this node: what each wants, what there is, and the worker that closes the gap.

pub(crate) mod context;
pub(crate) mod engine;
pub(crate) mod env;
pub(crate) mod machinery;
pub(crate) mod manager;
pub(crate) mod model;
pub(crate) mod plan;
mod probe;
mod resources;
mod sandbox;
mod start;
mod status;
mod stop;
pub(crate) mod views;
mod volumes;
mod worker;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod worker_tests;
