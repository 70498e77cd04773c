//! The taints that follow from a node's conditions and from whether it is cordoned. Pure.
//!
//! The scheduler asks the same function, so it neither waits for a taint to be written nor is held
//! up by one that is out of date.

use super::{NOT_READY, UNREACHABLE, UNSCHEDULABLE, condition};
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Conditions that are bad news when true, and their taints.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

fn follows_from_state(taint: &Taint) -> bool {
    let key = taint.key.as_str();
    match taint.effect.as_str() {
        "NoExecute" => key == NOT_READY || key == UNREACHABLE,
        "NoSchedule" => {
            [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&key) || PRESSURES.iter().any(|(_, taint)| *taint == key)
        }
        _ => false,
    }
}

fn wanted(node: &Node) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    match condition(node, "Ready") {
        Some("True") => {}
        Some("Unknown") => wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        Some(_) => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        // It has only just been made; nothing runs on it that would have to leave.
        None => wanted.push((NOT_READY, "NoSchedule")),
    }
    for (pressure, taint) in PRESSURES {
        if condition(node, pressure) == Some("True") {
            wanted.push((taint, "NoSchedule"));
        }
    }
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    wanted
}

/// The taints that a node has by its state now: those that others gave it, and those that follow.
#[must_use]
pub fn taints_by_state(node: &Node) -> Vec<Taint> {
    let known = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let wanted = wanted(node);
    let is = |taint: &Taint, (key, effect): &(&str, &str)| taint.key == *key && taint.effect == *effect;
    let keep = |taint: &&Taint| !follows_from_state(taint) || wanted.iter().any(|wanted| is(taint, wanted));
    let mut taints: Vec<Taint> = known.iter().filter(keep).cloned().collect();
    for wanted in &wanted {
        if !taints.iter().any(|taint| is(taint, wanted)) {
            taints.push(Taint { key: wanted.0.to_owned(), effect: wanted.1.to_owned(), ..Taint::default() });
        }
    }
    taints
}

/// The taints to write to a node, with the time of those that are new; `None` when it has them.
#[must_use]
pub fn taints_to_write(node: &Node, now: jiff::Timestamp) -> Option<Vec<Taint>> {
    let mut taints = taints_by_state(node);
    for taint in &mut taints {
        if taint.time_added.is_none() && (follows_from_state(taint) || taint.effect == "NoExecute") {
            taint.time_added = Some(Time(now));
        }
    }
    let known = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    (taints != known).then_some(taints)
}
