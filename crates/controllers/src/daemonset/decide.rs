//! On which nodes a DaemonSet's Pods run, which are replaced, and its status. Without I/O.

use super::revision::HASH_LABEL;
use crate::meta::{labels, name};
use crate::pods::{available_in, is_available, is_finished, is_ready, node};
use crate::template;
use apimachinery::selector::{Operator, Requirement};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Taint, Toleration,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Where Pods are lacking, and which are to go.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Arc<Pod>>,
}

/// What nodes may be afflicted with and the Pods of a DaemonSet bear all the same.
fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let on = |key: &str, effect: &str| Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        ..Toleration::default()
    };
    let mut list = vec![
        on("node.kubernetes.io/not-ready", "NoExecute"),
        on("node.kubernetes.io/unreachable", "NoExecute"),
        on("node.kubernetes.io/disk-pressure", "NoSchedule"),
        on("node.kubernetes.io/memory-pressure", "NoSchedule"),
        on("node.kubernetes.io/pid-pressure", "NoSchedule"),
        on("node.kubernetes.io/unschedulable", "NoSchedule"),
    ];
    if spec.host_network == Some(true) {
        list.push(on("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    list
}

/// Whether a toleration bears a taint.
fn bears(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    let key = toleration.key.as_deref().unwrap_or_default();
    if !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "" | "Equal" => {
            !key.is_empty()
                && toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
        }
        _ => false,
    }
}

fn meets(requirement: &NodeSelectorRequirement, values: &BTreeMap<String, String>) -> bool {
    let operator = match requirement.operator.as_str() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::GreaterThan,
        "Lt" => Operator::LessThan,
        _ => return false,
    };
    let values_wanted = requirement.values.clone().unwrap_or_default();
    Requirement { key: requirement.key.clone(), operator, values: values_wanted }.matches(values)
}

fn selected(selector: &NodeSelector, node: &Node) -> bool {
    let fields = BTreeMap::from([("metadata.name".to_owned(), name(&node.metadata).to_owned())]);
    selector.node_selector_terms.iter().any(|term| {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let of_fields = term.match_fields.as_deref().unwrap_or_default();
        (!expressions.is_empty() || !of_fields.is_empty())
            && expressions.iter().all(|requirement| meets(requirement, labels(&node.metadata)))
            && of_fields.iter().all(|requirement| meets(requirement, &fields))
    })
}

/// Whether a Pod is to run on the node, and whether one that runs there may stay.
fn fits(spec: &DaemonSetSpec, node: &Node) -> (bool, bool) {
    let Some(pod) = &spec.template.spec else { return (false, false) };
    if pod.node_name.as_deref().is_some_and(|wanted| !wanted.is_empty() && wanted != name(&node.metadata)) {
        return (false, false);
    }
    let by_labels =
        pod.node_selector.iter().flatten().all(|(key, value)| labels(&node.metadata).get(key) == Some(value));
    let affinity = pod.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    if !by_labels || required.is_some_and(|selector| !selected(selector, node)) {
        return (false, false);
    }
    let mut borne = tolerations(pod);
    borne.extend(pod.tolerations.clone().unwrap_or_default());
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let not_borne = |effects: &[&str]| {
        let hard = taints.iter().filter(|taint| effects.contains(&taint.effect.as_str()));
        hard.into_iter().any(|taint| !borne.iter().any(|toleration| bears(toleration, taint)))
    };
    (!not_borne(&["NoSchedule", "NoExecute"]), !not_borne(&["NoExecute"]))
}

/// The node that a Pod is on or meant for.
fn node_of(pod: &Pod) -> &str {
    let on = node(pod);
    if !on.is_empty() {
        return on;
    }
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()?.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    required
        .iter()
        .flat_map(|selector| &selector.node_selector_terms)
        .flat_map(|term| term.match_fields.iter().flatten())
        .find(|field| field.key == "metadata.name" && field.operator == "In")
        .and_then(|field| field.values.as_ref()?.first())
        .map_or("", String::as_str)
}

fn is_current(pod: &Pod, hash: &str) -> bool {
    labels(&pod.metadata).get(HASH_LABEL).is_some_and(|label| label == hash)
}

fn by_node(owned: &[Arc<Pod>]) -> BTreeMap<&str, Vec<&Arc<Pod>>> {
    let mut pods: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in owned {
        pods.entry(node_of(pod)).or_default().push(pod);
    }
    for pods in pods.values_mut() {
        // The oldest stays.
        pods.sort_by_key(|pod| {
            (pod.metadata.creation_timestamp.as_ref().map(|time| time.0), pod.metadata.name.clone())
        });
    }
    pods
}

/// Compares where Pods should be with where they are.
pub(super) fn plan(
    set: &DaemonSet,
    spec: &DaemonSetSpec,
    hash: &str,
    nodes: &[Arc<Node>],
    owned: &[Arc<Pod>],
    now: Timestamp,
) -> Plan {
    debug_assert_eq!(set.spec.as_ref(), Some(spec));
    let mut plan = Plan::default();
    let pods = by_node(owned);
    let known: BTreeSet<&str> = nodes.iter().map(|node| name(&node.metadata)).collect();
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let rolling = spec.update_strategy.as_ref().is_none_or(|strategy| strategy.type_.as_deref() != Some("OnDelete"));
    let mut unavailable = 0;
    let mut wanted = 0;
    let (mut broken, mut replaceable) = (Vec::new(), Vec::new());
    for node in nodes {
        let here = pods.get(name(&node.metadata)).map(Vec::as_slice).unwrap_or_default();
        let (should_run, may_stay) = fits(spec, node);
        wanted += i32::from(should_run);
        if !may_stay {
            plan.delete
                .extend(here.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).map(|pod| (*pod).clone()));
            continue;
        }
        let mut live = Vec::new();
        for pod in here {
            if pod.metadata.deletion_timestamp.is_some() {
                // Its successor comes when it is gone.
                live.push(*pod);
            } else if is_finished(pod) {
                plan.delete.push((*pod).clone());
                live.push(*pod);
            } else if live.iter().any(|other: &&Arc<Pod>| other.metadata.deletion_timestamp.is_none()) {
                plan.delete.push((*pod).clone());
            } else {
                live.push(*pod);
            }
        }
        if !should_run {
            continue;
        }
        let Some(pod) = live.iter().find(|pod| pod.metadata.deletion_timestamp.is_none() && !is_finished(pod)) else {
            unavailable += 1;
            if live.is_empty() {
                plan.create.push(name(&node.metadata).to_owned());
            }
            continue;
        };
        let available = is_available(pod, min_ready, now);
        if !available {
            unavailable += 1;
        }
        if rolling && !is_current(pod, hash) {
            if available { &mut replaceable } else { &mut broken }.push((*pod).clone());
        }
    }
    for (node, here) in &pods {
        // Pods of nodes that are gone.
        if !node.is_empty() && !known.contains(node) {
            plan.delete
                .extend(here.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).map(|pod| (*pod).clone()));
        }
    }
    let rolling_update = spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let most = rolling_update
        .and_then(|rolling| rolling.max_unavailable.as_ref())
        .map_or(1, |most| crate::scale::resolve(most, wanted, crate::scale::Round::Up).max(1));
    // What does not work is replaced at once: it costs no availability.
    plan.delete.extend(broken);
    let may_go = usize::try_from(most - unavailable).unwrap_or(0);
    plan.delete.extend(replaceable.into_iter().take(may_go));
    plan
}

/// The Pod for one node.
pub(super) fn pod(set: &DaemonSet, spec: &DaemonSetSpec, hash: &str, node: &str) -> Pod {
    let mut pod = template::pod(set, &spec.template);
    pod.metadata.labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.to_owned());
    let body = pod.spec.get_or_insert_default();
    let added = tolerations(body);
    let borne = body.tolerations.get_or_insert_default();
    for toleration in added {
        if !borne.contains(&toleration) {
            borne.push(toleration);
        }
    }
    let here = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let affinity = body.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    let required = affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default();
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    }
    for term in &mut required.node_selector_terms {
        term.match_fields = Some(vec![here.clone()]);
    }
    pod
}

/// The status, and when it changes by the mere passing of time.
pub(super) fn status(
    set: &DaemonSet,
    spec: &DaemonSetSpec,
    hash: &str,
    nodes: &[Arc<Node>],
    owned: &[Arc<Pod>],
    now: Timestamp,
) -> (DaemonSetStatus, Option<Duration>) {
    let before = set.status.clone().unwrap_or_default();
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let pods = by_node(owned);
    let mut look_again: Option<Duration> = None;
    let (mut desired, mut current, mut misplaced, mut ready, mut available, mut updated) = (0, 0, 0, 0, 0, 0);
    for node in nodes {
        let here = pods.get(name(&node.metadata)).map(Vec::as_slice).unwrap_or_default();
        let here: Vec<&&Arc<Pod>> = here.iter().filter(|pod| !is_finished(pod)).collect();
        if !fits(spec, node).0 {
            misplaced += i32::from(!here.is_empty());
            continue;
        }
        desired += 1;
        let Some(pod) = here.first() else { continue };
        current += 1;
        if pod.metadata.deletion_timestamp.is_none() {
            ready += i32::from(is_ready(pod));
            match available_in(pod, min_ready, now) {
                Some(Duration::ZERO) => available += 1,
                Some(left) => look_again = Some(look_again.map_or(left, |known| known.min(left))),
                None => {}
            }
            updated += i32::from(is_current(pod, hash));
        }
    }
    let some = |count: i32| (count != 0).then_some(count);
    let status = DaemonSetStatus {
        collision_count: before.collision_count,
        conditions: before.conditions,
        current_number_scheduled: current,
        desired_number_scheduled: desired,
        number_available: some(available),
        number_misscheduled: misplaced,
        number_ready: ready,
        number_unavailable: some(desired - available),
        observed_generation: set.metadata.generation,
        updated_number_scheduled: some(updated),
    };
    (status, look_again)
}
