//! `plan_slices`: what to do so that a Service has the EndpointSlices it should. Pure.

use super::addresses::{self, HEADLESS_LABEL, Port};
use k8s_openapi::api::core::v1::{Pod, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::collections::BTreeMap;

/// The label that names a slice's Service.
pub(super) const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The label that names a slice's controller.
pub(super) const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// This controller.
pub(super) const MANAGED_BY: &str = "endpointslice-controller.k8s.io";

/// What to do. Updates carry the version that they are based on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Slices to create; the server names them.
    pub create: Vec<EndpointSlice>,
    /// Slices to write.
    pub update: Vec<EndpointSlice>,
    /// Slices to delete.
    pub delete: Vec<EndpointSlice>,
}

impl Plan {
    /// Whether everything is as it should be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.update.is_empty() && self.delete.is_empty()
    }
}

/// Plans the slices of a Service. `known` are those that this controller manages; `zone` says in which
/// zone a node is. An endpoint stays in its slice, so a change touches few slices; a Service without
/// endpoints has one slice that is empty.
#[must_use]
pub fn plan_slices(
    service: &Service,
    pods: &[impl AsRef<Pod>],
    zone: impl Fn(&str) -> Option<String>,
    known: &[impl AsRef<EndpointSlice>],
    max_endpoints: usize,
) -> Plan {
    let absent = ServiceSpec::default();
    let spec = service.spec.as_ref().unwrap_or(&absent);
    let mut families: Vec<bool> = spec.ip_families.iter().flatten().map(|family| family == "IPv6").collect();
    if families.is_empty() {
        families.push(false);
    }
    let mut known: Vec<&EndpointSlice> = known.iter().map(AsRef::as_ref).collect();
    known.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let mut plan = Plan::default();
    for ipv6 in families {
        let address_type = if ipv6 { "IPv6" } else { "IPv4" };
        let of_family: Vec<&EndpointSlice> = known.extract_if(.., |slice| slice.address_type == address_type).collect();
        let wanted = wanted(service, spec, pods, &zone, ipv6);
        plan_family(service, spec, address_type, wanted, of_family, max_endpoints.max(1), &mut plan);
    }
    plan.delete.extend(known.into_iter().cloned());
    plan
}

type Groups = BTreeMap<Vec<Port>, BTreeMap<String, Endpoint>>;

/// The endpoints that there should be, by their ports and their Pod.
fn wanted(
    service: &Service,
    spec: &ServiceSpec,
    pods: &[impl AsRef<Pod>],
    zone: impl Fn(&str) -> Option<String>,
    ipv6: bool,
) -> Groups {
    let anyhow = spec.publish_not_ready_addresses == Some(true);
    let mut groups = Groups::new();
    for pod in pods.iter().map(AsRef::as_ref) {
        if addresses::ended(pod) || !addresses::selected(service, pod) {
            continue;
        }
        let Some(ip) = addresses::address(pod, ipv6) else { continue };
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let (serving, terminating) = (addresses::ready(pod), pod.metadata.deletion_timestamp.is_some());
        let endpoint = Endpoint {
            addresses: vec![ip.to_owned()],
            conditions: Some(EndpointConditions {
                ready: Some(anyhow || (serving && !terminating)),
                serving: Some(serving),
                terminating: Some(terminating),
            }),
            hostname: addresses::hostname(pod, service),
            zone: node.as_deref().and_then(&zone),
            node_name: node,
            target_ref: Some(addresses::reference(pod)),
            ..Endpoint::default()
        };
        groups.entry(addresses::ports(spec, pod)).or_default().insert(identity(&endpoint), endpoint);
    }
    groups
}

/// What makes an endpoint the same as before.
fn identity(endpoint: &Endpoint) -> String {
    let uid = endpoint.target_ref.as_ref().and_then(|pod| pod.uid.as_deref()).unwrap_or_default();
    format!("{uid} {}", endpoint.addresses.first().map_or("", String::as_str))
}

fn ports_of(slice: &EndpointSlice) -> Vec<Port> {
    let port = |port: &EndpointPort| Port {
        name: port.name.clone().unwrap_or_default(),
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
        number: port.port.unwrap_or(0),
        app_protocol: port.app_protocol.clone(),
    };
    let mut ports: Vec<Port> = slice.ports.iter().flatten().map(port).collect();
    ports.sort();
    ports
}

fn plan_family(
    service: &Service,
    spec: &ServiceSpec,
    address_type: &str,
    mut wanted: Groups,
    known: Vec<&EndpointSlice>,
    max_endpoints: usize,
    plan: &mut Plan,
) {
    if wanted.is_empty() {
        wanted.insert(Vec::new(), BTreeMap::new());
    }
    let mut kept: Vec<(&EndpointSlice, Vec<Port>, Vec<Endpoint>)> = Vec::new();
    for slice in known {
        let ports = ports_of(slice);
        let Some(group) = wanted.get_mut(&ports) else {
            plan.delete.push(slice.clone());
            continue;
        };
        let here = slice.endpoints.iter().flatten().filter_map(|endpoint| group.remove(&identity(endpoint)));
        kept.push((slice, ports, here.take(max_endpoints).collect()));
    }
    let mut fresh: Vec<(Vec<Port>, Vec<Endpoint>)> = Vec::new();
    for (ports, rest) in wanted {
        let mut rest = rest.into_values().peekable();
        for (_, _, endpoints) in kept.iter_mut().filter(|(_, own, _)| *own == ports) {
            let room = max_endpoints - endpoints.len();
            endpoints.extend(rest.by_ref().take(room));
        }
        while rest.peek().is_some() {
            fresh.push((ports.clone(), rest.by_ref().take(max_endpoints).collect()));
        }
    }
    let occupied = !fresh.is_empty() || kept.iter().any(|(_, _, endpoints)| !endpoints.is_empty());
    let mut placeholder = occupied;
    for (slice, ports, endpoints) in kept {
        if endpoints.is_empty() && std::mem::replace(&mut placeholder, true) {
            plan.delete.push(slice.clone());
            continue;
        }
        let mut next = slice_of(service, spec, address_type, &ports, endpoints);
        let (old, new) = (&slice.metadata, &next.metadata);
        let same = old.labels == new.labels
            && old.owner_references == new.owner_references
            && slice.endpoints.as_deref().unwrap_or_default() == next.endpoints.as_deref().unwrap_or_default();
        if !same {
            next.metadata = ObjectMeta {
                labels: next.metadata.labels.take(),
                owner_references: next.metadata.owner_references.take(),
                ..slice.metadata.clone()
            };
            plan.update.push(next);
        }
    }
    if !placeholder {
        fresh.push((Vec::new(), Vec::new()));
    }
    let create = fresh.into_iter().map(|(ports, endpoints)| slice_of(service, spec, address_type, &ports, endpoints));
    plan.create.extend(create);
}

fn slice_of(
    service: &Service,
    spec: &ServiceSpec,
    address_type: &str,
    ports: &[Port],
    endpoints: Vec<Endpoint>,
) -> EndpointSlice {
    let name = service.metadata.name.clone().unwrap_or_default();
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_LABEL.to_owned(), name.clone());
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
    labels.remove(HEADLESS_LABEL);
    if addresses::headless(spec) {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    let port = |port: &Port| EndpointPort {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: Some(port.number),
        app_protocol: port.app_protocol.clone(),
    };
    EndpointSlice {
        address_type: address_type.to_owned(),
        endpoints: Some(endpoints),
        ports: Some(ports.iter().map(port).collect()),
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Service".to_owned(),
                name,
                uid: service.metadata.uid.clone().unwrap_or_default(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
    }
}
