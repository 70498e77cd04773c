//! The base layer: the objects that every logical cluster has from birth, without being stored.
//!
//! They carry no uid, creation time or resource version: those differ from cluster to cluster and
//! are the registry's. Everything else is as a Kubernetes API server would have stored it.
//!
//! The Services `kubernetes` and `kube-dns` have neither selector nor Endpoints: what answers on
//! their addresses is the node itself, whose forwarder reaches the API server where the node knows
//! it. An EndpointSlice would name an address that no Pod can reach.

mod components;
mod role;
mod users;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// The namespaces that every cluster has.
pub const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// Name of the ServiceAccount that every namespace has.
pub const DEFAULT_SERVICE_ACCOUNT: &str = "default";
/// Name of the ConfigMap with the serving CA that every namespace has.
pub const ROOT_CA_CONFIG_MAP: &str = "kube-root-ca.crt";

/// What the base layer needs to know of the server.
#[derive(Clone, Debug)]
pub struct BaseParams {
    /// Certificate of the CA that signs the API server's serving certificate, PEM.
    pub root_ca_pem: String,
    /// Address of the Service `kubernetes`.
    pub kubernetes_ip: Ipv4Addr,
    /// Address of the Service `kube-dns`.
    pub dns_ip: Ipv4Addr,
    /// Port on which the API server listens.
    pub api_server_port: u16,
}

/// Every object of the base layer.
#[must_use]
pub fn objects(params: &BaseParams) -> Vec<Value> {
    let mut objects: Vec<Value> = NAMESPACES.iter().map(|name| namespace(name)).collect();
    objects.extend(NAMESPACES.iter().map(|namespace| service_account(namespace)));
    objects.extend(NAMESPACES.iter().map(|namespace| root_ca(namespace, &params.root_ca_pem)));
    objects.extend([kubernetes(params), kube_dns(params)]);
    objects.extend(priority_classes());
    objects.extend(users::objects());
    objects.extend(components::objects());
    objects
}

/// The ServiceAccount that every namespace has.
#[must_use]
pub fn service_account(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": DEFAULT_SERVICE_ACCOUNT, "namespace": namespace},
    })
}

/// The ConfigMap with the serving CA that every namespace has.
#[must_use]
pub fn root_ca(namespace: &str, pem: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": ROOT_CA_CONFIG_MAP,
            "namespace": namespace,
            "annotations": {
                "kubernetes.io/description": "CA certificates that verify the API server on its address inside the cluster.",
            },
        },
        "data": {"ca.crt": pem},
    })
}

fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {super::NAMESPACE_NAME_LABEL: name}},
        "spec": {"finalizers": [super::NAMESPACE_FINALIZER]},
        "status": {"phase": "Active"},
    })
}

fn kubernetes(params: &BaseParams) -> Value {
    let ports = json!([{"name": "https", "port": 443, "protocol": "TCP", "targetPort": params.api_server_port}]);
    let metadata = json!({
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    });
    service(metadata, params.kubernetes_ip, ports)
}

fn kube_dns(params: &BaseParams) -> Value {
    let ports = json!([
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
    ]);
    let metadata = json!({
        "name": "kube-dns",
        "namespace": "kube-system",
        "labels": {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true"},
    });
    service(metadata, params.dns_ip, ports)
}

/// A Service without selector at `address`, with every default set.
fn service(metadata: Value, address: Ipv4Addr, ports: Value) -> Value {
    let address = address.to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": address,
            "clusterIPs": [address],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": ports,
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    })
}

fn priority_classes() -> [Value; 2] {
    let class = |name: &str, value: i64, description: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        })
    };
    [
        class("system-cluster-critical", 2_000_000_000, "For Pods that the cluster needs, on whichever node they are."),
        class("system-node-critical", 2_000_001_000, "For Pods that their node needs."),
    ]
}
