//! The scale decision: a pure function of one observation, what was remembered, and the time.
//!
//! It asks whether *anything* wants to run, not whether a specific Pod does, so that an error in a
//! count can only ask for the wrong number of nodes and never make zero unreachable. The number of
//! nodes is read from the cluster each time; what is remembered ([`State`]) is only since when
//! something has been idle and how often the provider declined. State advances only when the
//! decision was carried out.

mod backoff;
mod baseline;
mod demand;
mod expiry;
mod loads;
mod observation;
mod resources;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use backoff::Backoff;
pub use baseline::Baseline;
pub use expiry::{gate, roll_up};
pub use loads::{Load, load};
pub use observation::{Claim, ClaimState, Node, Observation, Pod, Workload, WorkloadKey, WorkloadKind};
pub use resources::Resources;

use std::collections::BTreeMap;

/// How a cluster's nodes scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// At most this many nodes; at least one.
    pub max_nodes: u32,
    /// Pods that one node is asked to hold.
    pub pods_per_node: u32,
    /// Seconds that a cluster or a node must be idle before it is released.
    pub hold: i64,
    /// Seconds that a node may be not Ready before its machine is given up.
    pub loss_grace: i64,
    /// Wait after the first decline, seconds; doubled for each further one.
    pub backoff_base: i64,
    /// Longest wait after a decline, seconds.
    pub backoff_cap: i64,
    /// What one node offers to Pods.
    pub node: Resources,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_nodes: 10,
            pods_per_node: 8,
            hold: 120,
            loss_grace: 60,
            backoff_base: 15,
            backoff_cap: 300,
            node: Resources { cpu_milli: 1000, memory: 448 << 20 },
        }
    }
}

/// What a cluster's next decision must know of the ones before. Empty for an idle cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Since when nothing has wanted to run.
    pub idle_since: Option<i64>,
    /// Since when each node has held nothing beyond the baseline.
    pub node_idle_since: BTreeMap<String, i64>,
    /// The wait after declines.
    pub backoff: Option<Backoff>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Give up these claims (declined, failed, or their node lost) and their Node objects.
    GiveUp(Vec<String>),
    /// Claim this many machines.
    Provision(u32),
    /// Release the claim of this one node, if it still holds nothing once it is cordoned.
    Release {
        /// The claim.
        claim: String,
        /// Its node.
        node: String,
    },
    /// Release every claim.
    Teardown,
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// What to remember once it is done.
    pub state: State,
    /// Nodes that the work asks for.
    pub target: u32,
    /// Decide again at this time even if nothing changes, seconds since the epoch.
    pub wake_at: Option<i64>,
    /// Why, for people.
    pub reason: String,
}

/// Decides. `now` is in seconds since the epoch.
#[must_use]
pub fn decide(seen: &Observation, state: &State, baseline: &Baseline, now: i64, options: &Options) -> Decision {
    let left = baseline::narrow(seen, baseline);
    let target = demand::target(&left, options);
    let mut next = state.clone();
    next.node_idle_since.retain(|name, _| seen.nodes.iter().any(|node| node.name == *name));
    if target == 0 || seen.claims.iter().any(|claim| claim.state == ClaimState::Joined) {
        next.backoff = None;
    }

    let ended = ended(seen, now, options);
    if !ended.is_empty() {
        let declined = seen.claims.iter().find(|claim| claim.state == ClaimState::Declined);
        if let Some(claim) = declined.filter(|_| target > 0) {
            let before = state.backoff;
            next.backoff = Some(Backoff::after_decline(before, now, options.backoff_base, options.backoff_cap));
            let reason = format!("no machine came: {}", claim.message);
            return decision(Action::GiveUp(ended), next, target, None, reason);
        }
        return decision(Action::GiveUp(ended), next, target, None, "a machine was lost".to_owned());
    }
    // A node is counted by the cluster that has it; a claim counts only until its node appears.
    let coming = seen
        .claims
        .iter()
        .filter(|claim| claim.state == ClaimState::Coming && !seen.nodes.iter().any(|node| node.name == claim.node));
    let releasing =
        |node: &&Node| !seen.claims.iter().any(|claim| claim.node == node.name && claim.state == ClaimState::Releasing);
    let count = u32::try_from(seen.nodes.iter().filter(releasing).count() + coming.count()).unwrap_or(u32::MAX);

    if target == 0 {
        return without_intent(seen, next, now, count, options);
    }
    next.idle_since = None;
    note_idle_nodes(seen, baseline, &mut next, now);
    if count < target {
        next.node_idle_since.clear();
        if let Some(wait) = next.backoff.filter(|wait| now < wait.until) {
            let reason = format!("no machine came {} times in a row; waiting before asking again", wait.declines);
            return decision(Action::Nothing, next, target, Some(wait.until), reason);
        }
        let reason = format!("work asks for {target} nodes, {count} are there or coming");
        return decision(Action::Provision(target - count), next, target, None, reason);
    }
    if count > target {
        return scale_in(seen, baseline, next, now, target, options);
    }
    next.node_idle_since.clear();
    decision(Action::Nothing, next, target, loss_check(seen, options), "as many nodes as the work asks for".to_owned())
}

fn decision(action: Action, state: State, target: u32, wake_at: Option<i64>, reason: String) -> Decision {
    Decision { action, state, target, wake_at, reason }
}

/// Claims that ended or whose node has been not Ready for too long.
fn ended(seen: &Observation, now: i64, options: &Options) -> Vec<String> {
    let lost = |claim: &Claim| {
        let node = seen.nodes.iter().find(|node| node.name == claim.node);
        node.and_then(|node| node.not_ready_since).is_some_and(|since| now - since >= options.loss_grace)
    };
    seen.claims
        .iter()
        .filter(|claim| match claim.state {
            ClaimState::Declined | ClaimState::Failed => true,
            ClaimState::Joined => lost(claim),
            ClaimState::Coming | ClaimState::Releasing => false,
        })
        .map(|claim| claim.name.clone())
        .collect()
}

/// When a node that is not Ready will have been so for too long.
fn loss_check(seen: &Observation, options: &Options) -> Option<i64> {
    let held =
        |node: &&Node| seen.claims.iter().any(|claim| claim.node == node.name && claim.state == ClaimState::Joined);
    let since = seen.nodes.iter().filter(held).filter_map(|node| node.not_ready_since).min()?;
    Some(since + options.loss_grace)
}

fn without_intent(seen: &Observation, mut next: State, now: i64, count: u32, options: &Options) -> Decision {
    next.node_idle_since.clear();
    let held = seen.claims.iter().any(|claim| claim.state != ClaimState::Releasing);
    if count == 0 && !held {
        return decision(Action::Nothing, State::default(), 0, None, "nothing wants to run".to_owned());
    }
    if !held {
        // Nodes that we hold no claim for are not ours to take away.
        next.idle_since = None;
        return decision(Action::Nothing, next, 0, None, "nothing wants to run; no claim is held".to_owned());
    }
    let since = *next.idle_since.get_or_insert(now);
    if now - since >= options.hold {
        return decision(Action::Teardown, next, 0, None, format!("nothing has wanted to run for {} s", now - since));
    }
    let reason = "nothing wants to run; holding before zero".to_owned();
    decision(Action::Nothing, next, 0, Some(since + options.hold), reason)
}

/// Keeps the clock of every idle node.
fn note_idle_nodes(seen: &Observation, baseline: &Baseline, next: &mut State, now: i64) {
    for node in &seen.nodes {
        let load = load(seen, baseline, &node.name);
        if load.busy == 0 && !load.incoming {
            next.node_idle_since.entry(node.name.clone()).or_insert(now);
        } else {
            next.node_idle_since.remove(&node.name);
        }
    }
}

/// More nodes than the work asks for: at most one goes, the emptiest, then the newest, and every
/// other node's hold starts again.
fn scale_in(
    seen: &Observation,
    baseline: &Baseline,
    mut next: State,
    now: i64,
    target: u32,
    options: &Options,
) -> Decision {
    if loads::unplaced_recently(seen, now, options.hold) {
        let oldest = seen.pods.iter().filter(|p| p.node.is_none() && !p.terminal).filter_map(|p| p.created).max();
        let wake_at = Some(oldest.map_or(now + options.hold, |created| created + options.hold).max(now + 1));
        let reason = "more nodes than asked for, but a Pod is about to be placed".to_owned();
        return decision(Action::Nothing, next, target, wake_at, reason);
    }
    let candidate = seen
        .nodes
        .iter()
        .filter_map(|node| {
            let claim = seen.claims.iter().find(|c| c.node == node.name && c.state == ClaimState::Joined)?;
            let since = *next.node_idle_since.get(&node.name)?;
            Some((now - since >= options.hold).then(|| (load(seen, baseline, &node.name).evictable, node, claim)))
        })
        .flatten()
        .min_by_key(|(evictable, node, _)| (*evictable, std::cmp::Reverse(node.created), node.name.clone()));
    if let Some((_, node, claim)) = candidate {
        next.node_idle_since.retain(|name, _| *name != node.name);
        next.node_idle_since.values_mut().for_each(|since| *since = now);
        let action = Action::Release { claim: claim.name.clone(), node: node.name.clone() };
        return decision(action, next, target, Some(now + options.hold), format!("node {} is idle", node.name));
    }
    let wake_at = next.node_idle_since.values().min().map(|since| since + options.hold).filter(|at| *at > now);
    decision(Action::Nothing, next, target, wake_at, "more nodes than asked for; holding before release".to_owned())
}
