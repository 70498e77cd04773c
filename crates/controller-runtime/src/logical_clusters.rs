//! The `LogicalClusters` seam: what cluster lifecycle asks of the API server beyond its API.

use async_trait::async_trait;

/// A client certificate and its key, PEM. `Debug` hides the key.
#[derive(Clone)]
pub struct ClientCredential {
    /// Certificate chain, PEM.
    pub certificate: String,
    /// Private key, PKCS #8 PEM.
    pub key: String,
}

impl std::fmt::Debug for ClientCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCredential").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Why an operation on a logical cluster failed.
#[derive(Debug, thiserror::Error)]
pub enum LogicalClusterError {
    /// No such logical cluster.
    #[error("logical cluster {0:?} does not exist")]
    NotFound(String),
    /// Anything else; retried by the caller.
    #[error("logical cluster {cluster:?}: {reason}")]
    Failed {
        /// Which.
        cluster: String,
        /// Why.
        reason: String,
    },
}

/// Administration of logical clusters. Implemented by the API server that stores them.
#[async_trait]
pub trait LogicalClusters: Send + Sync + 'static {
    /// Whether the logical cluster exists and answers.
    async fn ready(&self, cluster: &str) -> Result<bool, LogicalClusterError>;

    /// Refuses every further request to the cluster (a consultable deny record), then removes its
    /// objects, its certificate authority and its record. Idempotent; an absent cluster is done.
    async fn purge(&self, cluster: &str) -> Result<(), LogicalClusterError>;

    /// Issues a short-lived client certificate signed by the cluster's own authority.
    async fn issue_credential(
        &self,
        cluster: &str,
        user: &str,
        groups: &[String],
        lifetime: std::time::Duration,
    ) -> Result<ClientCredential, LogicalClusterError>;

    /// Mints a one-use token with which the named node may join the cluster.
    async fn issue_join_token(
        &self,
        cluster: &str,
        node: &str,
        lifetime: std::time::Duration,
    ) -> Result<String, LogicalClusterError>;

    /// The serving certificate authority, PEM.
    fn certificate_authority(&self) -> String;
}
