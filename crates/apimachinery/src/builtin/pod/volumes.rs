//! Validation of a Pod's volumes.

use crate::builtin::errors::Errors;
use crate::builtin::names::config_key;
use crate::builtin::value::{int, list, text};
use crate::quantity::Quantity;
use crate::validation::dns1123_label;
use serde_json::Value;
use std::collections::HashSet;

/// Checks volumes found at `path` and returns their names.
pub(super) fn validate(errors: &mut Errors, volumes: &[Value], path: &str) -> HashSet<String> {
    let mut names = HashSet::new();
    for (i, volume) in volumes.iter().enumerate() {
        let path = format!("{path}[{i}]");
        let name = text(volume, "name");
        if name.is_empty() {
            errors.required(&format!("{path}.name"), "");
        } else if !names.insert(name.to_owned()) {
            errors.duplicate(&format!("{path}.name"), name);
        } else {
            errors.each_invalid(&format!("{path}.name"), name, dns1123_label(name));
        }
        source(errors, volume, &path);
    }
    names
}

fn source(errors: &mut Errors, volume: &Value, path: &str) {
    let sources = volume.as_object().into_iter().flatten().filter(|(key, value)| *key != "name" && !value.is_null());
    for (i, (kind, source)) in sources.enumerate() {
        let path = format!("{path}.{kind}");
        if i > 0 {
            errors.forbidden(&path, "may not specify more than 1 volume type");
            continue;
        }
        match kind.as_str() {
            "hostPath" => {
                let target = text(source, "path");
                if target.is_empty() {
                    errors.required(&format!("{path}.path"), "");
                } else if target.split('/').any(|part| part == "..") {
                    errors.invalid(&format!("{path}.path"), target, "must not contain '..'");
                }
            }
            "secret" => {
                required(errors, source, "secretName", &path);
                mode(errors, source, "defaultMode", &path);
                items(errors, source, &path);
            }
            "configMap" => {
                required(errors, source, "name", &path);
                mode(errors, source, "defaultMode", &path);
                items(errors, source, &path);
            }
            "downwardAPI" => mode(errors, source, "defaultMode", &path),
            "projected" => projected(errors, source, &path),
            "persistentVolumeClaim" => required(errors, source, "claimName", &path),
            "emptyDir" => {
                let limit = source.get("sizeLimit").filter(|limit| !limit.is_null()).map(Quantity::from_value);
                if limit.is_some_and(|limit| limit.is_ok_and(Quantity::is_negative)) {
                    let detail = "SizeLimit field must be a valid resource quantity";
                    errors.forbidden(&format!("{path}.sizeLimit"), detail);
                }
            }
            _ => {}
        }
    }
}

fn projected(errors: &mut Errors, source: &Value, path: &str) {
    mode(errors, source, "defaultMode", path);
    for (i, projection) in list(source, "sources").iter().enumerate() {
        let path = format!("{path}.sources[{i}]");
        for kind in ["secret", "configMap"] {
            if let Some(source) = projection.get(kind).filter(|source| source.is_object()) {
                let path = format!("{path}.{kind}");
                required(errors, source, "name", &path);
                items(errors, source, &path);
            }
        }
        if let Some(token) = projection.get("serviceAccountToken").filter(|token| token.is_object()) {
            let path = format!("{path}.serviceAccountToken");
            if int(token, "expirationSeconds").is_some_and(|seconds| seconds < 600) {
                let detail = "may not specify a duration less than 10 minutes";
                errors.invalid(&format!("{path}.expirationSeconds"), token["expirationSeconds"].clone(), detail);
            }
            required(errors, token, "path", &path);
        }
    }
}

fn items(errors: &mut Errors, source: &Value, path: &str) {
    for (i, item) in list(source, "items").iter().enumerate() {
        let path = format!("{path}.items[{i}]");
        let key = text(item, "key");
        if key.is_empty() {
            errors.required(&format!("{path}.key"), "");
        } else {
            errors.each_invalid(&format!("{path}.key"), key, config_key(key));
        }
        let target = text(item, "path");
        if target.is_empty() {
            errors.required(&format!("{path}.path"), "");
        } else if target.starts_with('/') {
            errors.invalid(&format!("{path}.path"), target, "must be a relative path");
        } else if target.split('/').any(|part| part == "..") {
            errors.invalid(&format!("{path}.path"), target, "must not contain '..'");
        }
        mode(errors, item, "mode", &path);
    }
}

fn mode(errors: &mut Errors, source: &Value, key: &str, path: &str) {
    if let Some(mode) = int(source, key).filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.invalid(&format!("{path}.{key}"), mode, detail);
    }
}

fn required(errors: &mut Errors, source: &Value, key: &str, path: &str) {
    if text(source, key).is_empty() {
        errors.required(&format!("{path}.{key}"), "");
    }
}
