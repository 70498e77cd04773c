//! Services and their endpoints as DNS names and forwards.

use super::address::Cidr;
use super::dns::{Endpoint, NamedPort, Record, Target, Zone};
use super::dns_server::SharedZone;
use super::nft::{self, Forward, Protocol};
use crate::boot::modules::Modules;
use crate::watch::{Change, WatchOptions, follow};
use controller_runtime::{Client, ListOptions};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

type Key = (String, String);

/// What the node knows of Services.
#[derive(Debug, Default)]
pub(crate) struct Services {
    services: BTreeMap<Key, Service>,
    slices: BTreeMap<Key, EndpointSlice>,
}

/// Addresses that do not come from objects.
#[derive(Clone, Debug)]
pub(crate) struct Fixed {
    /// The cluster's domain.
    pub(crate) domain: String,
    /// Where the API server is, if at an IPv4 address.
    pub(crate) api_server: Option<SocketAddrV4>,
    /// Addresses of Services that the node answers itself.
    pub(crate) own: Vec<Ipv4Addr>,
}

fn key<K: k8s_openapi::Metadata<Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>>(object: &K) -> Key {
    let metadata = object.metadata();
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn note<K: controller_runtime::ApiResource>(objects: &mut BTreeMap<Key, K>, change: Change<K>) {
    match change {
        Change::All(all) => *objects = all.into_iter().map(|object| (key(&object), object)).collect(),
        Change::Now(object) => drop(objects.insert(key(&object), object)),
        Change::Gone(object) => drop(objects.remove(&key(&object))),
    }
}

impl Services {
    /// Takes in a change of Services.
    pub(crate) fn service(&mut self, change: Change<Service>) {
        note(&mut self.services, change);
    }

    /// Takes in a change of endpoints.
    pub(crate) fn slice(&mut self, change: Change<EndpointSlice>) {
        note(&mut self.slices, change);
    }

    /// The Services of a namespace, as environment variables name them.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<&Service> {
        self.services.iter().filter(|((found, _), _)| found == namespace).map(|(_, service)| service).collect()
    }

    fn slices_of<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = &'a EndpointSlice> {
        self.slices
            .iter()
            .filter(move |((namespace, _), slice)| {
                *namespace == key.0
                    && slice.metadata.labels.as_ref().and_then(|l| l.get("kubernetes.io/service-name")) == Some(&key.1)
            })
            .map(|(_, slice)| slice)
    }

    /// Names and forwards.
    pub(crate) fn plan(&self, fixed: &Fixed) -> (Zone, Vec<Forward>) {
        let mut zone = Zone { domain: fixed.domain.to_ascii_lowercase(), services: BTreeMap::new() };
        let mut forwards = Vec::new();
        for (key, service) in &self.services {
            let Some(spec) = &service.spec else { continue };
            let ports = spec.ports.as_deref().unwrap_or_default();
            let named = ports
                .iter()
                .filter_map(|port| {
                    let protocol = if port.protocol.as_deref() == Some("UDP") { "udp" } else { "tcp" };
                    Some(NamedPort { name: port.name.clone()?, protocol, port: u16::try_from(port.port).ok()? })
                })
                .collect();
            let address: Option<Ipv4Addr> = spec.cluster_ip.as_deref().and_then(|ip| ip.parse().ok());
            let target = if spec.type_.as_deref() == Some("ExternalName") {
                Target::Name(spec.external_name.clone().unwrap_or_default())
            } else if let Some(address) = address {
                Target::Address(address)
            } else if spec.cluster_ip.as_deref() == Some("None") {
                Target::Headless(self.headless(key))
            } else {
                continue;
            };
            zone.services.insert(key.clone(), Record { target, ports: named });
            let Some(address) = address.filter(|address| !fixed.own.contains(address)) else { continue };
            for port in ports {
                let protocol = match port.protocol.as_deref() {
                    None | Some("TCP") => Protocol::Tcp,
                    Some("UDP") => Protocol::Udp,
                    _ => continue,
                };
                let Ok(number) = u16::try_from(port.port) else { continue };
                let api = key.0 == "default" && key.1 == "kubernetes";
                let endpoints = match fixed.api_server {
                    Some(server) if api => vec![server],
                    _ => self.endpoints(key, port.name.as_deref().unwrap_or_default()),
                };
                if !endpoints.is_empty() {
                    forwards.push(Forward { protocol, address, port: number, endpoints });
                }
            }
        }
        (zone, forwards)
    }

    fn headless(&self, key: &Key) -> Vec<Endpoint> {
        let mut endpoints = Vec::new();
        for endpoint in self.slices_of(key).flat_map(|slice| slice.endpoints.iter().flatten()) {
            if endpoint.conditions.as_ref().and_then(|c| c.ready) == Some(false) {
                continue;
            }
            for address in endpoint.addresses.iter().filter_map(|address| address.parse().ok()) {
                endpoints.push(Endpoint { hostname: endpoint.hostname.clone(), address });
            }
        }
        endpoints.sort();
        endpoints.dedup();
        endpoints
    }

    fn endpoints(&self, key: &Key, port: &str) -> Vec<SocketAddrV4> {
        let mut endpoints = Vec::new();
        for slice in self.slices_of(key) {
            let ports = slice.ports.iter().flatten();
            let number = ports.filter(|p| p.name.as_deref().unwrap_or_default() == port).find_map(|p| p.port);
            let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else { continue };
            for endpoint in slice.endpoints.iter().flatten() {
                if endpoint.conditions.as_ref().and_then(|c| c.ready) == Some(false) {
                    continue;
                }
                let addresses = endpoint.addresses.iter().filter_map(|address| address.parse().ok());
                endpoints.extend(addresses.map(|address| SocketAddrV4::new(address, number)));
            }
        }
        endpoints.sort();
        endpoints.dedup();
        endpoints
    }
}

/// What others see of the Services.
#[derive(Clone, Debug)]
pub(crate) struct ServicesHandle {
    state: std::sync::Arc<std::sync::RwLock<Services>>,
    applied: watch::Receiver<bool>,
}

impl ServicesHandle {
    /// Waits until the rules of the first complete observation hold, but not longer than `limit`.
    pub(crate) async fn ready(&self, limit: Duration) {
        let mut applied = self.applied.clone();
        let _ = tokio::time::timeout(limit, applied.wait_for(|applied| *applied)).await;
    }

    /// Calls `read` with the Services as known now.
    pub(crate) fn with<T>(&self, read: impl FnOnce(&Services) -> T) -> T {
        read(&self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Follows Services and keeps names and rules as they say. The future runs for ever.
pub(crate) fn run(
    client: Client,
    fixed: Fixed,
    pods: Cidr,
    zone: SharedZone,
    settle: Duration,
) -> (ServicesHandle, impl Future<Output = ()>) {
    let state: std::sync::Arc<std::sync::RwLock<Services>> = std::sync::Arc::default();
    let (applied, seen) = watch::channel(false);
    let handle = ServicesHandle { state: state.clone(), applied: seen };
    let work = async move {
        let (services, mut service_changes) = mpsc::channel(64);
        let (slices, mut slice_changes) = mpsc::channel(64);
        let followers = async {
            tokio::join!(
                follow(client.clone(), ListOptions::default(), WatchOptions::default(), services),
                follow(client.clone(), ListOptions::default(), WatchOptions::default(), slices),
            );
        };
        let apply = async {
            let (mut listed_services, mut listed_slices) = (false, false);
            let mut last: Option<Vec<Forward>> = None;
            loop {
                tokio::select! {
                    Some(change) = service_changes.recv() => {
                        listed_services |= matches!(change, Change::All(_));
                        state.write().unwrap_or_else(std::sync::PoisonError::into_inner).service(change);
                    }
                    Some(change) = slice_changes.recv() => {
                        listed_slices |= matches!(change, Change::All(_));
                        state.write().unwrap_or_else(std::sync::PoisonError::into_inner).slice(change);
                    }
                    // Changes come in groups; the rules follow when a group is over.
                    () = tokio::time::sleep(settle), if listed_services => {
                        let (names, forwards) =
                            state.read().unwrap_or_else(std::sync::PoisonError::into_inner).plan(&fixed);
                        zone.set(names);
                        if last.as_ref() != Some(&forwards) {
                            let rules = forwards.clone();
                            match tokio::task::spawn_blocking(move || {
                                Modules::system().load("nft")?;
                                nft::apply(pods, &rules)
                            }).await {
                                Ok(Ok(())) => last = Some(forwards),
                                Ok(Err(error)) => tracing::warn!(%error, "cannot write the Service rules"),
                                Err(_) => {}
                            }
                        }
                        if last.is_some() {
                            let complete = listed_services && listed_slices;
                            applied.send_if_modified(|now| std::mem::replace(now, complete) != complete);
                        }
                        // Nothing more to do until something changes; a failure is tried again then,
                        // and after a while.
                        let again = if last.is_some() { Duration::from_secs(3600) } else { Duration::from_secs(1) };
                        tokio::select! {
                            Some(change) = service_changes.recv() => {
                                state.write().unwrap_or_else(std::sync::PoisonError::into_inner).service(change);
                            }
                            Some(change) = slice_changes.recv() => {
                                listed_slices |= matches!(change, Change::All(_));
                                state.write().unwrap_or_else(std::sync::PoisonError::into_inner).slice(change);
                            }
                            () = tokio::time::sleep(again) => {}
                        }
                    }
                }
            }
        };
        tokio::join!(followers, apply);
    };
    (handle, work)
}
