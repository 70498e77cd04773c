//! The product's own kinds, API group `socialweb.computer`.

mod definitions;
mod resource;
mod rules;

pub use definitions::{KUBECONFIG, definitions};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// API group.
pub const GROUP: &str = "socialweb.computer";
/// API version.
pub const VERSION: &str = "v1alpha1";
/// `group/version`.
pub const API_VERSION: &str = "socialweb.computer/v1alpha1";
/// Finalizer with which the clusters controller holds a `Cluster` until it is drained.
pub const CLUSTER_FINALIZER: &str = "socialweb.computer/cluster";
/// Finalizer with which the node-claim controller holds a `NodeClaim` until its machine is gone.
pub const NODE_CLAIM_FINALIZER: &str = "socialweb.computer/node-claim";

/// Longest name of a `Cluster`: with a dash and eight digits it names a logical cluster, which is a
/// label of DNS names.
pub const MAX_CLUSTER_NAME: usize = 40;

/// A virtual Kubernetes cluster: a logical cluster whose nodes come when work appears.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// `socialweb.computer/v1alpha1`.
    pub api_version: String,
    /// `Cluster`.
    pub kind: String,
    /// Standard object's metadata.
    pub metadata: ObjectMeta,
    /// What the owner wants.
    #[serde(default)]
    pub spec: ClusterSpec,
    /// What is.
    #[serde(default)]
    pub status: ClusterStatus,
}

/// What the owner of a cluster wants.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// How its nodes scale.
    #[serde(default)]
    pub nodes: NodeScaling,
}

/// How the nodes of a cluster scale. Absent fields take the server's defaults.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeScaling {
    /// At most this many nodes, at least 1. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<i32>,
    /// Pods that one node is asked to hold. Default 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_per_node: Option<i32>,
    /// Seconds that a cluster or node must be idle before nodes are released. Default 120.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_seconds: Option<i32>,
    /// Virtual CPUs of a node. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<i32>,
    /// Memory of a node, MiB. Default 512.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mi_b: Option<i32>,
}

/// Where a cluster is in its life. Zero nodes is not a phase: such a cluster is Ready.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum ClusterPhase {
    /// Created, not yet seen answering.
    #[default]
    Initializing,
    /// Its API answers.
    Ready,
    /// Being deleted: nodes are released, then everything in it is removed.
    Draining,
}

/// What is known of a cluster. `logicalCluster` is set once by the API server at creation; all else
/// is the clusters controller's.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Phase.
    #[serde(default)]
    pub phase: ClusterPhase,
    /// Name of the logical cluster, unique on the server: its path is `/clusters/<name>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_cluster: Option<String>,
    /// The URL for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Nodes that the cluster has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i32>,
    /// When its nodes are taken away by their owner, seconds since the epoch: absent is unknown (a
    /// teardown is refused), 0 is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_expiry: Option<i64>,
    /// Conditions: `Ready`, `Scaling`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A request for one machine that joins one cluster as its node, in the cluster's home workspace.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaim {
    /// `socialweb.computer/v1alpha1`.
    pub api_version: String,
    /// `NodeClaim`.
    pub kind: String,
    /// Standard object's metadata. Its uid is the machine's id.
    pub metadata: ObjectMeta,
    /// What is claimed.
    pub spec: NodeClaimSpec,
    /// What came of it.
    #[serde(default)]
    pub status: NodeClaimStatus,
}

/// What is claimed. Immutable.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimSpec {
    /// Name of the `Cluster` in the same workspace.
    pub cluster_name: String,
    /// Logical cluster that the node joins.
    pub logical_cluster: String,
    /// Name of the Node object.
    pub node_name: String,
    /// Addresses for its Pods, CIDR.
    pub pod_cidr: String,
    /// Virtual CPUs.
    pub cpus: i32,
    /// Memory, MiB.
    pub memory_mi_b: i32,
}

/// Where a claim is in its life.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum NodeClaimPhase {
    /// Written; nobody has taken it.
    #[default]
    Pending,
    /// A provider took it; the machine is coming.
    Provisioning,
    /// The cluster reports the node Ready.
    Joined,
    /// The provider declined it or the machine failed.
    Failed,
    /// Being deleted: the machine is being destroyed.
    Releasing,
}

/// What came of a claim. One writer: the node-claim controller.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Phase.
    #[serde(default)]
    pub phase: NodeClaimPhase,
    /// The provider that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Whether it ended because the provider declined (the cluster then backs off).
    #[serde(default)]
    pub declined: bool,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the machine is taken away, seconds since the epoch: absent is unknown, 0 is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_expiry: Option<i64>,
    /// Conditions: `Accepted`, `Joined`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
