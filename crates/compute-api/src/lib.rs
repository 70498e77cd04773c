//! The `NodeProvider` seam: something that turns an accepted request into a machine which joins a
//! cluster as its node. The host's microVMs are one provider; a compute market is another.

pub mod conformance;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// Names one machine for its whole life: the uid of the `NodeClaim` that asked for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MachineId(pub String);

impl std::fmt::Display for MachineId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A secret that must never reach an argument list, a log or an object. Its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The secret itself; every caller is a place to review.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What a cluster needs of a machine, and what the machine needs to join.
#[derive(Clone, Debug)]
pub struct NodeRequest {
    /// Identity; a second request with the same id is the same machine.
    pub id: MachineId,
    /// The logical cluster the node joins.
    pub cluster: String,
    /// The Node object's name, chosen by the cluster, never by the machine.
    pub node_name: String,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory, in MiB.
    pub memory_mib: u32,
    /// Boot configuration: a serialised `node_api::BootConfig`, not secret.
    pub boot_config: String,
    /// One-time join credential (`node_api::JoinSecret`), delivered out of band of everything
    /// that is logged or listed.
    pub join_secret: Secret,
}

/// When a rented machine is taken away by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeExpiry {
    /// No limit was set: nothing will take it away.
    Unlimited,
    /// Taken away at this time, in seconds since the Unix epoch.
    At(i64),
}

/// A provider's answer to a request it took.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// Reported, never guessed: `None` when the provider does not know.
    pub expiry: Option<NodeExpiry>,
}

/// Three-way verdict about a machine. `Unknown` is retried; it is never treated as `Lost`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineState {
    /// Accepted; the machine is not up yet.
    Starting,
    /// The machine runs (whether its node has joined is the cluster's to say).
    Running,
    /// Verified gone, with the reason in the machine's own words where it left some.
    Lost {
        /// Why.
        reason: String,
    },
    /// It could not be determined.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// Why a machine could not be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProvisionError {
    /// The provider answered no: no capacity, no bid, not allowed. The cluster backs off.
    #[error("the provider declined: {0}")]
    Declined(String),
    /// The provider tried and failed.
    #[error("the machine could not be started: {0}")]
    Failed(String),
}

/// A provider of machines.
///
/// All operations are idempotent by [`MachineId`]. Dropping a provider, or the process that holds
/// it, destroys no machine; only [`NodeProvider::release`] does. A new provider over the same state
/// adopts what runs.
#[async_trait]
pub trait NodeProvider: Send + Sync + 'static {
    /// Asks for a machine and returns without waiting for it to be up.
    async fn provision(&self, request: &NodeRequest) -> Result<Accepted, ProvisionError>;

    /// What is known of a machine now.
    async fn observe(&self, id: &MachineId) -> MachineState;

    /// Tells that the machine's node has joined: whatever was kept for joining may go.
    async fn joined(&self, id: &MachineId);

    /// Destroys a machine and everything kept for it. Success means nothing is left; an id the
    /// provider does not have is a success.
    ///
    /// # Errors
    /// The reason, when something may be left; the caller retries.
    async fn release(&self, id: &MachineId) -> Result<(), String>;

    /// Every machine that the provider holds or has traces of.
    ///
    /// # Errors
    /// The reason; an unreadable list is never an empty one.
    async fn list(&self) -> Result<Vec<MachineId>, String>;
}
