//! When a Pod has to leave a tainted node. Pure.

use super::{NOT_READY, UNREACHABLE};
use crate::scheduler::tolerates;
use k8s_openapi::api::core::v1::{Pod, Taint, Toleration};
use std::time::Duration;

/// When a Pod has to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// It may stay.
    Stays,
    /// It has to leave after that long, unless the taints change.
    After(Duration),
    /// It has to leave.
    Now,
}

/// When a Pod has to leave a node with these taints. A Pod that says nothing about nodes that are not
/// ready or not reachable tolerates them for `presumed`. A taint counts from when it was added, or
/// from `now`.
#[must_use]
pub fn eviction(pod: &Pod, taints: &[Taint], now: jiff::Timestamp, presumed: Duration) -> Eviction {
    if pod.metadata.deletion_timestamp.is_some() {
        return Eviction::Stays;
    }
    let said = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let mut left: Option<Duration> = None;
    for taint in taints.iter().filter(|taint| taint.effect == "NoExecute") {
        let mut matching = said.iter().filter(|toleration| tolerates(toleration, taint)).peekable();
        let tolerated = if matching.peek().is_some() {
            matching
                .filter_map(|toleration| toleration.toleration_seconds)
                .min()
                .map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
        } else if presumes(said, taint) {
            Some(presumed)
        } else {
            return Eviction::Now;
        };
        let Some(tolerated) = tolerated else { continue };
        let added = taint.time_added.as_ref().map_or(now, |added| added.0);
        let since = Duration::try_from(now.duration_since(added)).unwrap_or_default();
        let rest = tolerated.saturating_sub(since);
        left = Some(left.map_or(rest, |left| left.min(rest)));
    }
    match left {
        None => Eviction::Stays,
        Some(Duration::ZERO) => Eviction::Now,
        Some(left) => Eviction::After(left),
    }
}

/// Whether a Pod that said nothing about such a taint is presumed to tolerate it for a while.
fn presumes(said: &[Toleration], taint: &Taint) -> bool {
    let about = |toleration: &&Toleration| {
        let key = toleration.key.as_deref().unwrap_or_default();
        let effect = toleration.effect.as_deref().unwrap_or_default();
        (key == taint.key || key.is_empty()) && (effect == taint.effect || effect.is_empty())
    };
    (taint.key == NOT_READY || taint.key == UNREACHABLE) && !said.iter().any(|toleration| about(&toleration))
}
