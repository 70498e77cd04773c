//! `rbac.authorization.k8s.io/v1`.

use super::errors::Errors;
use super::template::label_selector;
use super::value::{default_text, each, existing, list, same, text};
use crate::definition::Rules;
use crate::status::FieldError;
use crate::validation::path_segment;
use serde_json::Value;

/// API group.
pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) const ROLE: Rules = Rules { default: None, prepare: None, validate: Some(validate_role) };
pub(super) const CLUSTER_ROLE: Rules = Rules { default: None, prepare: None, validate: Some(validate_cluster_role) };
pub(super) const BINDING: Rules =
    Rules { default: Some(default_binding), prepare: None, validate: Some(validate_role_binding) };
pub(super) const CLUSTER_BINDING: Rules =
    Rules { default: Some(default_binding), prepare: None, validate: Some(validate_cluster_role_binding) };

fn default_binding(binding: &mut Value) {
    if let Some(role) = existing(binding, "roleRef") {
        default_text(role, "apiGroup", GROUP);
    }
    for subject in each(binding, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            default_text(subject, "apiGroup", GROUP);
        }
    }
}

fn validate_role(new: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    rules(&mut errors, new, false);
    errors.finish()
}

fn validate_cluster_role(new: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    rules(&mut errors, new, true);
    if let Some(aggregation) = new.get("aggregationRule").filter(|rule| rule.is_object()) {
        let selectors = list(aggregation, "clusterRoleSelectors");
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.required("aggregationRule.clusterRoleSelectors", detail);
        }
        for (i, selector) in selectors.iter().enumerate() {
            label_selector(&mut errors, selector, &format!("aggregationRule.clusterRoleSelectors[{i}]"));
        }
    }
    errors.finish()
}

fn rules(errors: &mut Errors, role: &Value, cluster: bool) {
    for (i, rule) in list(role, "rules").iter().enumerate() {
        let path = format!("rules[{i}]");
        if list(rule, "verbs").is_empty() {
            errors.required(&format!("{path}.verbs"), "verbs must contain at least one value");
        }
        let (urls, groups) = (list(rule, "nonResourceURLs"), list(rule, "apiGroups"));
        let (resources, names) = (list(rule, "resources"), list(rule, "resourceNames"));
        if !urls.is_empty() {
            let field = format!("{path}.nonResourceURLs");
            if !cluster {
                errors.invalid(&field, urls.to_vec(), "namespaced rules cannot apply to non-resource URLs");
            }
            if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(&field, urls.to_vec(), detail);
            }
            continue;
        }
        if groups.is_empty() {
            errors.required(&format!("{path}.apiGroups"), "resource rules must supply at least one api group");
        }
        if resources.is_empty() {
            errors.required(&format!("{path}.resources"), "resource rules must supply at least one resource");
        }
    }
}

fn validate_role_binding(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    binding(&mut errors, new, old, &["Role", "ClusterRole"]);
    errors.finish()
}

fn validate_cluster_role_binding(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    binding(&mut errors, new, old, &["ClusterRole"]);
    for (i, subject) in list(new, "subjects").iter().enumerate() {
        if text(subject, "kind") == "ServiceAccount" && text(subject, "namespace").is_empty() {
            errors.required(&format!("subjects[{i}].namespace"), "");
        }
    }
    errors.finish()
}

fn binding(errors: &mut Errors, new: &Value, old: Option<&Value>, kinds: &[&str]) {
    let role = &new["roleRef"];
    if text(role, "apiGroup") != GROUP {
        errors.unsupported("roleRef.apiGroup", text(role, "apiGroup"), &[GROUP]);
    }
    if !kinds.contains(&text(role, "kind")) {
        errors.unsupported("roleRef.kind", text(role, "kind"), kinds);
    }
    let name = text(role, "name");
    if name.is_empty() {
        errors.required("roleRef.name", "");
    } else {
        errors.each_invalid("roleRef.name", name, path_segment(name));
    }
    for (i, subject) in list(new, "subjects").iter().enumerate() {
        let path = format!("subjects[{i}]");
        let (kind, name, group) = (text(subject, "kind"), text(subject, "name"), text(subject, "apiGroup"));
        if name.is_empty() {
            errors.required(&format!("{path}.name"), "");
        }
        let expected = match kind {
            "ServiceAccount" => "",
            "User" | "Group" => GROUP,
            _ => {
                errors.unsupported(&format!("{path}.kind"), kind, &["Group", "ServiceAccount", "User"]);
                continue;
            }
        };
        if group != expected {
            errors.unsupported(&format!("{path}.apiGroup"), group, &[expected]);
        }
    }
    if old.is_some_and(|old| !same(old, new, "roleRef")) {
        errors.invalid("roleRef", role.clone(), "cannot change roleRef");
    }
}
