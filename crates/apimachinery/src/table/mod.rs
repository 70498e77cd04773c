//! `meta.k8s.io/v1` Tables: what `kubectl get` prints.

use crate::definition::ResourceDefinition;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

/// How much of the object a row carries (query parameter `includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// The object.
    Object,
}

/// Renders a Table. The caller sets `metadata` (`resourceVersion`, `continue`).
pub fn render<'a>(
    _definition: &ResourceDefinition,
    _objects: impl IntoIterator<Item = &'a Value>,
    _now: Timestamp,
    _include: IncludeObject,
) -> Value {
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": [], "rows": []})
}

/// `5m`, `3d4h`: a duration as `kubectl` prints it.
#[must_use]
pub fn human_duration(_duration: Duration) -> String {
    String::new()
}

/// The age of an RFC 3339 timestamp, or `<unknown>` for an absent or malformed one.
#[must_use]
pub fn translate_timestamp(_timestamp: &Value, _now: Timestamp) -> String {
    String::new()
}
