//! `Snapshot`: the nodes of one cluster and what runs on them, at one moment.

use super::matching::{Labels, label};
use super::resources::{Resources, presumed, requests};
use crate::node_lifecycle::taints_by_state;
use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec, Taint};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A port of the node that a Pod takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    address: String,
    protocol: String,
    port: i32,
}

impl HostPort {
    /// Whether two Pods cannot have these ports on one node.
    pub(super) fn collides(&self, other: &Self) -> bool {
        let everywhere = |address: &str| address.is_empty() || address == "0.0.0.0" || address == "::";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || everywhere(&self.address) || everywhere(&other.address))
    }
}

/// A node and what runs on it.
#[derive(Clone, Debug)]
pub(super) struct NodeState {
    pub(super) node: Arc<Node>,
    /// Its taints, as they follow from its state now, whether written already or not.
    pub(super) taints: Vec<Taint>,
    pub(super) allocatable: Resources,
    pub(super) requested: Resources,
    /// [`requested`](Self::requested) with presumed requests of containers without.
    pub(super) presumed: Resources,
    pub(super) ports: Vec<HostPort>,
    pub(super) pods: Vec<Arc<Pod>>,
}

impl NodeState {
    pub(super) fn name(&self) -> &str {
        self.node.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn labels(&self) -> Labels<'_> {
        self.node.metadata.labels.as_ref()
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        label(self.labels(), key)
    }

    fn take(&mut self, pod: Arc<Pod>) {
        if let Some(spec) = &pod.spec {
            self.requested.add(&requests(spec));
            self.presumed.add(&presumed(spec));
            self.ports.extend(host_ports(spec));
        }
        self.pods.push(pod);
    }
}

/// The nodes of one cluster and the Pods bound to them.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// In the order of their names.
    pub(super) nodes: Vec<NodeState>,
    positions: HashMap<String, usize>,
    namespaces: HashMap<String, BTreeMap<String, String>>,
}

impl Snapshot {
    /// A snapshot of nodes without Pods. Nodes that are being deleted are not offered.
    #[must_use]
    pub fn new(nodes: impl IntoIterator<Item = Arc<Node>>) -> Self {
        let mut nodes: Vec<NodeState> = nodes
            .into_iter()
            .filter(|node| node.metadata.deletion_timestamp.is_none())
            .map(|node| NodeState {
                taints: taints_by_state(&node),
                allocatable: Resources::of(node.status.as_ref().and_then(|status| status.allocatable.as_ref())),
                requested: Resources::default(),
                presumed: Resources::default(),
                ports: Vec::new(),
                pods: Vec::new(),
                node,
            })
            .collect();
        nodes.sort_by(|a, b| a.name().cmp(b.name()));
        let positions = nodes.iter().enumerate().map(|(at, node)| (node.name().to_owned(), at)).collect();
        Self { nodes, positions, namespaces: HashMap::new() }
    }

    /// Takes note of the labels of a namespace.
    pub fn add_namespace(&mut self, name: &str, labels: BTreeMap<String, String>) {
        self.namespaces.insert(name.to_owned(), labels);
    }

    /// Puts a Pod on a node. Ignored when the node is not known or the Pod has ended.
    pub fn place(&mut self, pod: Arc<Pod>, node: &str) {
        if !ended(&pod)
            && let Some(node) = self.positions.get(node).and_then(|at| self.nodes.get_mut(*at))
        {
            node.take(pod);
        }
    }

    /// The labels of a namespace. One that was never changed has those it was made with.
    pub(super) fn namespace_labels(&self, name: &str) -> BTreeMap<String, String> {
        self.namespaces
            .get(name)
            .cloned()
            .unwrap_or_else(|| BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name.to_owned())]))
    }
}

/// Whether a Pod runs no more and never will.
pub(super) fn ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The ports of the node that a Pod takes.
pub(super) fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten().filter(sidecar));
    let host_network = spec.host_network == Some(true);
    containers
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0);
            Some(HostPort {
                port: number.or_else(|| host_network.then_some(port.container_port))?,
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                address: port.host_ip.clone().unwrap_or_default(),
            })
        })
        .collect()
}
