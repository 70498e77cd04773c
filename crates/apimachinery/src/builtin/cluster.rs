//! Namespaces, Nodes, Events, Leases and PriorityClasses.

use super::errors::Errors;
use super::names::is_ip;
use super::pod::defaults::canonical_quantities;
use super::value::{default, default_text, existing, int, is_empty, is_set, list, object, same, set, text};
use crate::definition::Rules;
use crate::status::FieldError;
use crate::validation::{label_value, qualified_name};
use serde_json::{Value, json};

pub(super) const NAMESPACE: Rules =
    Rules { default: Some(default_namespace), prepare: Some(prepare_namespace), validate: Some(validate_namespace) };
pub(super) const NODE: Rules =
    Rules { default: Some(default_node), prepare: Some(prepare_node), validate: Some(validate_node) };
pub(super) const EVENT: Rules = Rules { default: None, prepare: None, validate: Some(validate_event) };
pub(super) const LEASE: Rules = Rules { default: None, prepare: None, validate: Some(validate_lease) };
pub(super) const PRIORITY_CLASS: Rules =
    Rules { default: Some(default_priority_class), prepare: None, validate: Some(validate_priority_class) };

/// Label with a Namespace's own name, for selectors.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// Finalizer in a Namespace's spec that the namespace controller removes.
pub const NAMESPACE_FINALIZER: &str = "kubernetes";
/// User priorities end here; above are the system's.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

fn default_namespace(namespace: &mut Value) {
    let name = text(&namespace["metadata"], "name").to_owned();
    let metadata = existing(namespace, "metadata").filter(|_| !name.is_empty());
    if let Some(labels) = metadata.and_then(|metadata| object(metadata, "labels")) {
        labels.insert(NAMESPACE_NAME_LABEL.into(), name.into());
    }
}

fn prepare_namespace(new: &mut Value, old: Option<&Value>) {
    match old {
        None => {
            default(new, "spec", json!({}));
            if let Some(spec) = existing(new, "spec") {
                let mut finalizers = list(spec, "finalizers").to_vec();
                if !finalizers.iter().any(|finalizer| finalizer == NAMESPACE_FINALIZER) {
                    finalizers.push(NAMESPACE_FINALIZER.into());
                }
                set(spec, "finalizers", finalizers);
            }
            set(new, "status", json!({"phase": "Active"}));
        }
        // Finalizers are written through the subresource `finalize` only, which bypasses this.
        Some(old) => {
            default(new, "spec", json!({}));
            let (before, spec) = (&old["spec"], existing(new, "spec"));
            if let Some(spec) = spec.filter(|spec| !is_set(spec, "finalizers") && is_set(before, "finalizers")) {
                set(spec, "finalizers", before["finalizers"].clone());
            }
        }
    }
}

fn validate_namespace(new: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    for (i, finalizer) in list(&new["spec"], "finalizers").iter().filter_map(Value::as_str).enumerate() {
        let path = format!("spec.finalizers[{i}]");
        errors.each_invalid(&path, finalizer, qualified_name(finalizer));
        if !finalizer.contains('/') && finalizer != NAMESPACE_FINALIZER && finalizer != "orphan" {
            errors.invalid(&path, finalizer, "name is neither a standard finalizer name nor is it fully qualified");
        }
    }
    errors.finish()
}

fn default_node(node: &mut Value) {
    if let Some(status) = existing(node, "status") {
        canonical_quantities(status, "capacity");
        canonical_quantities(status, "allocatable");
        if is_empty(status, "allocatable") && !is_empty(status, "capacity") {
            let capacity = status["capacity"].clone();
            set(status, "allocatable", capacity);
        }
    }
    if let Some(spec) = existing(node, "spec") {
        let cidr = text(spec, "podCIDR").to_owned();
        if !cidr.is_empty() && is_empty(spec, "podCIDRs") {
            set(spec, "podCIDRs", json!([cidr]));
        }
    }
}

/// A Node registers with its status: the kubelet creates it whole.
fn prepare_node(new: &mut Value, _: Option<&Value>) {
    default(new, "spec", json!({}));
    default(new, "status", json!({}));
}

fn validate_node(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = &new["spec"];
    let mut seen = std::collections::HashSet::new();
    for (i, taint) in list(spec, "taints").iter().enumerate() {
        let path = format!("spec.taints[{i}]");
        let (key, effect) = (text(taint, "key"), text(taint, "effect"));
        errors.each_invalid(&format!("{path}.key"), key, qualified_name(key));
        let value = text(taint, "value");
        errors.each_invalid(&format!("{path}.value"), value, label_value(value));
        if effect.is_empty() {
            errors.required(&format!("{path}.effect"), "");
        }
        if !seen.insert((key, effect)) {
            errors.duplicate(&path, taint.clone());
        }
    }
    for (i, address) in list(&new["status"], "addresses").iter().enumerate() {
        let (type_, value) = (text(address, "type"), text(address, "address"));
        if matches!(type_, "InternalIP" | "ExternalIP") && !is_ip(value) {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.invalid(&format!("status.addresses[{i}].address"), value, detail);
        }
    }
    if let Some(before) = old.map(|old| &old["spec"]) {
        if !is_empty(before, "podCIDRs") && !same(before, spec, "podCIDRs") {
            errors.forbidden("spec.podCIDRs", "node updates may not change podCIDR except from \"\" to valid");
        }
        if !is_empty(before, "providerID") && !same(before, spec, "providerID") {
            errors.forbidden("spec.providerID", "node updates may not change providerID except from \"\" to valid");
        }
    }
    errors.finish()
}

fn validate_event(new: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let namespace = text(&new["metadata"], "namespace");
    let involved = text(&new["involvedObject"], "namespace");
    if involved.is_empty() {
        // Events about cluster-scoped objects live in the default namespace.
        if !matches!(namespace, "default" | "kube-system") {
            errors.invalid("involvedObject.namespace", involved, "does not match event.namespace");
        }
    } else if involved != namespace {
        errors.invalid("involvedObject.namespace", involved, "does not match event.namespace");
    }
    errors.finish()
}

fn validate_lease(new: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = &new["spec"];
    if let Some(seconds) = int(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0");
    }
    errors.non_negative("spec.leaseTransitions", int(spec, "leaseTransitions"));
    errors.finish()
}

fn default_priority_class(class: &mut Value) {
    default_text(class, "preemptionPolicy", "PreemptLowerPriority");
}

fn validate_priority_class(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let name = text(&new["metadata"], "name");
    let value = int(new, "value").unwrap_or(0);
    let system = matches!(name, "system-cluster-critical" | "system-node-critical");
    if name.starts_with("system-") && !system {
        let detail = "priority class names with 'system-' prefix are reserved for system use only";
        errors.forbidden("metadata.name", detail);
    }
    if value > HIGHEST_USER_PRIORITY && !system {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
        errors.forbidden("value", detail);
    }
    if let Some(old) = old {
        if int(old, "value").unwrap_or(0) != value {
            errors.forbidden("value", "may not be changed in an update.");
        }
        errors.immutable("preemptionPolicy", new, old, "preemptionPolicy");
    }
    errors.finish()
}
