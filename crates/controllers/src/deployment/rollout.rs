//! How many replicas each ReplicaSet of a Deployment is to have next. Without I/O.

use super::history::{MAX_REPLICAS, desired};
use crate::meta::{annotation, name, uid};
use crate::template;
use k8s_openapi::api::apps::v1::{DeploymentSpec, ReplicaSet};
use std::sync::Arc;

/// The replicas that one ReplicaSet is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    pub(super) name: String,
    pub(super) replicas: i32,
}

type Sets = [Arc<ReplicaSet>];

pub(super) fn wanted(spec: &DeploymentSpec) -> i32 {
    spec.replicas.unwrap_or(1).max(0)
}

pub(super) fn is_recreate(spec: &DeploymentSpec) -> bool {
    spec.strategy.as_ref().is_some_and(|strategy| strategy.type_.as_deref() == Some("Recreate"))
}

/// `maxSurge` and `maxUnavailable` as counts; zero surge and all unavailable for Recreate.
pub(super) fn fenceposts(spec: &DeploymentSpec) -> (i32, i32) {
    if is_recreate(spec) {
        return (0, wanted(spec));
    }
    let rolling = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let (surge, unavailable) = crate::scale::fenceposts(
        rolling.and_then(|rolling| rolling.max_surge.as_ref()),
        rolling.and_then(|rolling| rolling.max_unavailable.as_ref()),
        wanted(spec),
    );
    (surge, unavailable.min(wanted(spec)))
}

/// The replicas that a ReplicaSet was told to have.
pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// The replicas that a ReplicaSet has.
pub(super) fn actual(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.replicas)
}

pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// The ReplicaSet of the Deployment's template: the oldest, should there be several.
pub(super) fn current<'a>(spec: &DeploymentSpec, sets: &'a Sets) -> Option<&'a Arc<ReplicaSet>> {
    sets.iter().find(|set| {
        let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
        template.is_some_and(|template| template::same(template, &spec.template))
    })
}

fn split<'a>(spec: &DeploymentSpec, sets: &'a Sets) -> (Option<&'a Arc<ReplicaSet>>, Vec<&'a Arc<ReplicaSet>>) {
    let current = current(spec, sets);
    let old =
        sets.iter().filter(|set| current.is_none_or(|current| uid(&current.metadata) != uid(&set.metadata))).collect();
    (current, old)
}

/// The replicas with which the new ReplicaSet begins.
pub(super) fn first_replicas(spec: &DeploymentSpec, sets: &Sets) -> i32 {
    if is_recreate(spec) {
        return wanted(spec);
    }
    let total: i32 = sets.iter().map(|set| replicas(set)).sum();
    (wanted(spec) + fenceposts(spec).0 - total).clamp(0, wanted(spec))
}

/// Only the current ReplicaSet changes.
pub(super) fn current_to(spec: &DeploymentSpec, sets: &Sets, replicas: i32) -> Vec<Scale> {
    current(spec, sets)
        .map(|current| Scale { name: name(&current.metadata).to_owned(), replicas })
        .into_iter()
        .collect()
}

/// One step of a rolling update: the new one up as far as the surge allows, or else the old ones
/// down as far as availability allows.
pub(super) fn rolling(spec: &DeploymentSpec, sets: &Sets) -> Vec<Scale> {
    let (Some(current), old) = split(spec, sets) else { return Vec::new() };
    let (surge, unavailable) = fenceposts(spec);
    let wanted = wanted(spec);
    let now = replicas(current);
    let total: i32 = sets.iter().map(|set| replicas(set)).sum();
    if now > wanted {
        return current_to(spec, sets, wanted);
    }
    if now < wanted {
        let room = (wanted + surge - total).clamp(0, wanted - now);
        if room > 0 {
            return current_to(spec, sets, now + room);
        }
    }
    let least_available = wanted - unavailable;
    let not_available_of_current = (now - available(current)).max(0);
    let mut may_go = total - least_available - not_available_of_current;
    let mut scales: Vec<Scale> = Vec::new();
    let mut left: Vec<(&Arc<ReplicaSet>, i32)> = old.iter().map(|set| (*set, replicas(set))).collect();
    // Replicas that do not work go first: they cost no availability.
    for (set, count) in &mut left {
        let broken = (*count - available(set)).clamp(0, may_go.max(0));
        *count -= broken;
        may_go -= broken;
    }
    let available_now: i32 = sets.iter().map(|set| available(set)).sum();
    // Both what was told and what is seen: the latter may be behind.
    let mut may_go = may_go.min(available_now - least_available);
    for (set, count) in &mut left {
        let gone = (*count).min(available(set)).clamp(0, may_go.max(0));
        *count -= gone;
        may_go -= gone;
    }
    for (set, count) in left {
        if count != replicas(set) {
            scales.push(Scale { name: name(&set.metadata).to_owned(), replicas: count });
        }
    }
    scales
}

/// Shares a changed number of replicas among the ReplicaSets in proportion to their sizes.
pub(super) fn proportional(spec: &DeploymentSpec, sets: &Sets) -> Vec<Scale> {
    let (current, _) = split(spec, sets);
    let active: Vec<&Arc<ReplicaSet>> = sets.iter().filter(|set| replicas(set) > 0).collect();
    let to = |set: &ReplicaSet, replicas: i32| Scale { name: name(&set.metadata).to_owned(), replicas };
    match active[..] {
        // Nothing runs: the newest begins.
        [] => return current.map(|current| to(current, wanted(spec))).into_iter().collect(),
        [only] => return vec![to(only, wanted(spec))],
        _ => {}
    }
    if let Some(current) = current
        && replicas(current) == wanted(spec)
        && available(current) == wanted(spec)
    {
        // The rollout is complete: only leftovers remain.
        return active
            .iter()
            .filter(|set| uid(&set.metadata) != uid(&current.metadata))
            .map(|set| to(set, 0))
            .collect();
    }
    if is_recreate(spec) {
        return Vec::new();
    }
    let total: i32 = active.iter().map(|set| replicas(set)).sum();
    let allowed = if wanted(spec) > 0 { wanted(spec) + fenceposts(spec).0 } else { 0 };
    let mut rest = allowed - total;
    let mut by_size = active;
    // Larger ones first; among equals, those that grow are the newer, those that shrink the older.
    by_size.sort_by_key(|set| -replicas(set));
    let mut shares: Vec<(&ReplicaSet, i32)> = Vec::new();
    for set in by_size {
        let most = annotation(&set.metadata, MAX_REPLICAS).and_then(|most| most.parse::<i32>().ok());
        let most = most.or_else(|| desired(set)).filter(|most| *most > 0).unwrap_or(total);
        let exact = f64::from(replicas(set)) * f64::from(allowed) / f64::from(most.max(1));
        #[allow(clippy::cast_possible_truncation)]
        let share = exact.round() as i32 - replicas(set);
        let share = if rest >= 0 { share.clamp(0, rest) } else { share.clamp(rest, 0) };
        rest -= share;
        shares.push((set, (replicas(set) + share).max(0)));
    }
    if let Some((_, first)) = shares.first_mut() {
        *first = (*first + rest).max(0);
    }
    shares.into_iter().filter(|(set, count)| *count != replicas(set)).map(|(set, count)| to(set, count)).collect()
}

/// Whether every wanted replica is of the current template and available, and no other is left.
pub(super) fn is_complete(spec: &DeploymentSpec, sets: &Sets) -> bool {
    let total: i32 = sets.iter().map(|set| actual(set)).sum();
    current(spec, sets).is_some_and(|current| {
        actual(current) == wanted(spec) && total == wanted(spec) && available(current) == wanted(spec)
    })
}
