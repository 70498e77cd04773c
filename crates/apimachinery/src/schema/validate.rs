//! Schema validation as custom resources have it: types, formats, required fields, enums, and the
//! uniqueness that list types demand.

use super::{ListType, QUANTITY, Schema};
use crate::quantity::Quantity;
use crate::status::{FieldError, FieldErrorKind};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Violations reported per object; more help nobody.
const MAX_ERRORS: usize = 100;

impl Schema {
    /// Every violation of types, formats, required fields, enums and list types (at most 100).
    #[must_use]
    pub fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.validate_node(object, "", &mut errors);
        errors.truncate(MAX_ERRORS);
        errors
    }

    fn validate_node(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        if errors.len() >= MAX_ERRORS {
            return;
        }
        if value.is_null() {
            if !self.nullable && !self.type_.is_empty() {
                errors.push(type_error(path, &self.type_, "null".into()));
            }
            return;
        }
        if !self.check_type(value, path, errors) {
            return;
        }
        if !self.enum_.is_empty() && !self.enum_.contains(value) {
            let supported: Vec<String> = self.enum_.iter().map(ToString::to_string).collect();
            errors.push(FieldError {
                kind: FieldErrorKind::NotSupported,
                field: path.to_owned(),
                value: Some(value.clone()),
                detail: format!("supported values: {}", supported.join(", ")),
            });
        }
        match value {
            Value::Object(fields) => {
                for name in self.required.iter().filter(|name| !fields.contains_key(*name)) {
                    errors.push(FieldError {
                        kind: FieldErrorKind::Required,
                        field: join(path, name),
                        value: None,
                        detail: String::new(),
                    });
                }
                for (name, value) in fields {
                    if let Some(schema) = self.field(name) {
                        schema.validate_node(value, &join(path, name), errors);
                    }
                }
            }
            Value::Array(items) => {
                self.check_unique(items, path, errors);
                if let Some(schema) = &self.items {
                    for (index, item) in items.iter().enumerate() {
                        schema.validate_node(item, &format!("{path}[{index}]"), errors);
                    }
                }
            }
            _ => {}
        }
    }

    fn check_type(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) -> bool {
        if self.component.as_deref() == Some(QUANTITY) {
            if let Err(why) = Quantity::from_value(value) {
                errors.push(invalid(path, value, why.to_string()));
            }
            return true;
        }
        if self.int_or_string || self.format == "int-or-string" {
            if !(value.is_string() || value.is_i64() || value.is_u64()) {
                errors.push(type_error(path, "integer,string", type_name(value).into()));
                return false;
            }
            return true;
        }
        let fits = match self.type_.as_str() {
            "" => true,
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => is_integer(value),
            "number" => value.is_number(),
            _ => true,
        };
        if !fits {
            errors.push(type_error(path, &self.type_, type_name(value).into()));
            return false;
        }
        if !fits_format(&self.format, value) {
            errors.push(type_error(path, &self.format, value.clone()));
            return false;
        }
        true
    }

    fn check_unique(&self, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let key = match self.list_type {
                Some(ListType::Set) => item.clone(),
                Some(ListType::Map) => self.map_key(item),
                _ => return,
            };
            if !seen.insert(key.to_string()) {
                errors.push(FieldError {
                    kind: FieldErrorKind::Duplicate,
                    field: format!("{path}[{index}]"),
                    value: Some(key),
                    detail: String::new(),
                });
            }
        }
    }

    /// The values of an item's map keys, with their defaults where absent.
    fn map_key(&self, item: &Value) -> Value {
        let keys = self.list_map_keys.iter().filter_map(|key| {
            let default = || self.items.as_ref()?.field(key)?.default.clone();
            Some((key.clone(), item.get(key).cloned().or_else(default)?))
        });
        Value::Object(keys.collect::<Map<_, _>>())
    }
}

/// A whole number, however it is written, as JSON Schema has it.
fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

pub(super) fn fits_format(format: &str, value: &Value) -> bool {
    match (format, value) {
        ("int32", Value::Number(number)) => {
            number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) || number.is_f64()
        }
        ("int64", Value::Number(number)) => !number.is_u64() || number.is_i64(),
        ("date-time", Value::String(text)) => text.parse::<jiff::Timestamp>().is_ok(),
        ("byte", Value::String(text)) => super::decode::base64_error(text).is_none(),
        _ => true,
    }
}

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn type_error(path: &str, wanted: &str, found: Value) -> FieldError {
    let detail = format!("{path} in body must be of type {wanted}: {found}");
    FieldError { kind: FieldErrorKind::TypeInvalid, field: path.to_owned(), value: Some(found), detail }
}

fn invalid(path: &str, value: &Value, detail: String) -> FieldError {
    FieldError { kind: FieldErrorKind::Invalid, field: path.to_owned(), value: Some(value.clone()), detail }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
