//! Pods, and the Pod templates of workloads.

pub(super) mod columns;
pub(super) mod container;
pub(super) mod defaults;
pub(super) mod spec;
pub(super) mod update;
pub(super) mod volumes;

#[cfg(test)]
mod tests;

use super::admission;
use super::errors::Errors;
use super::value::{entries, existing, list, remove, set, text};
use crate::definition::Rules;
use crate::quantity::Quantity;
use crate::status::FieldError;
use serde_json::{Value, json};

pub(super) const RULES: Rules = Rules { default: Some(default), prepare: Some(prepare), validate: Some(validate) };

fn default(pod: &mut Value) {
    if let Some(spec) = existing(pod, "spec") {
        defaults::pod(spec);
    }
}

/// A new Pod is Pending, whatever its author says; its quality of service follows from its
/// resources and never changes.
fn prepare(new: &mut Value, old: Option<&Value>) {
    match old {
        None => {
            let qos = qos_class(&new["spec"]);
            set(new, "status", json!({"phase": "Pending", "qosClass": qos}));
            if let Some(spec) = existing(new, "spec") {
                // They are added to a Pod that runs, through their own subresource.
                remove(spec, "ephemeralContainers");
            }
            admission::prepare(new);
        }
        Some(old) => {
            let class = text(&old["status"], "qosClass").to_owned();
            if let Some(status) = existing(new, "status").filter(|_| !class.is_empty()) {
                set(status, "qosClass", class);
            }
        }
    }
}

fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    spec::validate(&mut errors, &new["spec"], "spec");
    if let Some(old) = old {
        update::validate(&mut errors, new, old);
    }
    errors.finish()
}

/// `Guaranteed`, `Burstable` or `BestEffort`, from the cpu and memory of all containers.
#[must_use]
pub fn qos_class(spec: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    for container in list(spec, "initContainers").iter().chain(list(spec, "containers")) {
        let resources = &container["resources"];
        let positive = |of: &str| {
            entries(resources, of)
                .filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory"))
                .filter_map(|(name, value)| Some((name.as_str(), Quantity::from_value(value).ok()?)))
                .filter(|(_, quantity)| !quantity.is_zero() && !quantity.is_negative())
                .collect::<Vec<_>>()
        };
        let (requests, limits) = (positive("requests"), positive("limits"));
        any |= !requests.is_empty() || !limits.is_empty();
        guaranteed &= limits.len() == 2
            && requests.iter().all(|(name, request)| limits.iter().any(|(of, limit)| of == name && limit == request));
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
