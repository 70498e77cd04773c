//! What Endpoints and EndpointSlices have in common: which Pods count, their ports and readiness.

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;

/// The label of endpoints of headless Services.
pub(super) const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";

/// A port of a Service on one Pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) protocol: String,
    pub(super) number: i32,
    pub(super) app_protocol: Option<String>,
}

/// The selector of a Service whose endpoints follow from Pods.
pub(super) fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    let external = spec.type_.as_deref() == Some("ExternalName");
    spec.selector.as_ref().filter(|selector| !external && !selector.is_empty())
}

/// Whether a Service selects a Pod.
pub(super) fn selected(service: &Service, pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    service.metadata.namespace == pod.metadata.namespace
        && selector(service).is_some_and(|selector| {
            selector.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
        })
}

/// Whether a Service has no address of its own.
pub(super) fn headless(spec: &ServiceSpec) -> bool {
    spec.cluster_ip.as_deref() == Some("None")
}

/// Whether a Pod says it is ready.
pub(super) fn ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether a Pod has ended.
pub(super) fn ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The Pod's address of a family.
pub(super) fn address(pod: &Pod, ipv6: bool) -> Option<&str> {
    let status = pod.status.as_ref()?;
    let all = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).chain(status.pod_ip.as_deref());
    all.filter(|ip| !ip.is_empty()).find(|ip| ip.contains(':') == ipv6)
}

/// The name under which a headless Service knows the Pod.
pub(super) fn hostname(pod: &Pod, service: &Service) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let member = spec.subdomain.is_some() && spec.subdomain == service.metadata.name;
    spec.hostname.clone().filter(|hostname| member && !hostname.is_empty())
}

/// The reference to a Pod in its endpoint.
pub(super) fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The ports of a Service on a Pod, in order. A port whose name the Pod does not know is left out.
pub(super) fn ports(spec: &ServiceSpec, pod: &Pod) -> Vec<Port> {
    let port = |port: &ServicePort| {
        Some(Port {
            number: number(port, pod)?,
            name: port.name.clone().unwrap_or_default(),
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            app_protocol: port.app_protocol.clone(),
        })
    };
    let mut ports: Vec<Port> = spec.ports.iter().flatten().filter_map(port).collect();
    ports.sort();
    ports.dedup();
    ports
}

fn number(port: &ServicePort, pod: &Pod) -> Option<i32> {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let name = match &port.target_port {
        None | Some(IntOrString::Int(0)) => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let spec = pod.spec.as_ref()?;
    let sidecars =
        spec.init_containers.iter().flatten().filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let known = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    known
        .filter(|known| known.name.as_ref() == Some(name) && known.protocol.as_deref().unwrap_or("TCP") == protocol)
        .map(|known| known.container_port)
        .next()
}
