//! What each node holds, for per-node scale-in.

use super::baseline::Baseline;
use super::observation::{Observation, Pod};

/// What one node holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Live Pods beyond the baseline.
    pub busy: usize,
    /// Live Pods of the baseline: they move when the node goes.
    pub evictable: usize,
    /// Whether a Pod that is not bound yet names this node.
    pub incoming: bool,
}

/// The load of one node. Pods that follow the node and Pods that have ended do not count.
#[must_use]
pub fn load(observation: &Observation, baseline: &Baseline, node: &str) -> Load {
    let mut load = Load::default();
    for pod in observation.pods.iter().filter(|pod| !pod.terminal && !pod.follows_node) {
        match pod.node.as_deref() {
            Some(bound) if bound == node && of_baseline(observation, baseline, pod) => load.evictable += 1,
            Some(bound) if bound == node => load.busy += 1,
            None if pod.names_node.as_deref() == Some(node) => load.incoming = true,
            _ => {}
        }
    }
    load
}

/// Whether a Pod that is not bound and names no node is younger than `hold` seconds, or of unknown
/// age: the scheduler may be about to bind it to any idle node.
pub(super) fn unplaced_recently(observation: &Observation, now: i64, hold: i64) -> bool {
    observation.pods.iter().any(|pod| {
        !pod.terminal
            && !pod.follows_node
            && pod.node.is_none()
            && pod.names_node.is_none()
            && pod.created.is_none_or(|created| now - created < hold)
    })
}

fn of_baseline(observation: &Observation, baseline: &Baseline, pod: &Pod) -> bool {
    pod.workload.as_ref().is_some_and(|key| {
        observation.workloads.iter().any(|workload| workload.key == *key && baseline.covers(workload))
    })
}
