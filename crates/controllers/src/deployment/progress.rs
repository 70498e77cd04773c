//! The status of a Deployment: its counts, and how its rollout progresses. Without I/O.

use super::rollout::{actual, available, current, fenceposts, is_complete, replicas, wanted};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::sync::Arc;
use std::time::Duration;

const AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// The status, and when it changes by the mere passing of time.
pub(super) fn status(
    deployment: &Deployment,
    spec: &DeploymentSpec,
    sets: &[Arc<ReplicaSet>],
    now: Timestamp,
) -> (DeploymentStatus, Option<Duration>) {
    let before = deployment.status.clone().unwrap_or_default();
    let sum = |count: fn(&ReplicaSet) -> i32| -> i32 { sets.iter().map(|set| count(set)).sum() };
    let ready = |set: &ReplicaSet| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    let terminating =
        |set: &ReplicaSet| set.status.as_ref().and_then(|status| status.terminating_replicas).unwrap_or(0);
    let total = sum(actual);
    let available_now = sum(available);
    let updated = current(spec, sets).map_or(0, |set| actual(set));
    let some = |count: i32| (count != 0).then_some(count);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: some(total),
        updated_replicas: some(updated),
        ready_replicas: some(sum(ready)),
        available_replicas: some(available_now),
        unavailable_replicas: some((sum(replicas) - available_now).max(0)),
        terminating_replicas: Some(sum(terminating)),
        collision_count: before.collision_count,
        conditions: None,
    };
    let mut conditions = Conditions { list: before.conditions.clone().unwrap_or_default(), now };
    let least = wanted(spec) - fenceposts(spec).1;
    if available_now >= least {
        conditions.set("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.");
    } else {
        let message = "Deployment does not have minimum availability.";
        conditions.set("Available", "False", "MinimumReplicasUnavailable", message);
    }
    let look_again = progressing(deployment, spec, sets, &before, &status, &mut conditions);
    failure(sets, &mut conditions);
    status.conditions = Some(conditions.list);
    (status, look_again)
}

struct Conditions {
    list: Vec<DeploymentCondition>,
    now: Timestamp,
}

impl Conditions {
    fn get(&self, type_: &str) -> Option<&DeploymentCondition> {
        self.list.iter().find(|condition| condition.type_ == type_)
    }

    fn reason(&self, type_: &str) -> &str {
        self.get(type_).and_then(|condition| condition.reason.as_deref()).unwrap_or_default()
    }

    /// Sets a condition; its times move only when it says something new.
    fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let said =
            self.get(type_).is_some_and(|known| known.status == status && known.reason.as_deref() == Some(reason));
        if !said {
            self.touch(type_, status, reason, message);
        }
    }

    /// Sets a condition as of now.
    fn touch(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let since =
            self.get(type_).filter(|known| known.status == status).map(|known| known.last_transition_time.clone());
        let condition = DeploymentCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_update_time: Some(Time(self.now)),
            last_transition_time: since.unwrap_or(Some(Time(self.now))),
        };
        match self.list.iter_mut().find(|known| known.type_ == type_) {
            Some(known) => *known = condition,
            None => self.list.push(condition),
        }
    }
}

fn progressing(
    deployment: &Deployment,
    spec: &DeploymentSpec,
    sets: &[Arc<ReplicaSet>],
    before: &DeploymentStatus,
    status: &DeploymentStatus,
    conditions: &mut Conditions,
) -> Option<Duration> {
    const TYPE: &str = "Progressing";
    // No deadline is written as the largest number.
    let deadline = spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)?;
    if spec.paused == Some(true) {
        if conditions.reason(TYPE) != PAUSED {
            conditions.set(TYPE, "Unknown", PAUSED, "Deployment is paused");
        }
        return None;
    }
    if conditions.reason(TYPE) == PAUSED {
        conditions.set(TYPE, "Unknown", "DeploymentResumed", "Deployment is resumed");
    }
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let current = current(spec, sets);
    let subject = match current {
        Some(set) => format!("ReplicaSet {:?}", crate::meta::name(&set.metadata)),
        None => format!("Deployment {name:?}"),
    };
    let complete = is_complete(spec, sets) && deployment.metadata.deletion_timestamp.is_none();
    if complete {
        let message = format!("{subject} has successfully progressed.");
        conditions.set(TYPE, "True", AVAILABLE, &message);
        return None;
    }
    let old = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
    let progressed = status.updated_replicas.unwrap_or(0) > before.updated_replicas.unwrap_or(0)
        || old(status) < old(before)
        || status.ready_replicas.unwrap_or(0) > before.ready_replicas.unwrap_or(0)
        || status.available_replicas.unwrap_or(0) > before.available_replicas.unwrap_or(0);
    let message = format!("{subject} is progressing.");
    match conditions.get(TYPE) {
        None if current.is_some() => {
            let message =
                format!("Created new replica set {:?}", current.map_or("", |set| crate::meta::name(&set.metadata)));
            conditions.touch(TYPE, "True", "NewReplicaSetCreated", &message);
        }
        None => conditions.touch(TYPE, "True", "ReplicaSetUpdated", &message),
        Some(_) if progressed => conditions.touch(TYPE, "True", "ReplicaSetUpdated", &message),
        // A rollout after one that had ended: the deadline begins anew.
        Some(known) if known.reason.as_deref() == Some(AVAILABLE) && new_rollout(before, status, current) => {
            conditions.touch(TYPE, "True", "ReplicaSetUpdated", &message);
        }
        Some(_) => {}
    }
    if matches!(conditions.reason(TYPE), AVAILABLE | TIMED_OUT) {
        return None;
    }
    let since = conditions.get(TYPE).and_then(|known| known.last_update_time.as_ref()).map_or(conditions.now, |t| t.0);
    let left = SignedDuration::from_secs(deadline.into()) - conditions.now.duration_since(since);
    if left > SignedDuration::ZERO {
        return Some(Duration::try_from(left).unwrap_or(Duration::ZERO));
    }
    conditions.set(TYPE, "False", TIMED_OUT, &format!("{subject} has timed out progressing."));
    None
}

/// Whether replicas that are missing are a new template's and not merely ones that have failed.
fn new_rollout(before: &DeploymentStatus, status: &DeploymentStatus, current: Option<&Arc<ReplicaSet>>) -> bool {
    before.observed_generation != status.observed_generation
        || current.is_none()
        || status.updated_replicas.unwrap_or(0) < before.updated_replicas.unwrap_or(0)
}

/// Tells of Pods that could not be created.
fn failure(sets: &[Arc<ReplicaSet>], conditions: &mut Conditions) {
    let failed = sets
        .iter()
        .rev()
        .filter_map(|set| set.status.as_ref()?.conditions.as_ref())
        .flatten()
        .find(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True");
    match failed {
        Some(failed) => {
            let reason = failed.reason.as_deref().unwrap_or_default();
            conditions.set("ReplicaFailure", "True", reason, failed.message.as_deref().unwrap_or_default());
        }
        None => conditions.list.retain(|condition| condition.type_ != "ReplicaFailure"),
    }
}
