//! Validation of a Pod's spec, alone or in a template.

use super::{container, volumes};
use crate::builtin::errors::Errors;
use crate::builtin::names::is_ip;
use crate::builtin::value::{entries, flag, int, is_empty, is_set, list, text};
use crate::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};
use serde_json::Value;
use std::collections::HashSet;

/// Checks a Pod's spec found at `path`.
pub(in crate::builtin) fn validate(errors: &mut Errors, spec: &Value, path: &str) {
    let volumes = volumes::validate(errors, list(spec, "volumes"), &format!("{path}.volumes"));
    containers(errors, spec, path, &volumes);
    for (key, rule) in [
        ("serviceAccountName", dns1123_subdomain as fn(&str) -> Vec<String>),
        ("nodeName", dns1123_subdomain),
        ("hostname", dns1123_label),
        ("subdomain", dns1123_label),
        ("priorityClassName", dns1123_subdomain),
    ] {
        let name = text(spec, key);
        if !name.is_empty() {
            errors.each_invalid(&format!("{path}.{key}"), name, rule(name));
        }
    }
    for (key, value) in entries(spec, "nodeSelector") {
        label(errors, &format!("{path}.nodeSelector"), key, value);
    }
    errors.non_negative(&format!("{path}.terminationGracePeriodSeconds"), int(spec, "terminationGracePeriodSeconds"));
    if let Some(seconds) = int(spec, "activeDeadlineSeconds").filter(|s| !(1..=i64::from(i32::MAX)).contains(s)) {
        let range = format!("must be between 1 and {}, inclusive", i32::MAX);
        errors.invalid(&format!("{path}.activeDeadlineSeconds"), seconds, range);
    }
    for (i, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            errors.required(&format!("{path}.imagePullSecrets[{i}].name"), "");
        }
    }
    tolerations(errors, spec, path);
    dns(errors, spec, path);
    for (i, alias) in list(spec, "hostAliases").iter().enumerate() {
        let ip = text(alias, "ip");
        if !is_ip(ip) {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.invalid(&format!("{path}.hostAliases[{i}].ip"), ip, detail);
        }
    }
    if flag(spec, "shareProcessNamespace") && flag(spec, "hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&format!("{path}.shareProcessNamespace"), true, detail);
    }
}

/// Checks one label.
pub(in crate::builtin) fn label(errors: &mut Errors, path: &str, key: &str, value: &Value) {
    errors.each_invalid(path, key, qualified_name(key));
    let value = value.as_str().unwrap_or_default();
    errors.each_invalid(path, value, label_value(value));
}

fn containers(errors: &mut Errors, spec: &Value, path: &str, volumes: &HashSet<String>) {
    if list(spec, "containers").is_empty() {
        errors.required(&format!("{path}.containers"), "");
    }
    let mut names = HashSet::new();
    let mut host_ports = HashSet::new();
    for (field, kind) in [
        ("containers", container::Kind::Main),
        ("initContainers", container::Kind::Init),
        ("ephemeralContainers", container::Kind::Ephemeral),
    ] {
        for (i, item) in list(spec, field).iter().enumerate() {
            let path = format!("{path}.{field}[{i}]");
            let name = text(item, "name");
            if !name.is_empty() && !names.insert(name.to_owned()) {
                errors.duplicate(&format!("{path}.name"), name);
            }
            container::validate(errors, item, &path, kind, volumes);
            if kind == container::Kind::Main {
                container::host_ports(errors, item, &path, flag(spec, "hostNetwork"), &mut host_ports);
            }
        }
    }
}

fn tolerations(errors: &mut Errors, spec: &Value, path: &str) {
    for (i, toleration) in list(spec, "tolerations").iter().enumerate() {
        let path = format!("{path}.tolerations[{i}]");
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        if !key.is_empty() {
            errors.each_invalid(&format!("{path}.key"), key, qualified_name(key));
        } else if operator != "Exists" {
            errors.invalid(
                &format!("{path}.operator"),
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        if is_set(toleration, "tolerationSeconds") && text(toleration, "effect") != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&format!("{path}.effect"), text(toleration, "effect"), detail);
        }
        if operator == "Exists" && !is_empty(toleration, "value") {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.invalid(&format!("{path}.operator"), toleration.clone(), detail);
        }
    }
}

fn dns(errors: &mut Errors, spec: &Value, path: &str) {
    let config = &spec["dnsConfig"];
    let servers = list(config, "nameservers");
    if text(spec, "dnsPolicy") == "None" && servers.is_empty() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.required(&format!("{path}.dnsConfig.nameservers"), detail);
    }
    if servers.len() > 3 {
        let detail = "must not have more than 3 nameservers";
        errors.invalid(&format!("{path}.dnsConfig.nameservers"), servers.to_vec(), detail);
    }
    for (i, server) in servers.iter().filter_map(Value::as_str).enumerate() {
        if !is_ip(server) {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.invalid(&format!("{path}.dnsConfig.nameservers[{i}]"), server, detail);
        }
    }
}
