//! JSON merge patch.

use super::bounded;
use crate::status::ApiError;
use serde_json::{Map, Value};

/// Applies a JSON merge patch (RFC 7386).
///
/// # Errors
///
/// 400 for a patch that is not an object.
pub fn merge_patch(doc: &Value, patch: &Value) -> Result<Value, ApiError> {
    if !patch.is_object() {
        return Err(ApiError::bad_request(
            "error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}",
        ));
    }
    let mut merged = doc.clone();
    merge(&mut merged, patch);
    bounded(merged)
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(fields) = target {
        for (name, patch) in patch {
            if patch.is_null() {
                fields.remove(name);
            } else {
                merge(fields.entry(name).or_insert(Value::Null), patch);
            }
        }
    }
}
