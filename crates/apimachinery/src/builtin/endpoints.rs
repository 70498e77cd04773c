//! Endpoints and EndpointSlices.

use super::errors::Errors;
use super::names::is_ip;
use super::value::{default, default_text, each, int, list, text};
use crate::definition::Rules;
use crate::status::FieldError;
use crate::validation::{dns1123_label, dns1123_subdomain};
use serde_json::Value;
use std::collections::HashSet;

pub(super) const ENDPOINTS: Rules =
    Rules { default: Some(default_endpoints), prepare: None, validate: Some(validate_endpoints) };
pub(super) const ENDPOINT_SLICE: Rules =
    Rules { default: Some(default_slice), prepare: None, validate: Some(validate_slice) };

/// The most endpoints that one slice holds.
const MAX_ENDPOINTS: usize = 1000;
/// The most ports that one slice holds.
const MAX_PORTS: usize = 20_000;

fn default_endpoints(endpoints: &mut Value) {
    for subset in each(endpoints, "subsets") {
        for port in each(subset, "ports") {
            default_text(port, "protocol", "TCP");
        }
    }
}

fn default_slice(slice: &mut Value) {
    for port in each(slice, "ports") {
        default(port, "name", "");
        default_text(port, "protocol", "TCP");
    }
}

fn validate_endpoints(new: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    for (i, subset) in list(new, "subsets").iter().enumerate() {
        let path = format!("subsets[{i}]");
        if list(subset, "addresses").is_empty() && list(subset, "notReadyAddresses").is_empty() {
            errors.required(&path, "must specify `addresses` or `notReadyAddresses`");
        }
        for kind in ["addresses", "notReadyAddresses"] {
            for (j, address) in list(subset, kind).iter().enumerate() {
                ip(&mut errors, text(address, "ip"), &format!("{path}.{kind}[{j}].ip"));
            }
        }
        let ports = list(subset, "ports");
        for (j, port) in ports.iter().enumerate() {
            let path = format!("{path}.ports[{j}]");
            let name = text(port, "name");
            if name.is_empty() && ports.len() > 1 {
                errors.required(&format!("{path}.name"), "");
            } else if !name.is_empty() {
                errors.each_invalid(&format!("{path}.name"), name, dns1123_label(name));
            }
            errors.port(&format!("{path}.port"), int(port, "port").unwrap_or(0));
        }
    }
    errors.finish()
}

fn validate_slice(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let type_ = text(new, "addressType");
    if type_.is_empty() {
        errors.required("addressType", "");
    }
    let endpoints = list(new, "endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        errors.too_many("endpoints", endpoints.len(), MAX_ENDPOINTS);
        return errors.finish();
    }
    for (i, endpoint) in endpoints.iter().enumerate() {
        let path = format!("endpoints[{i}].addresses");
        let addresses = list(endpoint, "addresses");
        if addresses.is_empty() {
            errors.required(&path, "must contain at least 1 address");
        }
        for (j, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
            let path = format!("{path}[{j}]");
            match type_ {
                "IPv4" if address.parse::<std::net::Ipv4Addr>().is_err() => {
                    errors.invalid(&path, address, "must be an IPv4 address");
                }
                "IPv6" if address.parse::<std::net::Ipv6Addr>().is_err() => {
                    errors.invalid(&path, address, "must be an IPv6 address");
                }
                "FQDN" => errors.each_invalid(&path, address, dns1123_subdomain(address)),
                _ => {}
            }
        }
    }
    let ports = list(new, "ports");
    if ports.len() > MAX_PORTS {
        errors.too_many("ports", ports.len(), MAX_PORTS);
        return errors.finish();
    }
    let mut names = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let name = text(port, "name");
        if !names.insert(name) {
            errors.duplicate(&format!("ports[{i}].name"), name);
        } else if !name.is_empty() {
            errors.each_invalid(&format!("ports[{i}].name"), name, dns1123_label(name));
        }
    }
    if let Some(old) = old {
        errors.immutable("addressType", new, old, "addressType");
    }
    errors.finish()
}

fn ip(errors: &mut Errors, address: &str, path: &str) {
    if !is_ip(address) {
        errors.invalid(path, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
}
