//! Every bound and default of the clusters component.

use crate::scale::{self, Resources};
use std::collections::BTreeMap;
use std::time::Duration;

/// Defaults of clusters and limits of their controllers.
#[derive(Clone, Debug)]
pub struct Options {
    /// How nodes scale where a `Cluster` does not say.
    pub scale: scale::Options,
    /// Virtual CPUs of a node where a `Cluster` does not say.
    pub node_cpus: u32,
    /// Memory of a node where a `Cluster` does not say, MiB.
    pub node_memory_mib: u32,
    /// Memory of a node that is not offered to Pods, MiB.
    pub node_reserved_mib: u32,
    /// The API server as clients reach it, `https://host:port`.
    pub url: String,
    /// The API server as nodes reach it, `https://host:port`.
    pub node_url: String,
    /// Range of Service addresses, CIDR.
    pub service_cidr: String,
    /// Address on which nodes answer cluster DNS.
    pub cluster_dns: String,
    /// Domain of cluster DNS.
    pub cluster_domain: String,
    /// Plain-HTTP registries that nodes may pull from, `host:port`.
    pub insecure_registries: Vec<String>,
    /// Registries that nodes reach under another name.
    pub registry_mirrors: BTreeMap<String, String>,
    /// The provider's name in the status of claims.
    pub provider: String,
    /// How long a join token is valid.
    pub join_token_lifetime: Duration,
    /// How long a machine may take from its claim to its node being Ready.
    pub join_timeout: Duration,
    /// How often a machine that is coming or running is looked at.
    pub observe_interval: Duration,
    /// How often a refused teardown is tried again.
    pub gate_interval: Duration,
    /// Clusters worked on at a time.
    pub workers: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scale: scale::Options::default(),
            node_cpus: 1,
            node_memory_mib: 512,
            node_reserved_mib: 96,
            url: String::new(),
            node_url: String::new(),
            service_cidr: "10.96.0.0/16".to_owned(),
            cluster_dns: "10.96.0.10".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            insecure_registries: Vec::new(),
            registry_mirrors: BTreeMap::new(),
            provider: "host".to_owned(),
            join_token_lifetime: Duration::from_secs(600),
            join_timeout: Duration::from_secs(180),
            observe_interval: Duration::from_secs(1),
            gate_interval: Duration::from_secs(10),
            workers: 16,
        }
    }
}

/// The shape of a cluster's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) cpus: u32,
    pub(crate) memory_mib: u32,
}

impl Options {
    /// What one node of the cluster is.
    pub(crate) fn shape(&self, spec: &api::ClusterSpec) -> Shape {
        let positive = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        Shape {
            cpus: positive(spec.nodes.cpus, self.node_cpus),
            memory_mib: positive(spec.nodes.memory_mi_b, self.node_memory_mib),
        }
    }

    /// How the cluster's nodes scale.
    pub(crate) fn scale_of(&self, spec: &api::ClusterSpec) -> scale::Options {
        let shape = self.shape(spec);
        let positive = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        scale::Options {
            max_nodes: positive(spec.nodes.max, self.scale.max_nodes),
            pods_per_node: positive(spec.nodes.pods_per_node, self.scale.pods_per_node),
            hold: spec.nodes.hold_seconds.map_or(self.scale.hold, |seconds| i64::from(seconds.max(0))),
            node: Resources {
                cpu_milli: u64::from(shape.cpus) * 1000,
                memory: u64::from(shape.memory_mib.saturating_sub(self.node_reserved_mib)) << 20,
            },
            ..self.scale.clone()
        }
    }
}
