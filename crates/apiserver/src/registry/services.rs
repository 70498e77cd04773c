//! Addresses and node ports of Services: taken and given back in the Service's own transaction.

use super::write::Target;
use super::{Registry, keys, meta};
use apimachinery::status::{ApiError, FieldError, FieldErrorKind};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use store::{Condition, Op, Txn};

/// What a write takes and gives back.
#[derive(Default)]
pub(super) struct Claims {
    taken: Vec<Taken>,
    released: Vec<Bytes>,
    owner: String,
}

struct Taken {
    key: Bytes,
    /// The field, its value and its words, when a client chose it.
    chosen: Option<FieldError>,
}

impl Claims {
    /// Adds them to a transaction.
    pub(super) fn add_to(&self, txn: &mut Txn) {
        for Taken { key, .. } in &self.taken {
            txn.conditions.push((key.clone(), Condition::Absent));
            txn.ops.push(Op::Put { key: key.clone(), value: self.owner.clone().into() });
        }
        txn.ops.extend(self.released.iter().map(|key| Op::Delete { key: key.clone() }));
    }

    /// 422 when the key that was not free was the client's choice.
    pub(super) fn refusal(&self, target: &Target<'_>, key: &Bytes) -> Option<ApiError> {
        let taken = self.taken.iter().find(|taken| taken.key == *key)?;
        let error = taken.chosen.clone()?;
        Some(ApiError::invalid("", "Service", target.name, &[error]))
    }
}

impl Registry {
    /// Gives a Service the addresses and ports it needs, and tells what the transaction must take
    /// and give back.
    pub(super) fn claim(&self, target: &Target<'_>, new: &mut Value, old: Option<&Value>) -> Result<Claims, ApiError> {
        let held_addresses = old.map(addresses).unwrap_or_default();
        let held_ports = old.map(ports).unwrap_or_default();
        let mut claims =
            Claims { owner: format!("{}/{}", target.namespace.unwrap_or_default(), target.name), ..Claims::default() };
        let mut taken = BTreeSet::new();
        if needs_address(new) && addresses(new).is_empty() {
            let address = self.pick_address()?.to_string();
            let spec = meta::section(new, "spec");
            spec.insert("clusterIP".into(), address.as_str().into());
            spec.insert("clusterIPs".into(), json!([address]));
            taken.insert(address);
        }
        let addresses_now = addresses(new);
        for address in addresses_now.iter().filter(|address| !held_addresses.contains(*address)) {
            let chosen =
                (!taken.contains(address)).then(|| self.address_error(address, "provided IP is already allocated"));
            if chosen.is_some() {
                self.check_address(target, address)?;
            }
            claims.taken.push(Taken { key: keys::address(&target.record.name, address), chosen });
        }
        let mut picked = BTreeSet::new();
        if wants_ports(new) {
            for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
                if port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) == 0 {
                    let number = self.pick_port();
                    port["nodePort"] = number.into();
                    picked.insert(number);
                }
            }
        }
        let ports_now = ports(new);
        for port in ports_now.iter().filter(|port| !held_ports.contains(*port)) {
            let chosen = (!picked.contains(port)).then(|| port_error(*port, "provided port is already allocated"));
            let (first, last) = self.options().node_ports;
            if chosen.is_some() && !(i64::from(first)..=i64::from(last)).contains(port) {
                let why =
                    format!("provided port is not in the valid range. The range of valid ports is {first}-{last}");
                return Err(ApiError::invalid("", "Service", target.name, &[port_error(*port, &why)]));
            }
            claims.taken.push(Taken { key: keys::port(&target.record.name, *port), chosen });
        }
        let addresses_gone = held_addresses.difference(&addresses_now);
        claims.released.extend(addresses_gone.map(|address| keys::address(&target.record.name, address)));
        let ports_gone = held_ports.difference(&ports_now);
        claims.released.extend(ports_gone.map(|port| keys::port(&target.record.name, *port)));
        Ok(claims)
    }

    /// What a Service that goes gives back.
    pub(super) fn release(&self, target: &Target<'_>, old: &Value) -> Vec<Op> {
        let cluster = &target.record.name;
        let addresses = addresses(old).into_iter().map(|address| keys::address(cluster, &address));
        let ports = ports(old).into_iter().map(|port| keys::port(cluster, port));
        addresses.chain(ports).map(|key| Op::Delete { key }).collect()
    }

    fn network(&self) -> (u32, u32) {
        let (base, prefix) = self.options().service_network;
        let size = 1_u32.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(u32::MAX);
        (u32::from(base), size.max(4))
    }

    /// An address that is free in every cluster from birth; whether it is still free in this one,
    /// the transaction tells.
    fn pick_address(&self) -> Result<Ipv4Addr, ApiError> {
        let (base, size) = self.network();
        for _ in 0..self.options().allocation_attempts.max(1) {
            let offset = u32::try_from(meta::random() % u64::from(size - 2)).unwrap_or_default() + 1;
            let address = Ipv4Addr::from(base.saturating_add(offset));
            if !self.base().has_address(&address.to_string()) {
                return Ok(address);
            }
        }
        Err(ApiError::internal("failed to allocate a serviceIP: range is full"))
    }

    fn pick_port(&self) -> i64 {
        let (first, last) = self.options().node_ports;
        let count = u64::from(last.saturating_sub(first)) + 1;
        i64::from(first) + i64::try_from(meta::random() % count).unwrap_or_default()
    }

    fn check_address(&self, target: &Target<'_>, address: &str) -> Result<(), ApiError> {
        let (base, size) = self.network();
        let inside = address
            .parse::<Ipv4Addr>()
            .is_ok_and(|address| (1..size - 1).contains(&u32::from(address).wrapping_sub(base)));
        let why = if !inside {
            let (base, prefix) = self.options().service_network;
            format!("the provided IP is not in the valid range. The range of valid IPs is {base}/{prefix}")
        } else if self.base().has_address(address) {
            "provided IP is already allocated".to_owned()
        } else {
            return Ok(());
        };
        Err(ApiError::invalid("", "Service", target.name, &[self.address_error(address, &why)]))
    }

    fn address_error(&self, address: &str, why: &str) -> FieldError {
        FieldError {
            kind: FieldErrorKind::Invalid,
            field: "spec.clusterIPs".into(),
            value: Some(json!([address])),
            detail: format!("failed to allocate IP {address}: {why}"),
        }
    }
}

fn port_error(port: i64, why: &str) -> FieldError {
    FieldError {
        kind: FieldErrorKind::Invalid,
        field: "spec.ports[0].nodePort".into(),
        value: Some(port.into()),
        detail: why.into(),
    }
}

fn needs_address(service: &Value) -> bool {
    let spec = &service["spec"];
    meta::text(spec, "type") != "ExternalName" && meta::text(spec, "clusterIP") != "None"
}

fn wants_ports(service: &Value) -> bool {
    let spec = &service["spec"];
    match meta::text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"].as_bool().unwrap_or(true),
        _ => false,
    }
}

fn addresses(service: &Value) -> BTreeSet<String> {
    let spec = &service["spec"];
    if !needs_address(service) {
        return BTreeSet::new();
    }
    let list = spec["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let one = Some(meta::text(spec, "clusterIP"));
    list.chain(one).filter(|address| !address.is_empty()).map(str::to_owned).collect()
}

fn ports(service: &Value) -> BTreeSet<i64> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports.filter_map(|port| port.get("nodePort")?.as_i64()).filter(|port| *port != 0).collect()
}
