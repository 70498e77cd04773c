//! ConfigMaps and Secrets.

use super::errors::Errors;
use super::names::config_key;
use super::value::{default_text, entries, flag, is_set, object, remove, same, text};
use crate::definition::Rules;
use crate::status::FieldError;
use serde_json::Value;

pub(super) const CONFIG_MAP: Rules = Rules { default: None, prepare: None, validate: Some(validate_config_map) };
pub(super) const SECRET: Rules =
    Rules { default: Some(default_secret), prepare: Some(prepare_secret), validate: Some(validate_secret) };

/// The most that a ConfigMap or Secret holds, bytes.
const LIMIT: usize = 1024 * 1024;

fn default_secret(secret: &mut Value) {
    default_text(secret, "type", "Opaque");
}

/// `stringData` is a way to write `data`; it is never stored.
fn prepare_secret(new: &mut Value, _: Option<&Value>) {
    let Some(Value::Object(strings)) = new.as_object_mut().and_then(|secret| secret.remove("stringData")) else {
        return;
    };
    if let Some(data) = object(new, "data") {
        for (key, value) in strings {
            if let Some(text) = value.as_str() {
                data.insert(key, base64(text.as_bytes()).into());
            }
        }
    }
    if new.get("data").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
        remove(new, "data");
    }
}

fn validate_config_map(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let mut size = 0;
    for (key, value) in entries(new, "data") {
        errors.each_invalid(&format!("data[{key}]"), key, config_key(key));
        if new["binaryData"].get(key).is_some() {
            errors.invalid(&format!("data[{key}]"), key.as_str(), "duplicate of key present in binaryData");
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in entries(new, "binaryData") {
        errors.each_invalid(&format!("binaryData[{key}]"), key, config_key(key));
        size += decoded_len(&mut errors, &format!("binaryData[{key}]"), value);
    }
    if size > LIMIT {
        // The object as a whole, as Kubernetes writes its path.
        errors.too_long("[]", LIMIT);
    }
    unchanged(&mut errors, new, old, &["data", "binaryData"], "field is immutable when `immutable` is set");
    errors.finish()
}

fn validate_secret(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let mut size = 0;
    for (key, value) in entries(new, "data") {
        errors.each_invalid(&format!("data[{key}]"), key, config_key(key));
        size += decoded_len(&mut errors, &format!("data[{key}]"), value);
    }
    if size > LIMIT {
        errors.too_long("data", LIMIT);
    }
    let required: &[&str] = match text(new, "type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    for key in required.iter().filter(|key| !is_set(&new["data"], key)) {
        errors.required(&format!("data[{key}]"), "");
    }
    let data = &new["data"];
    if text(new, "type") == "kubernetes.io/basic-auth" && !is_set(data, "username") && !is_set(data, "password") {
        errors.required("data[username]", "");
        errors.required("data[password]", "");
    }
    let account = "kubernetes.io/service-account.name";
    if text(new, "type") == "kubernetes.io/service-account-token"
        && text(&new["metadata"]["annotations"], account).is_empty()
    {
        errors.required(&format!("metadata.annotations[{account}]"), "");
    }
    if let Some(old) = old {
        errors.immutable("type", new, old, "type");
    }
    unchanged(&mut errors, new, old, &["data"], "field is immutable when `immutable` is set");
    errors.finish()
}

/// What is marked immutable stays, and stays marked.
fn unchanged(errors: &mut Errors, new: &Value, old: Option<&Value>, fields: &[&str], detail: &str) {
    let Some(old) = old.filter(|old| flag(old, "immutable")) else {
        return;
    };
    if !flag(new, "immutable") {
        errors.forbidden("immutable", detail);
    }
    for field in fields.iter().filter(|field| !same(new, old, field)) {
        errors.forbidden(field, detail);
    }
}

/// Checks base64 and says how many bytes it stands for.
fn decoded_len(errors: &mut Errors, path: &str, value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default().as_bytes();
    let padding = text.iter().rev().take_while(|b| **b == b'=').count();
    let digits = &text[..text.len() - padding];
    let known = digits.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'));
    if !text.len().is_multiple_of(4) || padding > 2 || !known {
        errors.invalid(path, String::from_utf8_lossy(text).into_owned(), "must be base64 encoded");
        return 0;
    }
    text.len() / 4 * 3 - padding
}

/// Standard base64 with padding (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = DIGITS[(group >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests;
