//! Collects violations in Kubernetes' words.

use crate::status::{FieldError, FieldErrorKind};
use serde_json::Value;

/// The message for a field that may not change.
pub(super) const IMMUTABLE: &str = "field is immutable";

/// Violations found so far.
#[derive(Debug, Default)]
pub(super) struct Errors(Vec<FieldError>);

impl Errors {
    fn push(&mut self, kind: FieldErrorKind, field: &str, value: Option<Value>, detail: impl Into<String>) {
        self.0.push(FieldError { kind, field: field.to_owned(), value, detail: detail.into() });
    }

    pub(super) fn required(&mut self, field: &str, detail: &str) {
        self.push(FieldErrorKind::Required, field, None, detail);
    }

    pub(super) fn invalid(&mut self, field: &str, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(FieldErrorKind::Invalid, field, Some(value.into()), detail);
    }

    /// An `Invalid` for each message.
    pub(super) fn each_invalid(&mut self, field: &str, value: &str, messages: Vec<String>) {
        for message in messages {
            self.invalid(field, value, message);
        }
    }

    pub(super) fn duplicate(&mut self, field: &str, value: impl Into<Value>) {
        self.push(FieldErrorKind::Duplicate, field, Some(value.into()), "");
    }

    pub(super) fn not_found(&mut self, field: &str, value: impl Into<Value>) {
        self.push(FieldErrorKind::NotFound, field, Some(value.into()), "");
    }

    pub(super) fn forbidden(&mut self, field: &str, detail: impl Into<String>) {
        self.push(FieldErrorKind::Forbidden, field, None, detail);
    }

    pub(super) fn unsupported(&mut self, field: &str, value: &str, supported: &[&str]) {
        let quoted: Vec<_> = supported.iter().map(|word| format!("{word:?}")).collect();
        let detail = format!("supported values: {}", quoted.join(", "));
        self.push(FieldErrorKind::NotSupported, field, Some(value.into()), detail);
    }

    pub(super) fn too_long(&mut self, field: &str, limit: usize) {
        self.push(FieldErrorKind::TooLong, field, None, format!("may not be more than {limit} bytes"));
    }

    /// A list of `items` things where `limit` are allowed.
    pub(super) fn too_many(&mut self, field: &str, items: usize, limit: usize) {
        self.push(FieldErrorKind::TooMany, field, Some(items.into()), format!("must have at most {limit} items"));
    }

    /// A number that may not be below zero.
    pub(super) fn non_negative(&mut self, field: &str, value: Option<i64>) {
        if let Some(value) = value.filter(|value| *value < 0) {
            self.invalid(field, value, "must be greater than or equal to 0");
        }
    }

    /// A port number.
    pub(super) fn port(&mut self, field: &str, value: i64) {
        if !(1..=65535).contains(&value) {
            self.invalid(field, value, "must be between 1 and 65535, inclusive");
        }
    }

    /// An unchangeable field: `Invalid` with the new value if it changed.
    pub(super) fn immutable(&mut self, field: &str, new: &Value, old: &Value, key: &str) {
        if !super::value::same(new, old, key) {
            self.invalid(field, new.get(key).cloned().unwrap_or_default(), IMMUTABLE);
        }
    }

    pub(super) fn finish(self) -> Vec<FieldError> {
        self.0
    }
}
