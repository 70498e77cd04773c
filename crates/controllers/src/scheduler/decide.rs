//! `decide`: on which node a Pod goes, or why on none. Pure.

use super::affinity::PodAffinity;
use super::matching::{satisfies_node_affinity, tolerates, untolerated};
use super::resources::requests;
use super::score;
use super::snapshot::{NodeState, Snapshot, host_ports};
use super::spread::Spread;
use crate::node_lifecycle::UNSCHEDULABLE;
use k8s_openapi::api::core::v1::{Pod, PodSpec, Taint};
use std::collections::BTreeMap;

/// Why a Pod fits nowhere. Its text is what the Pod's condition and the event say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unschedulable {
    /// The cluster has no nodes.
    #[error("no nodes available to schedule pods")]
    NoNodes,
    /// Every node is unfit.
    #[error("0/{nodes} nodes are available: {}.", listed(reasons))]
    Unfit {
        /// How many nodes there are.
        nodes: usize,
        /// How many nodes each reason holds for.
        reasons: BTreeMap<String, usize>,
    },
}

fn listed(reasons: &BTreeMap<String, usize>) -> String {
    let mut listed: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    listed.sort();
    listed.join(", ")
}

/// The node that is best for a Pod. Among equals, the first by name.
///
/// # Errors
/// When the Pod fits on no node.
pub fn decide<'a>(snapshot: &'a Snapshot, pod: &Pod) -> Result<&'a str, Unschedulable> {
    if snapshot.nodes.is_empty() {
        return Err(Unschedulable::NoNodes);
    }
    let absent = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&absent);
    let (affinity, spread) = (PodAffinity::of(snapshot, pod), Spread::of(snapshot, pod));
    let mut reasons = BTreeMap::new();
    let mut fit = Vec::new();
    for node in &snapshot.nodes {
        let why = refusals(node, spec, &affinity, &spread);
        if why.is_empty() {
            fit.push(node);
        }
        for reason in why {
            *reasons.entry(reason).or_insert(0) += 1;
        }
    }
    score::best(&fit, spec, &affinity, &spread)
        .map(NodeState::name)
        .ok_or(Unschedulable::Unfit { nodes: snapshot.nodes.len(), reasons })
}

/// Why a Pod cannot be on a node, of the first kind of reason that there is.
fn refusals(node: &NodeState, spec: &PodSpec, affinity: &PodAffinity, spread: &Spread) -> Vec<String> {
    let refusal = if unschedulable(node, spec) {
        Some("node(s) were unschedulable")
    } else if spec.node_name.as_deref().is_some_and(|name| !name.is_empty() && name != node.name()) {
        Some("node(s) didn't match the requested node name")
    } else if untolerated(&node.taints, spec, &["NoSchedule", "NoExecute"]).is_some() {
        Some("node(s) had untolerated taint(s)")
    } else if !satisfies_node_affinity(&node.node, spec) {
        Some("node(s) didn't match Pod's node affinity/selector")
    } else if host_ports(spec).iter().any(|wanted| node.ports.iter().any(|taken| wanted.collides(taken))) {
        Some("node(s) didn't have free ports for the requested pod ports")
    } else {
        let lacking = lacking(node, spec);
        if !lacking.is_empty() {
            return lacking;
        }
        spread.refusal(node).or_else(|| affinity.refusal(node))
    };
    refusal.map(str::to_owned).into_iter().collect()
}

fn unschedulable(node: &NodeState, spec: &PodSpec) -> bool {
    let taint = Taint { key: UNSCHEDULABLE.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    node.node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true))
        && !spec.tolerations.iter().flatten().any(|toleration| tolerates(toleration, &taint))
}

/// What a node has too little of.
fn lacking(node: &NodeState, spec: &PodSpec) -> Vec<String> {
    let mut lacking = Vec::new();
    let pods = i64::try_from(node.pods.len()).unwrap_or(i64::MAX);
    if pods.saturating_add(1) > node.allocatable.get("pods") {
        lacking.push("Too many pods".to_owned());
    }
    for (name, wanted) in requests(spec).0 {
        let free = node.allocatable.get(&name).saturating_sub(node.requested.get(&name));
        if wanted > 0 && name != "pods" && wanted > free {
            lacking.push(format!("Insufficient {name}"));
        }
    }
    lacking
}
