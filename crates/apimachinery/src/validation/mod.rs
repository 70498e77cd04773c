//! Rules for names, labels and metadata, in the words of Kubernetes.

use crate::status::FieldError;
use serde_json::Value;

/// A rule for the name of a kind: every violation, in words; empty when the name is good.
pub type NameRule = fn(&str) -> Vec<String>;

/// Checks `metadata` as every kind does. `name_rule` is the kind's own rule for its name.
#[must_use]
pub fn validate_object_meta(_meta: &Value, _namespaced: bool, _name_rule: NameRule) -> Vec<FieldError> {
    Vec::new()
}

/// An RFC 1123 subdomain: the usual rule for a name.
#[must_use]
pub fn dns1123_subdomain(_name: &str) -> Vec<String> {
    Vec::new()
}

/// An RFC 1123 label: namespaces.
#[must_use]
pub fn dns1123_label(_name: &str) -> Vec<String> {
    Vec::new()
}

/// An RFC 1035 label: Services.
#[must_use]
pub fn dns1035_label(_name: &str) -> Vec<String> {
    Vec::new()
}

/// A path segment: the RBAC kinds.
#[must_use]
pub fn path_segment(_name: &str) -> Vec<String> {
    Vec::new()
}

/// A qualified name such as `example.com/name`: label and annotation keys, resources.
#[must_use]
pub fn qualified_name(_name: &str) -> Vec<String> {
    Vec::new()
}

/// The value of a label.
#[must_use]
pub fn label_value(_value: &str) -> Vec<String> {
    Vec::new()
}
