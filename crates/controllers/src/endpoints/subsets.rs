//! `endpoints`: the Endpoints of a Service. Pure.

use super::addresses::{self, HEADLESS_LABEL, Port};
use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The most addresses that Endpoints hold; EndpointSlices hold the others too.
const MAX_ADDRESSES: usize = 1000;

/// The Endpoints of a Service by what Pods there are, without what only the server knows. `known` is
/// what is there: its annotations are kept.
#[must_use]
pub fn endpoints(service: &Service, pods: &[impl AsRef<Pod>], known: Option<&Endpoints>) -> Endpoints {
    let absent = ServiceSpec::default();
    let spec = service.spec.as_ref().unwrap_or(&absent);
    let anyhow = spec.publish_not_ready_addresses == Some(true);
    let ipv6 = spec.ip_families.iter().flatten().next().is_some_and(|family| family == "IPv6");
    // Per address, so that of each address there is one whatever Pods claim it.
    let mut groups: BTreeMap<Vec<Port>, BTreeMap<String, (EndpointAddress, bool)>> = BTreeMap::new();
    let mut pods: Vec<&Pod> = pods.iter().map(AsRef::as_ref).collect();
    pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    for pod in pods {
        let leaving = pod.metadata.deletion_timestamp.is_some() && !anyhow;
        if leaving || addresses::ended(pod) || !addresses::selected(service, pod) {
            continue;
        }
        let Some(ip) = addresses::address(pod, ipv6) else { continue };
        let ports = addresses::ports(spec, pod);
        let portless = spec.ports.as_ref().is_none_or(Vec::is_empty) && addresses::headless(spec);
        if ports.is_empty() && !portless {
            continue;
        }
        let address = EndpointAddress {
            ip: ip.to_owned(),
            hostname: addresses::hostname(pod, service),
            node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            target_ref: Some(addresses::reference(pod)),
        };
        let ready = anyhow || addresses::ready(pod);
        // One port each, as two Pods may have different ports but share some.
        let sets = if portless { vec![Vec::new()] } else { ports.into_iter().map(|port| vec![port]).collect() };
        for set in sets {
            let at = groups.entry(set).or_default().entry(ip.to_owned()).or_insert_with(|| (address.clone(), ready));
            if ready && !at.1 {
                *at = (address.clone(), true);
            }
        }
    }
    let (subsets, truncated) = bounded(repacked(groups));
    let mut annotations = known.and_then(|known| known.metadata.annotations.clone()).unwrap_or_default();
    annotations.remove(OVER_CAPACITY);
    if truncated {
        annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
    }
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    labels.remove(HEADLESS_LABEL);
    if addresses::headless(spec) {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        },
        subsets: Some(subsets).filter(|subsets| !subsets.is_empty()),
    }
}

/// Joins the ports that have the same addresses with the same readiness.
fn repacked(groups: BTreeMap<Vec<Port>, BTreeMap<String, (EndpointAddress, bool)>>) -> Vec<EndpointSubset> {
    type Key = Vec<(String, Option<String>, bool)>;
    type Joined = (BTreeSet<Port>, Vec<(EndpointAddress, bool)>);
    let mut joined: BTreeMap<Key, Joined> = BTreeMap::new();
    for (ports, by_ip) in groups {
        let key = by_ip.iter().map(|(ip, (address, ready))| {
            (ip.clone(), address.target_ref.as_ref().and_then(|pod| pod.uid.clone()), *ready)
        });
        let (all, _) = joined.entry(key.collect()).or_insert_with(|| (BTreeSet::new(), by_ip.into_values().collect()));
        all.extend(ports);
    }
    let mut subsets: Vec<EndpointSubset> = joined
        .into_values()
        .map(|(ports, mut all)| {
            all.sort_by_key(|(address, _)| (address.ip.parse::<IpAddr>().ok(), address.ip.clone()));
            let of = |wanted: bool| {
                let some: Vec<_> =
                    all.iter().filter(|(_, ready)| *ready == wanted).map(|(address, _)| address.clone()).collect();
                Some(some).filter(|some| !some.is_empty())
            };
            let port = |port: Port| EndpointPort {
                name: Some(port.name).filter(|name| !name.is_empty()),
                port: port.number,
                protocol: Some(port.protocol),
                app_protocol: port.app_protocol,
            };
            let ports: Vec<EndpointPort> = ports.into_iter().map(port).collect();
            EndpointSubset {
                addresses: of(true),
                not_ready_addresses: of(false),
                ports: Some(ports).filter(|ports| !ports.is_empty()),
            }
        })
        .collect();
    subsets.sort_by_key(|subset| {
        let port = subset.ports.iter().flatten().next();
        port.map(|port| (port.name.clone(), port.port))
    });
    subsets
}

/// Leaves out addresses over the limit, those that are not ready first.
fn bounded(mut subsets: Vec<EndpointSubset>) -> (Vec<EndpointSubset>, bool) {
    let count = |subsets: &[EndpointSubset]| -> usize {
        let of = |addresses: &Option<Vec<EndpointAddress>>| addresses.as_ref().map_or(0, Vec::len);
        subsets.iter().map(|subset| of(&subset.addresses) + of(&subset.not_ready_addresses)).sum()
    };
    let mut over = count(&subsets).saturating_sub(MAX_ADDRESSES);
    let truncated = over > 0;
    let mut cut = |addresses: &mut Option<Vec<EndpointAddress>>| {
        if let Some(some) = addresses {
            let fewer = over.min(some.len());
            some.truncate(some.len() - fewer);
            over -= fewer;
        }
        addresses.take_if(|addresses| addresses.is_empty());
    };
    if truncated {
        subsets.iter_mut().rev().for_each(|subset| cut(&mut subset.not_ready_addresses));
        subsets.iter_mut().rev().for_each(|subset| cut(&mut subset.addresses));
        subsets.retain(|subset| subset.addresses.is_some() || subset.not_ready_addresses.is_some());
    }
    (subsets, truncated)
}
