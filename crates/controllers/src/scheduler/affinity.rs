//! Affinity and anti-affinity between Pods, required and preferred, by topology.

use super::matching::{label, selects};
use super::snapshot::{NodeState, Snapshot};
use k8s_openapi::api::core::v1::{Affinity, Pod, PodAffinityTerm, WeightedPodAffinityTerm};
use std::collections::{HashMap, HashSet};

/// A label of nodes and its value: where a topology's domain is.
type Domain = (String, String);

/// What a Pod that runs weighs for a Pod that it requires to be near.
const REQUIRED_WEIGHT: i64 = 1;

/// What follows from the Pods that run for one Pod that is to be placed.
#[derive(Debug, Default)]
pub(super) struct PodAffinity {
    /// Where Pods that run do not want it.
    refused: HashSet<Domain>,
    /// Where it does not want to be.
    avoided: HashSet<Domain>,
    /// For each term that it requires, the key and the domains that satisfy all terms.
    required: Vec<(String, HashSet<String>)>,
    /// No Pod satisfies its required terms, but it does so itself: it is the first of its group.
    first: bool,
    preferred: HashMap<Domain, i64>,
}

fn required_near(affinity: Option<&Affinity>) -> &[PodAffinityTerm] {
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_deref()).unwrap_or_default()
}

fn required_apart(affinity: Option<&Affinity>) -> &[PodAffinityTerm] {
    let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    apart.and_then(|apart| apart.required_during_scheduling_ignored_during_execution.as_deref()).unwrap_or_default()
}

/// The preferred terms with their weights; negative for anti-affinity.
fn preferred(affinity: Option<&Affinity>) -> impl Iterator<Item = (&PodAffinityTerm, i64)> {
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let near = near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_deref());
    let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let apart = apart.and_then(|apart| apart.preferred_during_scheduling_ignored_during_execution.as_deref());
    fn weighted(term: &WeightedPodAffinityTerm) -> (&PodAffinityTerm, i64) {
        (&term.pod_affinity_term, i64::from(term.weight))
    }
    let apart = apart.unwrap_or_default().iter().map(weighted).map(|(term, weight)| (term, -weight));
    near.unwrap_or_default().iter().map(weighted).chain(apart)
}

fn affinity_of(pod: &Pod) -> Option<&Affinity> {
    pod.spec.as_ref()?.affinity.as_ref()
}

/// Whether `owner`'s term is about `other`.
fn about(snapshot: &Snapshot, owner: &Pod, term: &PodAffinityTerm, other: &Pod) -> bool {
    let namespace = other.metadata.namespace.as_deref().unwrap_or_default();
    let named = term.namespaces.as_deref().unwrap_or_default();
    let in_scope = if named.is_empty() && term.namespace_selector.is_none() {
        owner.metadata.namespace.as_deref().unwrap_or_default() == namespace
    } else {
        named.iter().any(|named| named == namespace)
            || term
                .namespace_selector
                .as_ref()
                .is_some_and(|selector| selects(Some(selector), Some(&snapshot.namespace_labels(namespace))))
    };
    let (own, labels) = (owner.metadata.labels.as_ref(), other.metadata.labels.as_ref());
    let same = |key: &String| label(own, key).is_none_or(|value| label(labels, key) == Some(value));
    let differs = |key: &String| label(own, key).is_none_or(|value| label(labels, key) != Some(value));
    in_scope
        && selects(term.label_selector.as_ref(), labels)
        && term.match_label_keys.iter().flatten().all(same)
        && term.mismatch_label_keys.iter().flatten().all(differs)
}

fn domain(node: &NodeState, key: &str) -> Option<Domain> {
    node.label(key).map(|value| (key.to_owned(), value.to_owned()))
}

impl PodAffinity {
    pub(super) fn of(snapshot: &Snapshot, pod: &Pod) -> Self {
        let affinity = affinity_of(pod);
        let (near, apart) = (required_near(affinity), required_apart(affinity));
        let mut this = Self {
            required: near.iter().map(|term| (term.topology_key.clone(), HashSet::new())).collect(),
            ..Self::default()
        };
        let mut someone = false;
        for node in &snapshot.nodes {
            for other in &node.pods {
                let theirs = affinity_of(other);
                let refusing = required_apart(theirs).iter().filter(|term| about(snapshot, other, term, pod));
                this.refused.extend(refusing.filter_map(|term| domain(node, &term.topology_key)));
                let avoiding = apart.iter().filter(|term| about(snapshot, pod, term, other));
                this.avoided.extend(avoiding.filter_map(|term| domain(node, &term.topology_key)));
                if !near.is_empty() && near.iter().all(|term| about(snapshot, pod, term, other)) {
                    for (key, domains) in &mut this.required {
                        if let Some(value) = node.label(key) {
                            domains.insert(value.to_owned());
                            someone = true;
                        }
                    }
                }
                let own = preferred(affinity).filter(|(term, _)| about(snapshot, pod, term, other));
                let mutual = preferred(theirs)
                    .chain(required_near(theirs).iter().map(|term| (term, REQUIRED_WEIGHT)))
                    .filter(|(term, _)| about(snapshot, other, term, pod));
                for (term, weight) in own.chain(mutual) {
                    if let Some(domain) = domain(node, &term.topology_key) {
                        *this.preferred.entry(domain).or_insert(0) += weight;
                    }
                }
            }
        }
        this.first = !someone && near.iter().all(|term| about(snapshot, pod, term, pod));
        this
    }

    /// Why the Pod cannot be on a node.
    pub(super) fn refusal(&self, node: &NodeState) -> Option<&'static str> {
        let near = self
            .required
            .iter()
            .all(|(key, domains)| node.label(key).is_some_and(|value| self.first || domains.contains(value)));
        let within =
            |domains: &HashSet<Domain>| domains.iter().any(|(key, value)| node.label(key) == Some(value.as_str()));
        if !near {
            Some("node(s) didn't match pod affinity rules")
        } else if within(&self.avoided) {
            Some("node(s) didn't match pod anti-affinity rules")
        } else if within(&self.refused) {
            Some("node(s) didn't satisfy existing pods anti-affinity rules")
        } else {
            None
        }
    }

    /// How much is preferred about a node; any integer.
    pub(super) fn preference(&self, node: &NodeState) -> i64 {
        self.preferred
            .iter()
            .filter(|((key, value), _)| node.label(key) == Some(value.as_str()))
            .map(|(_, weight)| weight)
            .sum()
    }
}
