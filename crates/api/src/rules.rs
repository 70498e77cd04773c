//! What must hold of our kinds beyond their schemas.

use crate::MAX_CLUSTER_NAME;
use apimachinery::definition::Rules;
use apimachinery::status::{FieldError, FieldErrorKind};
use apimachinery::validation::{dns1123_label, dns1123_subdomain};
use serde_json::{Value, json};

pub(crate) const CLUSTER: Rules =
    Rules { default: None, prepare: Some(prepare_cluster), validate: Some(validate_cluster) };
pub(crate) const NODE_CLAIM: Rules =
    Rules { default: None, prepare: Some(prepare_node_claim), validate: Some(validate_node_claim) };

/// Least memory that a node boots with, MiB.
const MIN_MEMORY: i64 = 128;

/// The fields of `spec.nodes` and the least that each may be.
const SCALING: [(&str, i64); 5] =
    [("max", 1), ("podsPerNode", 1), ("holdSeconds", 0), ("cpus", 1), ("memoryMiB", MIN_MEMORY)];

/// A new Cluster is what its creator wants and nothing else; the logical cluster it has stays its
/// own whatever a status writer leaves out.
fn prepare_cluster(new: &mut Value, old: Option<&Value>) {
    match old {
        None => set(new, "status", json!({"phase": "Initializing"})),
        Some(old) => {
            let before = &old["status"]["logicalCluster"];
            let status = new.get_mut("status").and_then(Value::as_object_mut);
            if let Some(status) = status.filter(|_| before.is_string()) {
                status.entry("logicalCluster").or_insert_with(|| before.clone());
            }
        }
    }
}

fn validate_cluster(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.is_none() {
        // It becomes the first part of a logical cluster's name, which is a label of DNS names.
        let name = new["metadata"]["name"].as_str().unwrap_or_default();
        errors.extend(dns1123_label(name).into_iter().map(|why| invalid("metadata.name", &json!(name), why)));
        if name.len() > MAX_CLUSTER_NAME {
            let detail = format!("must be no more than {MAX_CLUSTER_NAME} characters");
            errors.push(invalid("metadata.name", &json!(name), detail));
        }
    }
    for (field, least) in SCALING {
        at_least(&mut errors, &format!("spec.nodes.{field}"), &new["spec"]["nodes"][field], least);
    }
    if let Some(old) = old {
        let (before, after) = (&old["status"]["logicalCluster"], &new["status"]["logicalCluster"]);
        if before.is_string() && before != after {
            errors.push(invalid("status.logicalCluster", after, IMMUTABLE.into()));
        }
    }
    errors
}

fn prepare_node_claim(new: &mut Value, old: Option<&Value>) {
    if old.is_none() {
        set(new, "status", json!({"phase": "Pending", "declined": false}));
    }
}

fn validate_node_claim(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &new["spec"];
    if let Some(old) = old {
        if old["spec"] != *spec {
            errors.push(invalid("spec", spec, IMMUTABLE.into()));
        }
        return errors;
    }
    for field in ["clusterName", "logicalCluster", "nodeName"] {
        let name = spec[field].as_str().unwrap_or_default();
        let path = format!("spec.{field}");
        errors.extend(dns1123_subdomain(name).into_iter().map(|why| invalid(&path, &json!(name), why)));
    }
    if !is_ipv4_range(spec["podCidr"].as_str().unwrap_or_default()) {
        let detail = "must be an IPv4 range in CIDR notation, (e.g. 10.9.8.0/24)";
        errors.push(invalid("spec.podCidr", &spec["podCidr"], detail.into()));
    }
    at_least(&mut errors, "spec.cpus", &spec["cpus"], 1);
    at_least(&mut errors, "spec.memoryMiB", &spec["memoryMiB"], MIN_MEMORY);
    errors
}

const IMMUTABLE: &str = "field is immutable";

fn at_least(errors: &mut Vec<FieldError>, path: &str, value: &Value, least: i64) {
    if value.as_i64().is_some_and(|number| number < least) {
        errors.push(invalid(path, value, format!("must be greater than or equal to {least}")));
    }
}

/// Whether a text is an address and the length of its prefix, with nothing after the prefix.
fn is_ipv4_range(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let (Ok(address), Ok(length)) = (address.parse::<std::net::Ipv4Addr>(), length.parse::<u32>()) else {
        return false;
    };
    length <= 32 && u64::from(u32::from(address)) % (1_u64 << (32 - length)) == 0
}

fn invalid(field: &str, value: &Value, detail: String) -> FieldError {
    FieldError { kind: FieldErrorKind::Invalid, field: field.to_owned(), value: Some(value.clone()), detail }
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(key.to_owned(), value);
    }
}
