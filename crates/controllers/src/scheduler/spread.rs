//! Topology spread constraints: how evenly Pods are over the domains of a topology.

use super::matching::{label, satisfies_node_affinity, selects, untolerated};
use super::snapshot::{NodeState, Snapshot};
use k8s_openapi::api::core::v1::{Pod, PodSpec, TopologySpreadConstraint};
use std::collections::HashMap;

/// A constraint of the Pod that is to be placed, with what runs counted.
#[derive(Debug)]
struct Counted {
    key: String,
    max_skew: i64,
    /// Whether a node that violates it is out of the question.
    hard: bool,
    /// Matching Pods by domain, for every domain of the eligible nodes.
    counts: HashMap<String, i64>,
    /// What a domain has at least.
    least: i64,
    /// One if the Pod itself counts.
    own: i64,
}

/// The spread constraints of one Pod.
#[derive(Debug)]
pub(super) struct Spread(Vec<Counted>);

fn counts(pod: &Pod, constraint: &TopologySpreadConstraint, other: &Pod) -> bool {
    let (own, labels) = (pod.metadata.labels.as_ref(), other.metadata.labels.as_ref());
    let same = |key: &String| label(own, key).is_none_or(|value| label(labels, key) == Some(value));
    other.metadata.namespace == pod.metadata.namespace
        && other.metadata.deletion_timestamp.is_none()
        && selects(constraint.label_selector.as_ref(), labels)
        && constraint.match_label_keys.iter().flatten().all(same)
}

fn eligible(node: &NodeState, spec: &PodSpec, constraint: &TopologySpreadConstraint) -> bool {
    (constraint.node_affinity_policy.as_deref() == Some("Ignore") || satisfies_node_affinity(&node.node, spec))
        && (constraint.node_taints_policy.as_deref() != Some("Honor")
            || untolerated(&node.taints, spec, &["NoSchedule", "NoExecute"]).is_none())
}

impl Spread {
    pub(super) fn of(snapshot: &Snapshot, pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self(Vec::new()) };
        let constraints = spec.topology_spread_constraints.as_deref().unwrap_or_default();
        let is_hard = |constraint: &TopologySpreadConstraint| constraint.when_unsatisfiable != "ScheduleAnyway";
        let counted = constraints.iter().map(|constraint| {
            let hard = is_hard(constraint);
            let alike = || constraints.iter().filter(|other| is_hard(other) == hard);
            let mut domains: HashMap<String, i64> = HashMap::new();
            for node in snapshot.nodes.iter().filter(|node| eligible(node, spec, constraint)) {
                // A node counts only where all constraints of the kind have a domain for it.
                if !alike().all(|other| node.label(&other.topology_key).is_some()) {
                    continue;
                }
                let Some(value) = node.label(&constraint.topology_key) else { continue };
                let here = node.pods.iter().filter(|other| counts(pod, constraint, other)).count();
                *domains.entry(value.to_owned()).or_insert(0) += i64::try_from(here).unwrap_or(i64::MAX);
            }
            let too_few =
                i64::try_from(domains.len()).unwrap_or(i64::MAX) < constraint.min_domains.map_or(1, i64::from);
            Counted {
                key: constraint.topology_key.clone(),
                max_skew: i64::from(constraint.max_skew),
                hard,
                least: if too_few { 0 } else { domains.values().min().copied().unwrap_or(0) },
                own: i64::from(counts(pod, constraint, pod)),
                counts: domains,
            }
        });
        Self(counted.collect())
    }

    /// Why the Pod cannot be on a node.
    pub(super) fn refusal(&self, node: &NodeState) -> Option<&'static str> {
        for constraint in self.0.iter().filter(|constraint| constraint.hard) {
            let Some(value) = node.label(&constraint.key) else {
                return Some("node(s) didn't match pod topology spread constraints (missing required label)");
            };
            let here = constraint.counts.get(value).copied().unwrap_or(0);
            if here + constraint.own - constraint.least > constraint.max_skew {
                return Some("node(s) didn't match pod topology spread constraints");
            }
        }
        None
    }

    /// How many Pods are where a node is, over the soft constraints; `None` when there are none.
    pub(super) fn crowd(&self, node: &NodeState) -> Option<i64> {
        let mut soft = self.0.iter().filter(|constraint| !constraint.hard).peekable();
        soft.peek()?;
        Some(
            soft.map(|constraint| {
                let most = constraint.counts.values().max().copied().unwrap_or(0) + constraint.max_skew;
                node.label(&constraint.key).map_or(most, |value| constraint.counts.get(value).copied().unwrap_or(0))
            })
            .sum(),
        )
    }
}
