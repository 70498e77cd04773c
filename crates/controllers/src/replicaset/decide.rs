//! How many Pods a ReplicaSet lacks, which are too many, and its status. Without I/O.

use crate::meta::labels;
use crate::pods::{available_in, deletion_rank, is_active, is_finished, is_ready, node};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What to do about the number of Pods.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Nothing,
    Create(usize),
    Delete(Vec<Arc<Pod>>),
}

/// Compares the wanted with the active Pods; at most `max` are touched.
pub(super) fn decide(set: &ReplicaSet, owned: &[Arc<Pod>], max: usize) -> Step {
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let wanted = usize::try_from(wanted).unwrap_or(0);
    let mut active: Vec<&Arc<Pod>> = owned.iter().filter(|pod| is_active(pod)).collect();
    match active.len() {
        have if have < wanted => Step::Create((wanted - have).min(max)),
        have if have > wanted => {
            let mut on_node: HashMap<&str, usize> = HashMap::new();
            for pod in &active {
                *on_node.entry(node(pod)).or_default() += 1;
            }
            active.sort_by_cached_key(|pod| deletion_rank(pod, on_node.get(node(pod)).copied().unwrap_or(0)));
            Step::Delete(active.into_iter().take((have - wanted).min(max)).cloned().collect())
        }
        _ => Step::Nothing,
    }
}

/// The status, and when it changes by the mere passing of time.
pub(super) struct Observed {
    pub(super) status: ReplicaSetStatus,
    pub(super) look_again: Option<Duration>,
}

pub(super) fn status(
    set: &ReplicaSet,
    owned: &[Arc<Pod>],
    failure: Option<(&'static str, String)>,
    now: Timestamp,
) -> Observed {
    let spec = set.spec.as_ref();
    let min_ready = spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let template = spec.and_then(|spec| spec.template.as_ref()).and_then(|template| template.metadata.as_ref());
    let (mut replicas, mut labelled, mut ready, mut available) = (0, 0, 0, 0);
    let mut look_again: Option<Duration> = None;
    for pod in owned.iter().filter(|pod| is_active(pod)) {
        replicas += 1;
        let has_all = template.is_none_or(|template| {
            labels(template).iter().all(|(key, value)| labels(&pod.metadata).get(key) == Some(value))
        });
        labelled += i32::from(has_all);
        ready += i32::from(is_ready(pod));
        match available_in(pod, min_ready, now) {
            Some(Duration::ZERO) => available += 1,
            Some(left) => look_again = Some(look_again.map_or(left, |known| known.min(left))),
            None => {}
        }
    }
    let terminating = owned.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some() && !is_finished(pod)).count();
    let before = set.status.clone().unwrap_or_default();
    let mut conditions = before.conditions.unwrap_or_default();
    let known = conditions.iter().find(|condition| condition.type_ == "ReplicaFailure").cloned();
    conditions.retain(|condition| condition.type_ != "ReplicaFailure");
    if let Some((reason, message)) = failure {
        let since = known.filter(|known| known.status == "True" && known.reason.as_deref() == Some(reason));
        conditions.push(ReplicaSetCondition {
            type_: "ReplicaFailure".to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: since.and_then(|known| known.last_transition_time).or(Some(Time(now))),
        });
    }
    let some = |count: i32| (count != 0).then_some(count);
    let status = ReplicaSetStatus {
        replicas,
        fully_labeled_replicas: some(labelled),
        ready_replicas: some(ready),
        available_replicas: some(available),
        terminating_replicas: Some(i32::try_from(terminating).unwrap_or(i32::MAX)),
        observed_generation: set.metadata.generation,
        conditions: (!conditions.is_empty()).then_some(conditions),
    };
    Observed { status, look_again }
}
