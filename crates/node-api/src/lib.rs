//! What a control plane and a node agent say to each other: boot configuration, join, tunnel.
//!
//! The agent opens every connection. It boots with a [`BootConfig`] (not secret) and a
//! [`JoinSecret`] (one use), makes its own key, and trades a certificate request for a client
//! certificate at [`join_path`]. With that certificate it uses the Kubernetes API as
//! `system:node:<name>` and keeps one [`tunnel_path`] connection open, over which the API server
//! speaks HTTP/2 *to the agent* ([`tunnel`]).

pub mod frame;
pub mod tunnel;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the boot configuration in the NoCloud seed's `user-data`: its first line.
pub const USER_DATA_HEADER: &str = "#socialweb-node";

/// Everything a node must know to find its cluster. It is readable by whoever can read the
/// machine's user data, so nothing in it is secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BootConfig {
    /// The API server as the node reaches it, `https://host:port`, without a path.
    pub server: String,
    /// Logical cluster.
    pub cluster: String,
    /// Name of the Node object.
    pub node_name: String,
    /// The API server's certificate authority, PEM.
    pub certificate_authority: String,
    /// Addresses for Pods of this node, CIDR.
    pub pod_cidr: String,
    /// Addresses of Services, CIDR.
    pub service_cidr: String,
    /// The Service address on which the node answers cluster DNS.
    pub cluster_dns: String,
    /// Usually `cluster.local`.
    pub cluster_domain: String,
    /// Labels of the Node object.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Plain-HTTP registries that images may be pulled from, `host:port`.
    #[serde(default)]
    pub insecure_registries: Vec<String>,
    /// Registry hosts that are reached under another name, such as `localhost:5000` at
    /// `10.0.2.2:5000`.
    #[serde(default)]
    pub registry_mirrors: BTreeMap<String, String>,
}

/// The one-use credential with which a machine joins.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinSecret {
    /// Bearer token for [`join_path`].
    pub token: String,
}

impl std::fmt::Debug for JoinSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JoinSecret(..)")
    }
}

/// Body of a join: `POST` with the join token, or with the node's present certificate to renew.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinRequest {
    /// PKCS #10 certificate request, PEM. Only its public key is used.
    pub certificate_request: String,
}

/// Answer to a join.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinResponse {
    /// Client certificate for `system:node:<name>`, group `system:nodes`, PEM.
    pub certificate: String,
}

/// Where a node joins.
#[must_use]
pub fn join_path(cluster: &str, node: &str) -> String {
    format!("/clusters/{cluster}/nodes/{node}/join")
}

/// Where a node opens its tunnel: an HTTP/1.1 upgrade to [`tunnel::PROTOCOL`].
#[must_use]
pub fn tunnel_path(cluster: &str, node: &str) -> String {
    format!("/clusters/{cluster}/nodes/{node}/tunnel")
}
