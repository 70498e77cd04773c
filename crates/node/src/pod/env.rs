//! A container's environment: values, references, Services, `$(NAME)`.

use super::resources;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, ObjectFieldSelector, Pod, ResourceFieldSelector, Secret, Service,
};
use std::collections::BTreeMap;

/// The objects that a Pod refers to; `None` are known not to exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct References {
    pub(crate) config_maps: BTreeMap<String, Option<ConfigMap>>,
    pub(crate) secrets: BTreeMap<String, Option<Secret>>,
}

/// What a Pod's fields say once it runs.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) host: String,
    pub(crate) address: String,
    pub(crate) node: String,
    /// What a container without limits may use.
    pub(crate) node_cpus: i64,
    pub(crate) node_memory: i64,
}

/// The names of ConfigMaps (`false`) and Secrets (`true`) that a container's environment needs.
pub(crate) fn needs(container: &Container) -> Vec<(bool, String)> {
    let mut names = Vec::new();
    for from in container.env_from.iter().flatten() {
        names.extend(from.config_map_ref.iter().map(|r| (false, r.name.clone())));
        names.extend(from.secret_ref.iter().map(|r| (true, r.name.clone())));
    }
    for source in container.env.iter().flatten().filter_map(|var| var.value_from.as_ref()) {
        names.extend(source.config_map_key_ref.iter().map(|r| (false, r.name.clone())));
        names.extend(source.secret_key_ref.iter().map(|r| (true, r.name.clone())));
    }
    names
}

fn config_map<'a>(references: &'a References, name: &str) -> Option<&'a ConfigMap> {
    references.config_maps.get(name).and_then(Option::as_ref)
}

fn secret<'a>(references: &'a References, name: &str) -> Option<&'a Secret> {
    references.secrets.get(name).and_then(Option::as_ref)
}

/// The environment of a container, in order, or why it cannot be made.
pub(crate) fn environment(
    pod: &Pod,
    container: &Container,
    services: &[(String, String)],
    references: &References,
    facts: &Facts,
) -> Result<Vec<(String, String)>, String> {
    let mut known: BTreeMap<String, String> = services.iter().cloned().collect();
    let mut order: Vec<(String, String)> = services.to_vec();
    let mut put = |known: &mut BTreeMap<String, String>, name: String, value: String| {
        known.insert(name.clone(), value.clone());
        order.push((name, value));
    };
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        if let Some(reference) = &from.config_map_ref {
            match config_map(references, &reference.name) {
                Some(map) => {
                    for (key, value) in map.data.iter().flatten() {
                        put(&mut known, format!("{prefix}{key}"), value.clone());
                    }
                }
                None if reference.optional == Some(true) => {}
                None => return Err(format!("configmap {:?} not found", reference.name)),
            }
        }
        if let Some(reference) = &from.secret_ref {
            match secret(references, &reference.name) {
                Some(secret) => {
                    for (key, value) in secret.data.iter().flatten() {
                        put(&mut known, format!("{prefix}{key}"), String::from_utf8_lossy(&value.0).into_owned());
                    }
                }
                None if reference.optional == Some(true) => {}
                None => return Err(format!("secret {:?} not found", reference.name)),
            }
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match &variable.value_from {
            None => Some(expand(variable.value.as_deref().unwrap_or_default(), &known)),
            Some(source) => referenced(pod, container, source, references, facts)?,
        };
        if let Some(value) = value {
            put(&mut known, variable.name.clone(), value);
        }
    }
    // The last of several wins, at the place of the first.
    let mut environment: Vec<(String, String)> = Vec::with_capacity(known.len());
    for (name, _) in order {
        if let Some(value) = known.remove(&name) {
            environment.push((name, value));
        }
    }
    Ok(environment)
}

fn referenced(
    pod: &Pod,
    container: &Container,
    source: &k8s_openapi::api::core::v1::EnvVarSource,
    references: &References,
    facts: &Facts,
) -> Result<Option<String>, String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(field) = &source.field_ref {
        return field_value(pod, field, facts).map(Some);
    }
    if let Some(field) = &source.resource_field_ref {
        return resource_value(pod, Some(container), field, facts).map(Some);
    }
    if let Some(key) = &source.config_map_key_ref {
        let optional = key.optional == Some(true);
        return match config_map(references, &key.name) {
            None if optional => Ok(None),
            None => Err(format!("configmap {:?} not found", key.name)),
            Some(map) => match map.data.as_ref().and_then(|data| data.get(&key.key)) {
                Some(value) => Ok(Some(value.clone())),
                None if optional => Ok(None),
                None => Err(format!("couldn't find key {} in ConfigMap {namespace}/{}", key.key, key.name)),
            },
        };
    }
    if let Some(key) = &source.secret_key_ref {
        let optional = key.optional == Some(true);
        return match secret(references, &key.name) {
            None if optional => Ok(None),
            None => Err(format!("secret {:?} not found", key.name)),
            Some(secret) => match secret.data.as_ref().and_then(|data| data.get(&key.key)) {
                Some(value) => Ok(Some(String::from_utf8_lossy(&value.0).into_owned())),
                None if optional => Ok(None),
                None => Err(format!("couldn't find key {} in Secret {namespace}/{}", key.key, key.name)),
            },
        };
    }
    Err("the source of an environment variable is not supported".to_owned())
}

/// The value of a Pod's field.
pub(crate) fn field_value(pod: &Pod, field: &ObjectFieldSelector, facts: &Facts) -> Result<String, String> {
    let metadata = &pod.metadata;
    let spec = pod.spec.as_ref();
    let path = field.field_path.as_str();
    if let Some((map, key)) = path.strip_suffix("']").and_then(|rest| rest.split_once("['")) {
        let map = match map {
            "metadata.labels" => &metadata.labels,
            "metadata.annotations" => &metadata.annotations,
            _ => return Err(format!("unsupported fieldPath: {path}")),
        };
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    let lines = |map: &Option<BTreeMap<String, String>>| {
        let lines: Vec<String> = map.iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect();
        lines.join("\n")
    };
    Ok(match path {
        "metadata.name" => metadata.name.clone().unwrap_or_default(),
        "metadata.namespace" => metadata.namespace.clone().unwrap_or_default(),
        "metadata.uid" => metadata.uid.clone().unwrap_or_default(),
        "metadata.labels" => lines(&metadata.labels),
        "metadata.annotations" => lines(&metadata.annotations),
        "spec.nodeName" => facts.node.clone(),
        "spec.serviceAccountName" => spec.and_then(|s| s.service_account_name.clone()).unwrap_or_default(),
        "status.hostIP" | "status.hostIPs" => facts.host.clone(),
        "status.podIP" | "status.podIPs" => facts.address.clone(),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    })
}

/// The value of a container's request or limit.
pub(crate) fn resource_value(
    pod: &Pod,
    own: Option<&Container>,
    field: &ResourceFieldSelector,
    facts: &Facts,
) -> Result<String, String> {
    let named = field.container_name.as_deref().filter(|name| !name.is_empty());
    let container = match named {
        Some(name) => super::model::container(pod, name).map(|(_, container)| container),
        None => own,
    };
    let container = container.ok_or_else(|| "the container of a resource field does not exist".to_owned())?;
    let divisor = field.divisor.as_ref().and_then(|d| d.0.parse::<apimachinery::quantity::Quantity>().ok());
    let (limits, name) = match field.resource.split_once('.') {
        Some(("limits", name)) => (true, name),
        Some(("requests", name)) => (false, name),
        _ => return Err(format!("unsupported container resource : {}", field.resource)),
    };
    let up = |value: i64, divisor: i64| value.saturating_add(divisor - 1) / divisor;
    if name == "cpu" {
        let fallback = if limits { facts.node_cpus.saturating_mul(1000) } else { 0 };
        let milli = resources::milli_cpu(container, limits).unwrap_or(fallback);
        let divisor = divisor.map_or(1000, |d| d.milli_value()).max(1);
        return Ok(up(milli, divisor).to_string());
    }
    let fallback = if limits && name == "memory" { facts.node_memory } else { 0 };
    let value = resources::value(container, limits, name).unwrap_or(fallback);
    Ok(up(value, divisor.map_or(1, |d| d.value()).max(1)).to_string())
}

/// Replaces `$(NAME)`; `$$` is a dollar sign, an unknown name stays as it is.
pub(crate) fn expand(text: &str, known: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match known.get(name) {
                Some(value) => out.push_str(value),
                None => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

/// The variables that tell a container of a Service.
pub(crate) fn service_variables(service: &Service) -> Vec<(String, String)> {
    let (Some(name), Some(spec)) = (&service.metadata.name, &service.spec) else { return Vec::new() };
    let Some(ip) = spec.cluster_ip.as_deref().filter(|ip| !ip.is_empty() && *ip != "None") else { return Vec::new() };
    let ports = spec.ports.as_deref().unwrap_or_default();
    let Some(first) = ports.first() else { return Vec::new() };
    let upper = |text: &str| text.to_ascii_uppercase().replace('-', "_");
    let prefix = upper(name);
    let mut variables = vec![
        (format!("{prefix}_SERVICE_HOST"), ip.to_owned()),
        (format!("{prefix}_SERVICE_PORT"), first.port.to_string()),
    ];
    for port in ports {
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            variables.push((format!("{prefix}_SERVICE_PORT_{}", upper(name)), port.port.to_string()));
        }
    }
    for (index, port) in ports.iter().enumerate() {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let lower = protocol.to_ascii_lowercase();
        let url = format!("{lower}://{ip}:{}", port.port);
        if index == 0 {
            variables.push((format!("{prefix}_PORT"), url.clone()));
        }
        let base = format!("{prefix}_PORT_{}_{protocol}", port.port);
        variables.push((base.clone(), url));
        variables.push((format!("{base}_PROTO"), lower));
        variables.push((format!("{base}_PORT"), port.port.to_string()));
        variables.push((format!("{base}_ADDR"), ip.to_owned()));
    }
    variables
}
