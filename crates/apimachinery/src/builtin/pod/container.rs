//! Validation of one container.

use crate::builtin::errors::Errors;
use crate::builtin::names::{config_key, env_name, port_name};
use crate::builtin::value::{entries, flag, int, is_set, list, text};
use crate::quantity::Quantity;
use crate::validation::{dns1123_label, dns1123_subdomain, qualified_name};
use serde_json::Value;
use std::collections::HashSet;

/// Which list of a Pod a container is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Main,
    Init,
    Ephemeral,
}

/// Checks a container found at `path`; `volumes` are the names of the Pod's volumes.
pub(super) fn validate(errors: &mut Errors, container: &Value, path: &str, kind: Kind, volumes: &HashSet<String>) {
    let name = text(container, "name");
    if name.is_empty() {
        errors.required(&format!("{path}.name"), "");
    } else {
        errors.each_invalid(&format!("{path}.name"), name, dns1123_label(name));
    }
    let image = text(container, "image");
    if image.is_empty() {
        // A template may leave the image to whoever fills it in, a Pod's spec may not.
        errors.required(&format!("{path}.image"), "");
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.invalid(&format!("{path}.image"), image, detail);
    }
    ports(errors, container, path);
    env(errors, container, path);
    mounts(errors, container, path, volumes);
    resources(errors, &container["resources"], &format!("{path}.resources"));
    probes(errors, container, path, kind);
    if kind == Kind::Ephemeral {
        for field in ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
            if is_set(container, field) {
                errors.forbidden(&format!("{path}.{field}"), "cannot be set for an Ephemeral Container");
            }
        }
    }
    let policy = text(container, "restartPolicy");
    if kind == Kind::Ephemeral && !policy.is_empty() {
        errors.forbidden(&format!("{path}.restartPolicy"), "cannot be set for an Ephemeral Container");
    }
}

fn ports(errors: &mut Errors, container: &Value, path: &str) {
    let mut names = HashSet::new();
    for (i, port) in list(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{i}]");
        let name = text(port, "name");
        if !name.is_empty() {
            let messages = port_name(name);
            if messages.is_empty() && !names.insert(name) {
                errors.duplicate(&format!("{path}.name"), name);
            }
            errors.each_invalid(&format!("{path}.name"), name, messages);
        }
        match int(port, "containerPort") {
            None | Some(0) => errors.required(&format!("{path}.containerPort"), ""),
            Some(number) => errors.port(&format!("{path}.containerPort"), number),
        }
        if let Some(number) = int(port, "hostPort").filter(|number| *number != 0) {
            errors.port(&format!("{path}.hostPort"), number);
        }
        if text(port, "protocol").is_empty() {
            errors.required(&format!("{path}.protocol"), "");
        }
    }
}

/// Host ports are unique in a Pod, and equal the container's port on the host's network.
pub(super) fn host_ports(
    errors: &mut Errors,
    container: &Value,
    path: &str,
    host_network: bool,
    taken: &mut HashSet<String>,
) {
    for (i, port) in list(container, "ports").iter().enumerate() {
        let Some(number) = int(port, "hostPort").filter(|number| *number != 0) else {
            continue;
        };
        let path = format!("{path}.ports[{i}]");
        let key = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
        if !taken.insert(key.clone()) {
            errors.duplicate(&format!("{path}.hostPort"), key);
        }
        if host_network && int(port, "containerPort") != Some(number) {
            let detail = "must match `hostPort` when `hostNetwork` is true";
            errors.invalid(&format!("{path}.containerPort"), int(port, "containerPort").unwrap_or(0), detail);
        }
    }
}

fn env(errors: &mut Errors, container: &Value, path: &str) {
    for (i, env) in list(container, "env").iter().enumerate() {
        let path = format!("{path}.env[{i}]");
        let name = text(env, "name");
        if name.is_empty() {
            errors.required(&format!("{path}.name"), "");
        } else {
            errors.each_invalid(&format!("{path}.name"), name, env_name(name));
        }
        let Some(from) = env.get("valueFrom").and_then(Value::as_object) else {
            continue;
        };
        let sources: Vec<_> = from.iter().filter(|(_, source)| !source.is_null()).collect();
        let path = format!("{path}.valueFrom");
        if sources.is_empty() {
            let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
            errors.invalid(&path, "", detail);
        } else if !text(env, "value").is_empty() {
            errors.invalid(&path, "", "may not be specified when `value` is not empty");
        } else if sources.len() > 1 {
            errors.invalid(&path, "", "may not have more than one field specified at a time");
        }
        for (kind, source) in sources {
            env_source(errors, kind, source, &format!("{path}.{kind}"));
        }
    }
    for (i, from) in list(container, "envFrom").iter().enumerate() {
        let path = format!("{path}.envFrom[{i}]");
        let sources = [("configMapRef", &from["configMapRef"]), ("secretRef", &from["secretRef"])];
        let set: Vec<_> = sources.iter().filter(|(_, source)| source.is_object()).collect();
        match set[..] {
            [] => errors.invalid(&path, "", "must specify one of: `configMapRef` or `secretRef`"),
            [(kind, source)] => name(errors, source, &format!("{path}.{kind}")),
            _ => errors.invalid(&path, "", "may not have more than one field specified at a time"),
        }
    }
}

fn env_source(errors: &mut Errors, kind: &str, source: &Value, path: &str) {
    match kind {
        "fieldRef" => {
            if text(source, "apiVersion").is_empty() {
                errors.required(&format!("{path}.apiVersion"), "");
            }
            field_path(errors, text(source, "fieldPath"), &format!("{path}.fieldPath"));
        }
        "resourceFieldRef" if text(source, "resource").is_empty() => {
            errors.required(&format!("{path}.resource"), "");
        }
        "configMapKeyRef" | "secretKeyRef" => {
            name(errors, source, path);
            let key = text(source, "key");
            if key.is_empty() {
                errors.required(&format!("{path}.key"), "");
            } else {
                errors.each_invalid(&format!("{path}.key"), key, config_key(key));
            }
        }
        _ => {}
    }
}

fn name(errors: &mut Errors, source: &Value, path: &str) {
    let name = text(source, "name");
    if name.is_empty() {
        errors.required(&format!("{path}.name"), "");
    } else {
        errors.each_invalid(&format!("{path}.name"), name, dns1123_subdomain(name));
    }
}

fn field_path(errors: &mut Errors, field: &str, path: &str) {
    const FIELDS: &[&str] = &[
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    if field.is_empty() {
        errors.required(path, "");
    } else if field.starts_with("metadata.labels['") || field.starts_with("metadata.annotations['") {
        if !field.ends_with("']") {
            errors.invalid(path, field, "invalid subscript");
        }
    } else if !FIELDS.contains(&field) {
        errors.unsupported(path, field, FIELDS);
    }
}

fn mounts(errors: &mut Errors, container: &Value, path: &str, volumes: &HashSet<String>) {
    let mut paths = HashSet::new();
    for (i, mount) in list(container, "volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{i}]");
        let name = text(mount, "name");
        if name.is_empty() {
            errors.required(&format!("{path}.name"), "");
        } else if !volumes.contains(name) {
            errors.not_found(&format!("{path}.name"), name);
        }
        let target = text(mount, "mountPath");
        if target.is_empty() {
            errors.required(&format!("{path}.mountPath"), "");
        } else if !paths.insert(target) {
            errors.invalid(&format!("{path}.mountPath"), target, "must be unique");
        }
        let sub_path = text(mount, "subPath");
        let field = format!("{path}.subPath");
        if sub_path.starts_with('/') {
            errors.invalid(&field, sub_path, "must be a relative path");
        } else if sub_path.split('/').any(|part| part == "..") {
            errors.invalid(&field, sub_path, "must not contain '..'");
        }
        if !sub_path.is_empty() && !text(mount, "subPathExpr").is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&format!("{path}.subPathExpr"), text(mount, "subPathExpr"), detail);
        }
    }
}

/// Quantities are well-formed and not negative, and no request is above its limit.
pub(in crate::builtin) fn resources(errors: &mut Errors, resources: &Value, path: &str) {
    for of in ["limits", "requests"] {
        for (name, value) in entries(resources, of) {
            let field = format!("{path}.{of}[{name}]");
            errors.each_invalid(&field, name, qualified_name(name));
            if !name.contains('/') && !standard_resource(name) {
                errors.invalid(&field, name.as_str(), "must be a standard resource type or fully qualified");
                errors.invalid(&field, name.as_str(), "must be a standard resource for containers");
            }
            match Quantity::from_value(value) {
                Err(_) => errors.invalid(&field, value.clone(), QUANTITY),
                Ok(quantity) if quantity.is_negative() => {
                    errors.invalid(&field, value.clone(), "must be greater than or equal to 0");
                }
                Ok(_) => {}
            }
        }
    }
    for (name, request) in entries(resources, "requests") {
        let limit = resources
            .get("limits")
            .and_then(|limits| limits.get(name))
            .and_then(|limit| Quantity::from_value(limit).ok());
        let (Ok(asked), Some(limit)) = (Quantity::from_value(request), limit) else {
            continue;
        };
        let field = format!("{path}.requests");
        let shown = request.as_str().map_or_else(|| request.to_string(), str::to_owned);
        if asked > limit {
            let limit = &resources["limits"][name];
            let limit = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
            errors.invalid(&field, shown, format!("must be less than or equal to {name} limit of {limit}"));
        } else if asked != limit && name.contains('/') {
            errors.invalid(&field, shown, format!("must be equal to {name} limit"));
        }
    }
}

const QUANTITY: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

fn standard_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage" | "storage") || name.starts_with("hugepages-")
}

fn probes(errors: &mut Errors, container: &Value, path: &str, kind: Kind) {
    // A sidecar is an init container that keeps running.
    let sidecar = kind == Kind::Init && text(container, "restartPolicy") == "Always";
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get(name).filter(|probe| probe.is_object()) else {
            continue;
        };
        let path = format!("{path}.{name}");
        if kind == Kind::Init && !sidecar {
            errors.forbidden(&path, "may not be set for init containers without restartPolicy=Always");
            continue;
        }
        handler(errors, probe, &path);
        for number in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            errors.non_negative(&format!("{path}.{number}"), int(probe, number));
        }
        if let Some(successes) = int(probe, "successThreshold").filter(|n| *n != 1 && name != "readinessProbe") {
            errors.invalid(&format!("{path}.successThreshold"), successes, "must be 1");
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(action) = container["lifecycle"].get(hook).filter(|action| action.is_object()) {
            handler(errors, action, &format!("{path}.lifecycle.{hook}"));
        }
    }
    let context = &container["securityContext"];
    if flag(context, "privileged") && context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.invalid(&format!("{path}.securityContext"), context.clone(), detail);
    }
}

fn handler(errors: &mut Errors, handler: &Value, path: &str) {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let set: Vec<_> = kinds.into_iter().filter(|kind| is_set(handler, kind)).collect();
    if set.is_empty() {
        errors.required(path, "must specify a handler type");
    }
    for extra in set.iter().skip(1) {
        errors.forbidden(&format!("{path}.{extra}"), "may not specify more than 1 handler type");
    }
    for kind in set {
        let path = format!("{path}.{kind}");
        match kind {
            "exec" if list(&handler[kind], "command").is_empty() => {
                errors.required(&format!("{path}.command"), "");
            }
            "httpGet" | "tcpSocket" | "grpc" => target_port(errors, &handler[kind]["port"], &format!("{path}.port")),
            _ => {}
        }
    }
}

/// A port by number or name.
pub(in crate::builtin) fn target_port(errors: &mut Errors, port: &Value, path: &str) {
    match port {
        Value::String(name) => errors.each_invalid(path, name, port_name(name)),
        _ => errors.port(path, port.as_i64().unwrap_or(0)),
    }
}
