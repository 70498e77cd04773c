//! Pods on this node: what each wants, what there is, and the worker that closes the gap.

pub(crate) mod env;
pub(crate) mod model;
pub(crate) mod plan;
pub(crate) mod resources;
pub(crate) mod status;
pub(crate) mod volumes;

#[cfg(test)]
mod tests;
