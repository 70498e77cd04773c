//! What a controller wants to know of a Pod.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use std::time::Duration;

/// The Pod's phase, empty when unknown.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Whether the Pod has ended, well or not.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether the Pod counts as a replica: it has not ended and is not being deleted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// The node it is on, empty when none.
pub(crate) fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

fn ready_since(pod: &Pod) -> Option<Option<Timestamp>> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    Some(ready.last_transition_time.as_ref().map(|time| time.0))
}

/// Whether the Pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}

/// After how long the Pod has been ready for long enough: `None` when it is not ready, zero when it
/// is available.
pub(crate) fn available_in(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    let since = ready_since(pod)?;
    if min_ready_seconds <= 0 {
        return Some(Duration::ZERO);
    }
    let wanted = SignedDuration::from_secs(min_ready_seconds.into());
    let left = wanted - now.duration_since(since?);
    Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
}

/// Whether the Pod has been ready for long enough.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    available_in(pod, min_ready_seconds, now) == Some(Duration::ZERO)
}

/// How often the Pod's containers were restarted.
pub(crate) fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|status| status.restart_count).max().unwrap_or(0)
}

/// What makes one Pod a better victim than another, in this order: not assigned, not running, not
/// ready, on a node with more siblings, cheaper, ready for less long, restarted more often, younger.
pub(crate) fn deletion_rank(pod: &Pod, siblings_on_node: usize) -> impl Ord + use<> {
    let phase = match phase(pod) {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let cost: i32 = crate::meta::annotation(&pod.metadata, "controller.kubernetes.io/pod-deletion-cost")
        .and_then(|cost| cost.parse().ok())
        .unwrap_or(0);
    let since = ready_since(pod).flatten();
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (
        !node(pod).is_empty(),
        phase,
        is_ready(pod),
        std::cmp::Reverse(siblings_on_node),
        cost,
        std::cmp::Reverse(since),
        std::cmp::Reverse(restarts(pod)),
        std::cmp::Reverse(created),
        pod.metadata.name.clone(),
    )
}
