//! From Kubernetes objects to what the scale decision reads. Pure.

use crate::scale::{self, ClaimState, Resources, WorkloadKey, WorkloadKind};
use api::{NodeClaim, NodeClaimPhase};
use apimachinery::quantity::Quantity;
use compute_api::NodeExpiry;
use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, Node, NodeSelectorRequirement, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Serialize;
use std::collections::HashMap;

const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Which Deployment stands for which ReplicaSet, by namespace and name.
pub(super) struct Chain(HashMap<(String, String), Option<String>>);

impl Chain {
    pub(super) fn of(replica_sets: &[ReplicaSet]) -> Self {
        let entry = |set: &ReplicaSet| {
            let deployment = controller(&set.metadata).filter(|owner| owner.kind == "Deployment");
            ((namespace(&set.metadata), name(&set.metadata)), deployment.map(|owner| owner.name.clone()))
        };
        Self(replica_sets.iter().map(entry).collect())
    }

    /// The workload at the top of a Pod's chain of controllers.
    fn workload(&self, pod: &ObjectMeta) -> Option<WorkloadKey> {
        let owner = controller(pod)?;
        let namespace = namespace(pod);
        let (kind, name) = match owner.kind.as_str() {
            "ReplicaSet" => match self.0.get(&(namespace.clone(), owner.name.clone())) {
                Some(Some(deployment)) => (WorkloadKind::Deployment, deployment.clone()),
                _ => (WorkloadKind::ReplicaSet, owner.name.clone()),
            },
            "DaemonSet" => (WorkloadKind::DaemonSet, owner.name.clone()),
            "Job" => (WorkloadKind::Job, owner.name.clone()),
            _ => return None,
        };
        Some(WorkloadKey { kind, namespace, name })
    }
}

pub(super) fn node(node: &Node) -> scale::Node {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    let is_ready = ready.is_some_and(|condition| condition.status == "True");
    scale::Node {
        name: name(&node.metadata),
        ready: is_ready,
        created: created(&node.metadata).unwrap_or_default(),
        // A node without a Ready condition has only just registered; it is not lost.
        not_ready_since: ready
            .filter(|_| !is_ready)
            .and_then(|condition| condition.last_transition_time.as_ref())
            .map(|time| time.0.as_second()),
    }
}

pub(crate) fn claim(claim: &NodeClaim) -> scale::Claim {
    let state = match claim.status.phase {
        _ if claim.metadata.deletion_timestamp.is_some() => ClaimState::Releasing,
        NodeClaimPhase::Pending | NodeClaimPhase::Provisioning => ClaimState::Coming,
        NodeClaimPhase::Joined => ClaimState::Joined,
        NodeClaimPhase::Failed if claim.status.declined || !has_joined(claim) => ClaimState::Declined,
        NodeClaimPhase::Failed => ClaimState::Failed,
        NodeClaimPhase::Releasing => ClaimState::Releasing,
    };
    scale::Claim {
        name: name(&claim.metadata),
        node: claim.spec.node_name.clone(),
        pod_range: claim.spec.pod_cidr.split('.').nth(2).and_then(|byte| byte.parse().ok()),
        state,
        message: claim.status.message.clone().unwrap_or_default(),
        expiry: claim.status.node_expiry.map(|at| if at == 0 { NodeExpiry::Unlimited } else { NodeExpiry::At(at) }),
    }
}

fn has_joined(claim: &NodeClaim) -> bool {
    claim.status.conditions.iter().any(|condition| condition.type_ == "Joined" && condition.status == "True")
}

pub(super) fn deployment(object: &Deployment) -> scale::Workload {
    let spec = object.spec.as_ref();
    let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let pod = spec.and_then(|spec| spec.template.spec.as_ref());
    workload(WorkloadKind::Deployment, object, replicas, pod, &object.spec)
}

/// `None` when something else controls it and stands for its Pods.
pub(super) fn replica_set(object: &ReplicaSet) -> Option<scale::Workload> {
    if controller(&object.metadata).is_some() {
        return None;
    }
    let spec = object.spec.as_ref();
    let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let pod = spec.and_then(|spec| spec.template.as_ref()?.spec.as_ref());
    Some(workload(WorkloadKind::ReplicaSet, object, replicas, pod, &object.spec))
}

pub(super) fn daemon_set(object: &DaemonSet) -> scale::Workload {
    workload(WorkloadKind::DaemonSet, object, 0, None, &object.spec)
}

pub(super) fn job(object: &Job) -> scale::Workload {
    let spec = object.spec.as_ref();
    let status = object.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let over = conditions.iter().any(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True");
    let suspended = spec.and_then(|spec| spec.suspend).unwrap_or(false);
    let parallelism = spec.and_then(|spec| spec.parallelism).unwrap_or(1);
    let succeeded = status.and_then(|status| status.succeeded).unwrap_or(0);
    let left = match spec.and_then(|spec| spec.completions) {
        Some(completions) => completions.saturating_sub(succeeded),
        // A work queue: once one Pod has succeeded no new ones start.
        None if succeeded > 0 => status.and_then(|status| status.active).unwrap_or(0),
        None => parallelism,
    };
    let wants = if over || suspended { 0 } else { parallelism.min(left) };
    workload(WorkloadKind::Job, object, wants, spec.and_then(|spec| spec.template.spec.as_ref()), &object.spec)
}

fn workload<K: Metadata<Ty = ObjectMeta>>(
    kind: WorkloadKind,
    object: &K,
    wants: i32,
    pod: Option<&PodSpec>,
    spec: &impl Serialize,
) -> scale::Workload {
    let metadata = object.metadata();
    let bytes = serde_json::to_vec(spec).unwrap_or_default();
    let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
    scale::Workload {
        key: WorkloadKey { kind, namespace: namespace(metadata), name: name(metadata) },
        wants: if metadata.deletion_timestamp.is_some() { 0 } else { u32::try_from(wants).unwrap_or(0) },
        each: pod.map(requests).unwrap_or_default(),
        spec_hash: digest.as_ref().try_into().expect("a SHA-256 has 32 bytes"),
    }
}

pub(super) fn pod(object: &Pod, chain: &Chain) -> scale::Pod {
    let workload = chain.workload(&object.metadata);
    let spec = object.spec.as_ref();
    let status = object.status.as_ref();
    let mirror = object.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR_ANNOTATION));
    let phase = status.and_then(|status| status.phase.as_deref());
    scale::Pod {
        namespace: namespace(&object.metadata),
        name: name(&object.metadata),
        follows_node: mirror || workload.as_ref().is_some_and(|key| key.kind == WorkloadKind::DaemonSet),
        workload,
        terminal: matches!(phase, Some("Succeeded" | "Failed")),
        node: spec.and_then(|spec| spec.node_name.clone()).filter(|name| !name.is_empty()),
        names_node: status
            .and_then(|status| status.nominated_node_name.clone())
            .filter(|name| !name.is_empty())
            .or_else(|| spec.and_then(named_node)),
        created: created(&object.metadata),
        requests: spec.map(requests).unwrap_or_default(),
    }
}

/// The one node that a Pod's selector or required affinity names.
fn named_node(spec: &PodSpec) -> Option<String> {
    if let Some(name) = spec.node_selector.as_ref().and_then(|selector| selector.get(HOSTNAME_LABEL)) {
        return Some(name.clone());
    }
    let required =
        spec.affinity.as_ref()?.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref()?;
    let [term] = required.node_selector_terms.as_slice() else { return None };
    let single = |requirements: &Option<Vec<NodeSelectorRequirement>>, key: &str| {
        let found = requirements.as_ref()?.iter().find(|r| r.key == key && r.operator == "In")?;
        match found.values.as_deref() {
            Some([value]) => Some(value.clone()),
            _ => None,
        }
    };
    single(&term.match_expressions, HOSTNAME_LABEL).or_else(|| single(&term.match_fields, "metadata.name"))
}

/// What the scheduler counts for a Pod: its containers together with its restartable init
/// containers, or its largest init container, whichever is more, and the overhead.
fn requests(spec: &PodSpec) -> Resources {
    let running: Resources = spec.containers.iter().map(container).fold(Resources::default(), Resources::plus);
    let mut sidecars = Resources::default();
    let mut starting = Resources::default();
    for init in spec.init_containers.iter().flatten() {
        if init.restart_policy.as_deref() == Some("Always") {
            sidecars = sidecars.plus(container(init));
            starting = starting.larger(sidecars);
        } else {
            starting = starting.larger(sidecars.plus(container(init)));
        }
    }
    let overhead = spec.overhead.as_ref().map(amounts).unwrap_or_default();
    running.plus(sidecars).larger(starting).plus(overhead)
}

fn container(container: &Container) -> Resources {
    container.resources.as_ref().and_then(|r| r.requests.as_ref()).map(amounts).unwrap_or_default()
}

type Quantities = std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;

fn amounts(list: &Quantities) -> Resources {
    let parsed = |name: &str| list.get(name).and_then(|quantity| Quantity::parse(&quantity.0).ok());
    Resources {
        cpu_milli: parsed("cpu").map_or(0, |q| u64::try_from(q.milli_value()).unwrap_or(0)),
        memory: parsed("memory").map_or(0, |q| u64::try_from(q.value()).unwrap_or(0)),
    }
}

fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}

fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

fn namespace(metadata: &ObjectMeta) -> String {
    metadata.namespace.clone().unwrap_or_default()
}

fn created(metadata: &ObjectMeta) -> Option<i64> {
    metadata.creation_timestamp.as_ref().map(|time| time.0.as_second())
}
