//! Structural schemas: what an object of a kind may look like, and what follows from it
//! (pruning, defaulting, validation, merge keys).

mod decode;
mod defaulting;
mod fields;
#[cfg(test)]
mod tests;
mod validate;

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

/// The component of resource quantities, which are strings or numbers.
pub(crate) const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

impl Schema {
    /// The schema of field `name`: a property, or the schema of other fields.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(self.additional_properties.as_ref()).map(AsRef::as_ref)
    }

    /// Whether any value is as good as another: nothing is known of what is inside.
    fn is_free_form(&self) -> bool {
        self.properties.is_empty()
            && self.additional_properties.is_none()
            && self.items.is_none()
            && (self.preserve_unknown_fields || self.type_.is_empty())
    }
}
