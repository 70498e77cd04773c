//! Rules for `metadata`.

use super::{NameRule, dns1123_label, label_value, qualified_name};
use crate::status::{FieldError, FieldErrorKind};
use serde_json::Value;

/// Total size of annotation keys and values.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Checks `metadata` as every kind does. `name_rule` is the kind's own rule for its name. Types
/// are taken to be right, which the schema has seen to; what is of the wrong type counts as absent.
#[must_use]
pub fn validate_object_meta(meta: &Value, namespaced: bool, name_rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |field: &str| meta.get(field).and_then(Value::as_str).unwrap_or_default();

    let generate_name = text("generateName");
    if !generate_name.is_empty() {
        // A dash at the end is followed by random letters.
        let probe = match generate_name.strip_suffix('-') {
            Some(stem) if !stem.is_empty() => format!("{stem}a"),
            _ => generate_name.to_owned(),
        };
        errors.extend(name_rule(&probe).into_iter().map(|why| invalid("metadata.generateName", generate_name, why)));
    }
    let name = text("name");
    if name.is_empty() {
        errors.push(required("metadata.name", "name or generateName is required"));
    } else {
        errors.extend(name_rule(name).into_iter().map(|why| invalid("metadata.name", name, why)));
    }

    let namespace = text("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(required("metadata.namespace", "")),
        (true, false) => {
            errors.extend(dns1123_label(namespace).into_iter().map(|why| invalid("metadata.namespace", namespace, why)))
        }
        (false, true) => {}
        (false, false) => errors.push(FieldError {
            kind: FieldErrorKind::Forbidden,
            field: "metadata.namespace".into(),
            value: None,
            detail: "not allowed on this type".into(),
        }),
    }

    if let Some(generation) = meta.get("generation").and_then(Value::as_i64).filter(|generation| *generation < 0) {
        errors.push(invalid("metadata.generation", generation, "must be greater than or equal to 0".into()));
    }
    check_labels(meta, &mut errors);
    check_annotations(meta, &mut errors);
    check_owners(meta, &mut errors);
    for finalizer in meta.get("finalizers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        errors.extend(qualified_name(finalizer).into_iter().map(|why| invalid("metadata.finalizers", finalizer, why)));
    }
    errors
}

fn check_labels(meta: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in meta.get("labels").and_then(Value::as_object).into_iter().flatten() {
        errors.extend(qualified_name(key).into_iter().map(|why| invalid("metadata.labels", key.as_str(), why)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(label_value(value).into_iter().map(|why| invalid("metadata.labels", value, why)));
    }
}

fn check_annotations(meta: &Value, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in meta.get("annotations").and_then(Value::as_object).into_iter().flatten() {
        // Upper case is allowed in the prefix, too.
        let wrong = qualified_name(&key.to_lowercase());
        errors.extend(wrong.into_iter().map(|why| invalid("metadata.annotations", key.as_str(), why)));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError {
            kind: FieldErrorKind::TooLong,
            field: "metadata.annotations".into(),
            value: None,
            detail: format!("may not be more than {ANNOTATIONS_MAX} bytes"),
        });
    }
}

fn check_owners(meta: &Value, errors: &mut Vec<FieldError>) {
    let owners = meta.get("ownerReferences").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, owner) in owners.iter().enumerate() {
        let path = |field: &str| format!("metadata.ownerReferences[{index}].{field}");
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        if text("apiVersion").rsplit('/').next().unwrap_or_default().is_empty() {
            errors.push(invalid(&path("apiVersion"), text("apiVersion"), "version must not be empty".into()));
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                errors.push(invalid(&path(field), "", "must not be empty".into()));
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner".into();
            errors.push(invalid("metadata.ownerReferences", owner.clone(), detail));
        }
    }
    let mut controllers = owners.iter().filter(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    if let (Some(first), Some(second)) = (controllers.next(), controllers.next()) {
        let name = |owner: &Value| {
            format!("{}/{}", owner["kind"].as_str().unwrap_or_default(), owner["name"].as_str().unwrap_or_default())
        };
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
            name(first),
            name(second)
        );
        errors.push(invalid("metadata.ownerReferences", Value::Array(owners.to_vec()), detail));
    }
}

fn invalid(field: &str, value: impl Into<Value>, detail: String) -> FieldError {
    FieldError { kind: FieldErrorKind::Invalid, field: field.to_owned(), value: Some(value.into()), detail }
}

fn required(field: &str, detail: &str) -> FieldError {
    FieldError { kind: FieldErrorKind::Required, field: field.to_owned(), value: None, detail: detail.to_owned() }
}
