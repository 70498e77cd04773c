//! Nodes that come and go: whether a node is alive, the taints that follow from its state, the
//! eviction of Pods that do not tolerate them, and the removal of Pods whose node is gone.

mod controller;
mod evict;
mod health;
mod taints;

pub use controller::{Options, spawn};
pub use evict::{Eviction, eviction};
pub use health::{Health, health};
pub use taints::{taints_by_state, taints_to_write};

/// A node that says it is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// A node that says nothing any more.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// A node that someone has cordoned.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The status of one of a node's conditions.
pub(crate) fn condition<'a>(node: &'a k8s_openapi::api::core::v1::Node, type_: &str) -> Option<&'a str> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|condition| condition.type_ == type_).map(|condition| condition.status.as_str())
}

#[cfg(test)]
mod tests;
