//! Structural schemas: what an object of a kind may look like, and what follows from it
//! (pruning, defaulting, validation, merge keys).

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One node of a structural schema: OpenAPI v3 fields plus the `x-kubernetes-*` extensions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// Shown by `kubectl explain`.
    pub description: String,
    /// `object`, `array`, `string`, `integer`, `number`, `boolean`; empty when unconstrained.
    pub type_: String,
    /// `int32`, `date-time` ...
    pub format: String,
    /// Named fields. Shared, because many kinds embed the same types.
    pub properties: BTreeMap<String, Arc<Schema>>,
    /// Schema of other fields (maps).
    pub additional_properties: Option<Arc<Schema>>,
    /// Schema of items.
    pub items: Option<Arc<Schema>>,
    /// Required fields.
    pub required: Vec<String>,
    /// Default value.
    pub default: Option<Value>,
    /// Allowed values.
    pub enum_: Vec<Value>,
    /// Whether null is a value.
    pub nullable: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown_fields: bool,
    /// `x-kubernetes-list-type`.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-list-map-keys`.
    pub list_map_keys: Vec<String>,
    /// `x-kubernetes-map-type: atomic`.
    pub map_atomic: bool,
    /// `x-kubernetes-patch-strategy`.
    pub patch_strategy: PatchStrategy,
    /// `x-kubernetes-patch-merge-key`.
    pub patch_merge_key: Option<String>,
    /// The OpenAPI component this node is a reference to, such as
    /// `io.k8s.api.core.v1.PodSpec`, so that OpenAPI documents name shared types once.
    pub component: Option<String>,
}

/// How a list merges under server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Replaced whole.
    Atomic,
    /// Unique scalars.
    Set,
    /// Objects with keys.
    Map,
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// `merge`: lists merge by the merge key (or as sets) instead of being replaced.
    pub merge: bool,
    /// `retainKeys`.
    pub retain_keys: bool,
}

impl Schema {
    /// Paths of fields that the schema does not know: `spec.template.foo`,
    /// `spec.containers[0].foo`.
    #[must_use]
    pub fn unknown_fields(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Removes the fields that the schema does not know.
    pub fn prune(&self, _object: &mut Value) {}

    /// Sets absent fields that have a default (structural defaulting), and replaces nulls that are
    /// not allowed by the default.
    pub fn apply_defaults(&self, _object: &mut Value) {}

    /// Removes explicit nulls, which built-in kinds treat as absent.
    pub fn drop_nulls(&self, _object: &mut Value) {}

    /// Every violation of types, formats, required fields, enums and list types.
    #[must_use]
    pub fn validate(&self, _object: &Value) -> Vec<crate::status::FieldError> {
        Vec::new()
    }

    /// The first type mismatch in the words of a built-in kind's decoder.
    #[must_use]
    pub fn decode_error(&self, _object: &Value, _kind: &str, _version: &str) -> Option<String> {
        None
    }
}
