//! The measured baseline: workloads that every cluster has from birth ask for nothing.
//!
//! It is a difference, never a list of names: a workload of the base layer counts as ours only while
//! its spec is exactly what was measured. Once the tenant changes it, it is the tenant's request.

use super::observation::{Observation, Workload, WorkloadKey};
use std::collections::BTreeMap;

/// The workloads that the base layer holds, with the hashes of their specs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baseline(BTreeMap<WorkloadKey, [u8; 32]>);

impl Baseline {
    /// Measures workloads as a cluster reads them back.
    pub fn measure<'a>(workloads: impl IntoIterator<Item = &'a Workload>) -> Self {
        Self(workloads.into_iter().map(|workload| (workload.key.clone(), workload.spec_hash)).collect())
    }

    /// Whether a workload is exactly as it was measured.
    #[must_use]
    pub fn covers(&self, workload: &Workload) -> bool {
        self.0.get(&workload.key) == Some(&workload.spec_hash)
    }
}

/// What is left of an observation beside the baseline.
pub(super) struct Narrowed<'a> {
    /// Workloads beyond the baseline, without DaemonSets.
    pub(super) workloads: Vec<&'a Workload>,
    /// Pods that count as themselves: no workload that was read stands for them.
    pub(super) bare_pods: Vec<&'a super::observation::Pod>,
}

/// Drops the baseline and whatever follows the nodes; a Pod and its workload are one unit.
pub(super) fn narrow<'a>(observation: &'a Observation, baseline: &Baseline) -> Narrowed<'a> {
    let workloads = observation
        .workloads
        .iter()
        .filter(|w| w.key.kind != super::observation::WorkloadKind::DaemonSet && !baseline.covers(w))
        .collect();
    let read = |key: &WorkloadKey| observation.workloads.iter().any(|workload| workload.key == *key);
    let bare_pods = observation
        .pods
        .iter()
        .filter(|pod| !pod.follows_node && !pod.terminal && !pod.workload.as_ref().is_some_and(read))
        .collect();
    Narrowed { workloads, bare_pods }
}
