//! Reading and writing untyped objects without panics: what is absent, null or of a wrong type
//! reads as empty. Types are the schema's business.

use serde_json::{Map, Value};

/// A string field; empty when absent.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// An integer field.
pub(super) fn int(value: &Value, key: &str) -> Option<i64> {
    value.get(key).and_then(Value::as_i64)
}

/// A boolean field; false when absent.
pub(super) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// A list field; empty when absent.
pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The entries of a map field.
pub(super) fn entries<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// Whether a field is absent, null, or an empty string, list or object.
pub(super) fn is_empty(value: &Value, key: &str) -> bool {
    match value.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(s)) => s.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(_) => false,
    }
}

/// Whether a field is neither absent nor null.
pub(super) fn is_set(value: &Value, key: &str) -> bool {
    value.get(key).is_some_and(|field| !field.is_null())
}

/// The items of a list field, to change.
pub(super) fn each<'a>(value: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// The fields of an object field, to change; it is made when absent. `None` when something else is
/// in its place.
pub(super) fn object<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Map<String, Value>> {
    let field = value.as_object_mut()?.entry(key).or_insert(Value::Null);
    if field.is_null() {
        *field = Value::Object(Map::new());
    }
    field.as_object_mut()
}

/// An object field that exists, to change.
pub(super) fn existing<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    value.get_mut(key).filter(|field| field.is_object())
}

/// Sets a field that is absent or null.
pub(super) fn default(value: &mut Value, key: &str, default: impl Into<Value>) {
    if let Some(fields) = value.as_object_mut() {
        let field = fields.entry(key).or_insert(Value::Null);
        if field.is_null() {
            *field = default.into();
        }
    }
}

/// Sets a field that is absent, null or an empty string.
pub(super) fn default_text(value: &mut Value, key: &str, default: &str) {
    if value.is_object() && is_empty(value, key) {
        set(value, key, default);
    }
}

/// Sets a field of an object.
pub(super) fn set(value: &mut Value, key: &str, new: impl Into<Value>) {
    if let Some(fields) = value.as_object_mut() {
        fields.insert(key.to_owned(), new.into());
    }
}

/// Removes a field of an object.
pub(super) fn remove(value: &mut Value, key: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove(key);
    }
}

/// Null-tolerant equality: an absent field, null and an empty value are the same.
pub(super) fn same(a: &Value, b: &Value, key: &str) -> bool {
    a.get(key) == b.get(key) || (is_empty(a, key) && is_empty(b, key))
}
