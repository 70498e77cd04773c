//! What one scale decision is made from: one reading of one cluster, and nothing else.

use crate::scale::resources::Resources;
use compute_api::NodeExpiry;

/// Everything read of a cluster at one revision of the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// The cluster's own Node objects: what `kubectl get nodes` shows.
    pub nodes: Vec<Node>,
    /// The claims for its machines, from its home workspace.
    pub claims: Vec<Claim>,
    /// What wants Pods.
    pub workloads: Vec<Workload>,
    /// Pods, each with the workload that stands for it.
    pub pods: Vec<Pod>,
}

/// A Node object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Name.
    pub name: String,
    /// Whether its Ready condition is True.
    pub ready: bool,
    /// Creation, seconds since the epoch.
    pub created: i64,
    /// Since when it is not Ready, seconds since the epoch.
    pub not_ready_since: Option<i64>,
}

/// How far a claim has come, as the scale decision cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimState {
    /// Written or taken; its node has not joined.
    Coming,
    /// Its node has joined.
    Joined,
    /// The provider declined it, or its machine never came: asking again at once would only loop.
    Declined,
    /// Its machine was lost after it had joined.
    Failed,
    /// Being deleted.
    Releasing,
}

/// A `NodeClaim`.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Its name.
    pub name: String,
    /// The node that it is for.
    pub node: String,
    /// Which of the cluster's 256 Pod ranges it took.
    pub pod_range: Option<u8>,
    /// How far it has come.
    pub state: ClaimState,
    /// Why it is where it is, for people.
    pub message: String,
    /// When its machine is taken away; `None` when that is not known.
    pub expiry: Option<NodeExpiry>,
}

/// The kinds of workload that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    /// apps/v1 Deployment.
    Deployment,
    /// apps/v1 ReplicaSet that no Deployment controls.
    ReplicaSet,
    /// apps/v1 DaemonSet: follows the nodes, so it never asks for one.
    DaemonSet,
    /// batch/v1 Job.
    Job,
}

/// Identity of a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadKey {
    /// Kind.
    pub kind: WorkloadKind,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Something that wants Pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Identity.
    pub key: WorkloadKey,
    /// Pods that it wants running now.
    pub wants: u32,
    /// What each of them requests.
    pub each: Resources,
    /// SHA-256 of its spec as it is stored, for the baseline.
    pub spec_hash: [u8; 32],
}

/// A Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The workload at the top of its chain of controllers, if that was read too.
    pub workload: Option<WorkloadKey>,
    /// Whether it comes and goes with the node: of a DaemonSet, or a mirror of a static Pod.
    pub follows_node: bool,
    /// Whether it has ended.
    pub terminal: bool,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// The node that it names before it is bound: nominated, or by its selector or affinity.
    pub names_node: Option<String>,
    /// Creation, seconds since the epoch.
    pub created: Option<i64>,
    /// What it requests.
    pub requests: Resources,
}
