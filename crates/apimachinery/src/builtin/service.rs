//! Services.

use super::errors::{Errors, IMMUTABLE};
use super::names::is_ip;
use super::pod::container::target_port;
use super::pod::spec::label;
use super::value::{default, default_text, each, entries, existing, int, is_empty, is_set, list, set, text};
use crate::definition::Rules;
use crate::status::FieldError;
use crate::validation::{dns1123_label, dns1123_subdomain};
use serde_json::{Value, json};
use std::collections::HashSet;

pub(super) const RULES: Rules =
    Rules { default: Some(default_service), prepare: Some(prepare), validate: Some(validate) };

/// `clusterIP` of a Service without an address.
const HEADLESS: &str = "None";

fn default_service(service: &mut Value) {
    let Some(spec) = existing(service, "spec") else {
        return;
    };
    default_text(spec, "sessionAffinity", "None");
    if text(spec, "sessionAffinity") == "None" {
        super::value::remove(spec, "sessionAffinityConfig");
    } else {
        default(spec, "sessionAffinityConfig", json!({}));
        if let Some(config) = existing(spec, "sessionAffinityConfig") {
            default(config, "clientIP", json!({}));
            if let Some(client) = existing(config, "clientIP") {
                default(client, "timeoutSeconds", 10800);
            }
        }
    }
    default_text(spec, "type", "ClusterIP");
    for port in each(spec, "ports") {
        default_text(port, "protocol", "TCP");
        let target = port.get("targetPort");
        if target.is_none_or(|target| target.is_null() || *target == 0 || *target == "") {
            let number = port.get("port").cloned().unwrap_or_default();
            set(port, "targetPort", number);
        }
    }
    let type_ = text(spec, "type").to_owned();
    if type_ == "NodePort" || type_ == "LoadBalancer" {
        default_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if type_ != "ExternalName" {
        default_text(spec, "internalTrafficPolicy", "Cluster");
        default_text(spec, "ipFamilyPolicy", "SingleStack");
        if is_empty(spec, "ipFamilies") {
            set(spec, "ipFamilies", json!(["IPv4"]));
        }
    }
    if type_ == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
}

/// Keeps `clusterIP` and `clusterIPs` in step, and on update carries over what was allocated and the
/// user left out.
fn prepare(new: &mut Value, old: Option<&Value>) {
    if old.is_none() {
        set(new, "status", json!({"loadBalancer": {}}));
    }
    let Some(spec) = existing(new, "spec") else {
        return;
    };
    if let Some(old) = old.map(|old| &old["spec"]) {
        let addressed = |spec: &Value| text(spec, "type") != "ExternalName";
        if addressed(spec) && addressed(old) {
            for key in ["clusterIP", "clusterIPs"] {
                if is_empty(spec, key) && !is_empty(old, key) {
                    set(spec, key, old[key].clone());
                }
            }
            if text(spec, "clusterIP") != text(old, "clusterIP") && spec.get("clusterIPs") == old.get("clusterIPs") {
                super::value::remove(spec, "clusterIPs");
            }
        }
        if text(old, "type") != "ClusterIP" && matches!(text(spec, "type"), "NodePort" | "LoadBalancer") {
            for port in each(spec, "ports").filter(|port| int(port, "nodePort").unwrap_or(0) == 0) {
                let before = list(old, "ports").iter().find(|before| {
                    before.get("port") == port.get("port") && before.get("protocol") == port.get("protocol")
                });
                if let Some(node_port) = before.and_then(|before| int(before, "nodePort")) {
                    set(port, "nodePort", node_port);
                }
            }
        }
    }
    if let Some(old) = old.map(|old| &old["spec"]) {
        drop_what_the_type_had(spec, old);
    }
    let address = text(spec, "clusterIP").to_owned();
    if !address.is_empty() && is_empty(spec, "clusterIPs") {
        set(spec, "clusterIPs", json!([address]));
    }
}

/// What only the former type of a Service has a use for goes with that type, unless the user changed
/// it in the same write.
fn drop_what_the_type_had(spec: &mut Value, old: &Value) {
    let (before, after) = (text(old, "type").to_owned(), text(spec, "type").to_owned());
    let external = |type_: &str| matches!(type_, "NodePort" | "LoadBalancer");
    if before != "ExternalName" && after == "ExternalName" {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            drop_unchanged(spec, old, key);
        }
    }
    if external(&before) && !external(&after) {
        drop_unchanged(spec, old, "externalTrafficPolicy");
        drop_unchanged(spec, old, "healthCheckNodePort");
        let node_ports: Vec<_> = list(old, "ports").iter().filter_map(|port| int(port, "nodePort")).collect();
        for port in each(spec, "ports") {
            if int(port, "nodePort").is_some_and(|number| node_ports.contains(&number)) {
                super::value::remove(port, "nodePort");
            }
        }
    }
    if before == "LoadBalancer" && after != "LoadBalancer" {
        drop_unchanged(spec, old, "allocateLoadBalancerNodePorts");
        drop_unchanged(spec, old, "loadBalancerClass");
    }
    if before == "ExternalName" && after != "ExternalName" {
        drop_unchanged(spec, old, "externalName");
    }
}

fn drop_unchanged(spec: &mut Value, old: &Value, key: &str) {
    if spec.get(key) == old.get(key) {
        super::value::remove(spec, key);
    }
}

fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = &new["spec"];
    let (type_, address) = (text(spec, "type"), text(spec, "clusterIP"));
    if list(spec, "ports").is_empty() && address != HEADLESS && type_ != "ExternalName" {
        errors.required("spec.ports", "");
    }
    if type_ == "ExternalName" {
        if !address.is_empty() {
            let detail = "may not be set when `type` is 'ExternalName'";
            errors.forbidden("spec.clusterIPs", detail);
        }
        let name = text(spec, "externalName").trim_end_matches('.');
        if name.is_empty() {
            errors.required("spec.externalName", "");
        } else {
            errors.each_invalid("spec.externalName", name, dns1123_subdomain(name));
        }
    } else if !address.is_empty() && address != HEADLESS && !is_ip(address) {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.invalid("spec.clusterIPs[0]", address, detail);
    }
    if address == HEADLESS && matches!(type_, "NodePort" | "LoadBalancer") {
        errors.invalid("spec.clusterIPs[0]", HEADLESS, format!("may not be set to 'None' for {type_} services"));
    }
    if let Some(first) = list(spec, "clusterIPs").first().and_then(Value::as_str).filter(|first| *first != address) {
        errors.invalid("spec.clusterIPs", json!([first]), "first value must match `clusterIP`");
    }
    ports(&mut errors, spec);
    for (key, value) in entries(spec, "selector") {
        label(&mut errors, "spec.selector", key, value);
    }
    for (i, ip) in list(spec, "externalIPs").iter().filter_map(Value::as_str).enumerate() {
        if !is_ip(ip) {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.invalid(&format!("spec.externalIPs[{i}]"), ip, detail);
        }
    }
    let timeout = int(&spec["sessionAffinityConfig"]["clientIP"], "timeoutSeconds");
    if let Some(seconds) = timeout.filter(|seconds| !(1..=86400).contains(seconds)) {
        let detail = "must be greater than 0 and less than 86400";
        errors.invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, detail);
    }
    if is_set(spec, "externalTrafficPolicy")
        && !matches!(type_, "NodePort" | "LoadBalancer")
        && list(spec, "externalIPs").is_empty()
    {
        let detail = "may only be set for externally-accessible services";
        errors.invalid("spec.externalTrafficPolicy", text(spec, "externalTrafficPolicy"), detail);
    }
    if let Some(old) = old {
        address_is_kept(&mut errors, spec, &old["spec"]);
    }
    errors.finish()
}

fn ports(errors: &mut Errors, spec: &Value) {
    let (mut names, mut numbers, mut node_ports) = (HashSet::new(), HashSet::new(), HashSet::new());
    let ports = list(spec, "ports");
    for (i, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{i}]");
        let (name, protocol) = (text(port, "name"), text(port, "protocol"));
        if name.is_empty() {
            if ports.len() > 1 {
                errors.required(&format!("{path}.name"), "");
            }
        } else {
            errors.each_invalid(&format!("{path}.name"), name, dns1123_label(name));
            if !names.insert(name) {
                errors.duplicate(&format!("{path}.name"), name);
            }
        }
        let number = int(port, "port").unwrap_or(0);
        errors.port(&format!("{path}.port"), number);
        if !numbers.insert((number, protocol)) {
            errors.duplicate(&path, json!({"port": number, "protocol": protocol}));
        }
        target_port(errors, &port["targetPort"], &format!("{path}.targetPort"));
        if let Some(node_port) = int(port, "nodePort").filter(|number| *number != 0) {
            errors.port(&format!("{path}.nodePort"), node_port);
            if text(spec, "type") == "ClusterIP" {
                errors.forbidden(&format!("{path}.nodePort"), "may not be used when `type` is 'ClusterIP'");
            } else if !node_ports.insert((node_port, protocol)) {
                errors.duplicate(&format!("{path}.nodePort"), node_port);
            }
        }
    }
}

/// An address that a Service has is its own until it becomes an `ExternalName`.
fn address_is_kept(errors: &mut Errors, spec: &Value, old: &Value) {
    if text(spec, "type") == "ExternalName" || text(old, "type") == "ExternalName" {
        return;
    }
    let (new, old) = (text(spec, "clusterIP"), text(old, "clusterIP"));
    if !old.is_empty() && new != old {
        errors.invalid("spec.clusterIPs[0]", new, IMMUTABLE);
    }
}
