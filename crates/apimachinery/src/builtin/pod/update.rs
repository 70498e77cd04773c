//! What may change of a Pod once it exists.

use crate::builtin::errors::Errors;
use crate::builtin::value::{each, int, is_empty, list, remove, set, text};
use serde_json::Value;

/// Checks an update: of the spec, only images, `activeDeadlineSeconds` (set once, then only
/// shortened), added tolerations, the shortening of a negative grace period, scheduling gates (only
/// removed) and the node (set once, by binding) change.
pub(super) fn validate(errors: &mut Errors, new: &Value, old: &Value) {
    let (new_spec, old_spec) = (&new["spec"], &old["spec"]);
    for containers in ["containers", "initContainers"] {
        if list(new_spec, containers).len() != list(old_spec, containers).len() {
            errors.forbidden(&format!("spec.{containers}"), "pod updates may not add or remove containers");
            return;
        }
    }
    deadline(errors, new_spec, old_spec);
    let added_only = list(old_spec, "tolerations").iter().all(|old| kept(new_spec, old));
    if !added_only {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden("spec.tolerations", detail);
    }
    let gates = list(old_spec, "schedulingGates");
    for (i, gate) in list(new_spec, "schedulingGates").iter().enumerate().filter(|(_, gate)| !gates.contains(gate)) {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "name"));
        errors.forbidden(&format!("spec.schedulingGates[{i}].name"), detail);
    }
    if comparable(new_spec, old_spec, old) != comparable(old_spec, old_spec, old) {
        errors.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        );
    }
}

fn deadline(errors: &mut Errors, new: &Value, old: &Value) {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    match (int(new, "activeDeadlineSeconds"), int(old, "activeDeadlineSeconds")) {
        (None, Some(_)) => errors.invalid(FIELD, Value::Null, "must not update from a positive integer to nil value"),
        (Some(new), Some(old)) if new > old => {
            let detail = format!("must be less than or equal to previous value: {old}");
            errors.invalid(FIELD, new, detail);
        }
        _ => {}
    }
}

fn kept(spec: &Value, old: &Value) -> bool {
    let stripped = |toleration: &Value| {
        let mut toleration = toleration.clone();
        remove(&mut toleration, "tolerationSeconds");
        toleration
    };
    list(spec, "tolerations").iter().any(|new| stripped(new) == stripped(old))
}

/// The spec without what may differ.
fn comparable(spec: &Value, old: &Value, old_pod: &Value) -> Value {
    let mut spec = spec.clone();
    for containers in ["containers", "initContainers"] {
        for container in each(&mut spec, containers) {
            remove(container, "image");
        }
    }
    for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers"] {
        remove(&mut spec, key);
    }
    // Binding is an update to the generic path; once bound, a Pod stays where it is.
    if is_empty(old, "nodeName") && old_pod["metadata"].get("deletionTimestamp").is_none() {
        remove(&mut spec, "nodeName");
    }
    if int(old, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let seconds = int(&spec, "terminationGracePeriodSeconds").filter(|seconds| *seconds == 1);
        if seconds.is_some() {
            let previous = old["terminationGracePeriodSeconds"].clone();
            set(&mut spec, "terminationGracePeriodSeconds", previous);
        }
    }
    // While it is gated, a Pod's node selector may grow.
    if !list(old, "schedulingGates").is_empty() && grows(&spec, old) {
        remove(&mut spec, "nodeSelector");
        if let Some(selector) = old.get("nodeSelector") {
            set(&mut spec, "nodeSelector", selector.clone());
        }
    }
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    spec
}

fn grows(spec: &Value, old: &Value) -> bool {
    crate::builtin::value::entries(old, "nodeSelector")
        .all(|(key, value)| spec.get("nodeSelector").and_then(|selector| selector.get(key)) == Some(value))
}
