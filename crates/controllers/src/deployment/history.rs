//! Revisions of a Deployment: their numbers, annotations, new ReplicaSets and the history's limit.

use super::rollout::{actual, fenceposts, replicas, wanted};
use crate::meta::{annotation, controller_reference, name, uid};
use crate::template::{self, HASH_LABEL};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Annotations of a Deployment that are not its ReplicaSets'.
const OWN: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

pub(super) fn revision_of(metadata: &ObjectMeta) -> i64 {
    annotation(metadata, REVISION).and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

pub(super) fn revision(set: &ReplicaSet) -> i64 {
    revision_of(&set.metadata)
}

/// The replicas that the Deployment wanted when it last scaled the ReplicaSet.
pub(super) fn desired(set: &ReplicaSet) -> Option<i32> {
    annotation(&set.metadata, DESIRED_REPLICAS)?.parse().ok()
}

/// One more than the newest revision of the others.
pub(super) fn next_revision(sets: &[Arc<ReplicaSet>], current: Option<&Arc<ReplicaSet>>) -> i64 {
    let others = sets.iter().filter(|set| current.is_none_or(|current| uid(&current.metadata) != uid(&set.metadata)));
    others.map(|set| revision(set)).max().unwrap_or(0) + 1
}

fn inherited(deployment: &Deployment) -> BTreeMap<String, String> {
    let mut annotations = deployment.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !OWN.contains(&key.as_str()));
    annotations
}

/// The annotations to set on the current ReplicaSet; `None` when they are as they should be.
pub(super) fn annotations_of(
    deployment: &Deployment,
    current: &ReplicaSet,
    next: i64,
    spec: &DeploymentSpec,
) -> Option<BTreeMap<String, String>> {
    let mut wanted = inherited(deployment);
    let own = revision(current);
    if own < next {
        wanted.insert(REVISION.to_owned(), next.to_string());
        if own > 0 {
            let mut history = annotation(&current.metadata, REVISION_HISTORY).unwrap_or_default().to_owned();
            if !history.is_empty() {
                history.push(',');
            }
            history.push_str(&own.to_string());
            // The newest part is kept when a Deployment goes back and forth for ever.
            while history.len() > 2000 {
                let Some((_, rest)) = history.split_once(',') else { break };
                history = rest.to_owned();
            }
            wanted.insert(REVISION_HISTORY.to_owned(), history);
        }
    }
    let min_ready = current.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let same = wanted.iter().all(|(key, value)| annotation(&current.metadata, key) == Some(value))
        && min_ready == spec.min_ready_seconds.unwrap_or(0);
    (!same).then_some(wanted)
}

/// A ReplicaSet of the Deployment's template.
pub(super) fn make(deployment: &Deployment, spec: &DeploymentSpec, replicas: i32, revision: i64) -> ReplicaSet {
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let hash = template::hash(&spec.template, collisions);
    let mut template = spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut selector = spec.selector.clone();
    selector.match_labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
    let mut annotations = inherited(deployment);
    let most = wanted(spec) + fenceposts(spec).0;
    annotations.insert(REVISION.to_owned(), revision.to_string());
    annotations.insert(DESIRED_REPLICAS.to_owned(), wanted(spec).to_string());
    annotations.insert(MAX_REPLICAS.to_owned(), most.to_string());
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", name(&deployment.metadata))),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    }
}

/// The oldest empty ReplicaSets beyond the history's limit.
pub(super) fn superfluous<'a>(spec: &DeploymentSpec, sets: &'a [Arc<ReplicaSet>]) -> Vec<&'a Arc<ReplicaSet>> {
    let limit = usize::try_from(spec.revision_history_limit.unwrap_or(10)).unwrap_or(0);
    let current = super::rollout::current(spec, sets);
    let mut old: Vec<&Arc<ReplicaSet>> = sets
        .iter()
        .filter(|set| current.is_none_or(|current| uid(&current.metadata) != uid(&set.metadata)))
        .filter(|set| replicas(set) == 0 && actual(set) == 0)
        .filter(|set| {
            let observed = set.status.as_ref().and_then(|status| status.observed_generation);
            observed >= set.metadata.generation
        })
        .collect();
    old.sort_by_key(|set| revision(set));
    let excess = old.len().saturating_sub(limit);
    old.truncate(excess);
    old
}
