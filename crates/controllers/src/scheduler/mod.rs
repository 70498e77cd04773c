//! The scheduler: which Pod goes on which node.
//!
//! One key is one logical cluster. A step takes a snapshot of the cluster's nodes and Pods, decides on
//! its waiting Pods in the order of their priority and age, and binds them. Whatever may change a
//! decision (a Pod, a node, the labels of a namespace) brings the cluster back.

mod affinity;
mod controller;
mod decide;
mod matching;
mod resources;
mod score;
mod snapshot;
mod spread;

pub use controller::{Options, spawn};
pub use decide::{Unschedulable, decide};
pub use matching::tolerates;
pub use resources::{Resources, presumed, requests};
pub use snapshot::Snapshot;

#[cfg(test)]
mod tests;
