//! How good a node is for a Pod, among those it fits on. Every part is 0 to 100, weighted.

use super::affinity::PodAffinity;
use super::matching::{satisfies_term, tolerates};
use super::resources::presumed;
use super::snapshot::NodeState;
use super::spread::Spread;
use k8s_openapi::api::core::v1::PodSpec;

const MAX: i64 = 100;

const TAINTS_WEIGHT: i64 = 3;
const NODE_AFFINITY_WEIGHT: i64 = 2;
const SPREAD_WEIGHT: i64 = 2;
const POD_AFFINITY_WEIGHT: i64 = 2;

/// An image smaller than this is not worth choosing a node for.
const SMALL_IMAGE_BYTES: i64 = 23 << 20;
/// Per container; a larger one is not worth more.
const LARGE_IMAGE_BYTES: i64 = 1000 << 20;

/// The best of these nodes; the first among equals.
pub(super) fn best<'a>(
    nodes: &[&'a NodeState],
    spec: &PodSpec,
    affinity: &PodAffinity,
    spread: &Spread,
) -> Option<&'a NodeState> {
    if nodes.len() < 2 {
        return nodes.first().copied();
    }
    let each = |of: &dyn Fn(&NodeState) -> i64| nodes.iter().map(|node| of(node)).collect::<Vec<_>>();
    let parts = [
        (TAINTS_WEIGHT, from_most(&each(&|node| unwelcome(node, spec)), true)),
        (NODE_AFFINITY_WEIGHT, from_most(&each(&|node| preferred(node, spec)), false)),
        (POD_AFFINITY_WEIGHT, between(&each(&|node| affinity.preference(node)))),
        (SPREAD_WEIGHT, between(&each(&|node| -spread.crowd(node).unwrap_or(0)))),
        (1, each(&|node| least_allocated(node, spec))),
        (1, each(&|node| balanced(node, spec))),
        (1, each(&|node| images(node, nodes, spec))),
    ];
    let total =
        |at: usize| -> i64 { parts.iter().map(|(weight, scores)| weight * scores.get(at).copied().unwrap_or(0)).sum() };
    // `max_by_key` takes the last of equals.
    nodes.iter().enumerate().rev().max_by_key(|(at, _)| total(*at)).map(|(_, node)| *node)
}

/// Scales to the most; reversed, zero is best.
fn from_most(values: &[i64], reversed: bool) -> Vec<i64> {
    let most = values.iter().copied().max().unwrap_or(0);
    let scaled = |value: &i64| if most > 0 { MAX * value / most } else { 0 };
    values.iter().map(|value| if reversed { MAX - scaled(value) } else { scaled(value) }).collect()
}

/// Scales to between the least and the most.
fn between(values: &[i64]) -> Vec<i64> {
    let (least, most) = (values.iter().copied().min().unwrap_or(0), values.iter().copied().max().unwrap_or(0));
    values.iter().map(|value| if most > least { MAX * (value - least) / (most - least) } else { 0 }).collect()
}

/// Taints that would rather not have the Pod.
fn unwelcome(node: &NodeState, spec: &PodSpec) -> i64 {
    let tolerated = |taint| spec.tolerations.iter().flatten().any(|toleration| tolerates(toleration, taint));
    let taints = node.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    i64::try_from(taints.filter(|taint| !tolerated(taint)).count()).unwrap_or(i64::MAX)
}

/// The weights of the preferred node affinity terms that hold.
fn preferred(node: &NodeState, spec: &PodSpec) -> i64 {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let terms = affinity.and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_deref());
    let holding = terms.unwrap_or_default().iter().filter(|term| satisfies_term(&node.node, &term.preference));
    holding.map(|term| i64::from(term.weight)).sum()
}

/// CPU and memory with the Pod on the node: what would be taken, of how much.
fn filled(node: &NodeState, spec: &PodSpec) -> [(i64, i64); 2] {
    let asked = presumed(spec);
    ["cpu", "memory"].map(|name| (node.presumed.get(name).saturating_add(asked.get(name)), node.allocatable.get(name)))
}

/// More where more is left.
fn least_allocated(node: &NodeState, spec: &PodSpec) -> i64 {
    let left = |(taken, of): (i64, i64)| if of <= 0 || taken > of { 0 } else { part(of - taken, of) };
    let [cpu, memory] = filled(node, spec);
    i64::midpoint(left(cpu), left(memory))
}

/// More where CPU and memory are taken alike.
fn balanced(node: &NodeState, spec: &PodSpec) -> i64 {
    let taken = |(taken, of): (i64, i64)| if of <= 0 { MAX } else { part(taken, of).min(MAX) };
    let [cpu, memory] = filled(node, spec);
    MAX - (taken(cpu) - taken(memory)).abs() / 2
}

/// `value` of `of` as 0 to 100.
fn part(value: i64, of: i64) -> i64 {
    i64::try_from(i128::from(value) * i128::from(MAX) / i128::from(of.max(1))).unwrap_or(i64::MAX)
}

/// More where the Pod's images are already, unless nearly every node has them or none has.
fn images(node: &NodeState, nodes: &[&NodeState], spec: &PodSpec) -> i64 {
    let wanted: Vec<&str> = spec.containers.iter().filter_map(|container| container.image.as_deref()).collect();
    let having = |image: &str| nodes.iter().filter(|node| image_bytes(node, image) > 0).count();
    let weighted = |image: &&str| {
        let bytes = i128::from(image_bytes(node, image));
        let spread =
            bytes * i128::try_from(having(image)).unwrap_or(0) / i128::try_from(nodes.len().max(1)).unwrap_or(1);
        i64::try_from(spread).unwrap_or(i64::MAX)
    };
    let sum = wanted.iter().map(weighted).fold(0, i64::saturating_add);
    let large = LARGE_IMAGE_BYTES.saturating_mul(i64::try_from(wanted.len()).unwrap_or(i64::MAX));
    if wanted.is_empty() {
        0
    } else {
        part(sum.clamp(SMALL_IMAGE_BYTES, large) - SMALL_IMAGE_BYTES, large - SMALL_IMAGE_BYTES)
    }
}

/// How large an image of that name is on a node; zero when it is not there.
fn image_bytes(node: &NodeState, image: &str) -> i64 {
    let last = image.rsplit('/').next().unwrap_or(image);
    let tagged = if last.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") };
    let known = node.node.status.as_ref().and_then(|status| status.images.as_deref()).unwrap_or_default();
    known
        .iter()
        .find(|known| known.names.iter().flatten().any(|name| *name == tagged))
        .and_then(|known| known.size_bytes)
        .unwrap_or(0)
}
