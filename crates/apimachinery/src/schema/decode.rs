//! Type mismatches in the words of the decoder of built-in kinds, which is Go's.

use super::validate::fits_format;
use super::{QUANTITY, Schema};
use crate::quantity::Quantity;
use serde_json::Value;

impl Schema {
    /// The first type mismatch in the words of a built-in kind's decoder: `Deployment in version
    /// "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field
    /// DeploymentSpec.spec.replicas of type int32`. Go's names for types are taken from the
    /// schema's components; named string types are told as `string`.
    #[must_use]
    pub fn decode_error(&self, object: &Value, kind: &str, version: &str) -> Option<String> {
        let why = self.mismatch(object, &mut Place { path: Vec::new(), owner: kind })?;
        Some(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    }

    fn mismatch<'a>(&'a self, value: &'a Value, place: &mut Place<'a>) -> Option<String> {
        if value.is_null() {
            return None;
        }
        if self.component.as_deref() == Some(QUANTITY) {
            return Quantity::from_value(value).err().map(|why| why.to_string());
        }
        if self.int_or_string || self.format == "int-or-string" {
            let int32 = value.is_i64() && fits_format("int32", value);
            return (!value.is_string() && !int32)
                .then(|| format!("json: cannot unmarshal {} into Go value of type int32", go_value(value)));
        }
        let fits = match self.type_.as_str() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => (value.is_i64() || value.is_u64()) && fits_format(&self.format, value),
            "number" => value.is_number(),
            _ => true,
        };
        if !fits {
            return Some(place.complain(value, &self.go_type()));
        }
        match value {
            Value::Object(fields) => {
                let outer = place.owner;
                if let Some(component) = &self.component {
                    place.owner = short(component);
                }
                let found = fields.iter().find_map(|(name, value)| {
                    let schema = self.field(name)?;
                    // Go names struct fields, not the keys of maps.
                    let named = self.properties.contains_key(name);
                    if named {
                        place.path.push(name);
                    }
                    let found = schema.mismatch(value, place);
                    if named {
                        place.path.pop();
                    }
                    found
                });
                place.owner = outer;
                found
            }
            Value::Array(items) => {
                let schema = self.items.as_ref()?;
                items.iter().find_map(|item| schema.mismatch(item, place))
            }
            Value::String(text) if self.format == "byte" => {
                base64_error(text).map(|at| format!("illegal base64 data at input byte {at}"))
            }
            Value::String(text) if self.format == "date-time" && !fits_format("date-time", value) => Some(format!(
                "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
            )),
            _ => None,
        }
    }

    fn go_type(&self) -> String {
        if let Some(component) = &self.component {
            let mut parts = component.rsplit('.');
            let name = parts.next().unwrap_or_default();
            return parts.next().map_or_else(|| name.to_owned(), |package| format!("{package}.{name}"));
        }
        match (self.type_.as_str(), self.format.as_str()) {
            ("integer", "int32") => "int32".into(),
            ("integer", _) => "int64".into(),
            ("number", _) => "float64".into(),
            ("boolean", _) => "bool".into(),
            ("string", "byte") => "[]uint8".into(),
            ("array", _) => {
                format!("[]{}", self.items.as_ref().map_or_else(|| "interface {}".into(), |items| items.go_type()))
            }
            ("object", _) => match &self.additional_properties {
                Some(values) => format!("map[string]{}", values.go_type()),
                None => "map[string]interface {}".into(),
            },
            (other, _) => other.to_owned(),
        }
    }
}

/// Where in the object the decoder is.
struct Place<'a> {
    /// JSON names of struct fields.
    path: Vec<&'a str>,
    /// Name of the innermost struct.
    owner: &'a str,
}

impl Place<'_> {
    fn complain(&self, value: &Value, go_type: &str) -> String {
        let value = go_value(value);
        if self.path.is_empty() {
            return format!("json: cannot unmarshal {value} into Go value of type {go_type}");
        }
        format!(
            "json: cannot unmarshal {value} into Go struct field {}.{} of type {go_type}",
            self.owner,
            self.path.join(".")
        )
    }
}

fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(number) => format!("number {number}"),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
    }
}

fn short(component: &str) -> &str {
    component.rsplit('.').next().unwrap_or(component)
}

/// Where `text` stops being padded standard base64, as Go counts; `None` when all is well. Line
/// breaks are skipped, as Go does.
pub(super) fn base64_error(text: &str) -> Option<usize> {
    let (mut in_quantum, mut padding) = (0_usize, 0_usize);
    for (at, byte) in text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n')) {
        let symbol = byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
        let good = match padding {
            0 if symbol => {
                in_quantum = (in_quantum + 1) % 4;
                true
            }
            0 if byte == b'=' && in_quantum >= 2 => {
                padding = 4 - in_quantum - 1;
                in_quantum = if padding == 0 { 4 } else { in_quantum };
                padding = if padding == 0 { usize::MAX } else { padding };
                true
            }
            1 if byte == b'=' => {
                padding = usize::MAX;
                in_quantum = 4;
                true
            }
            _ => false,
        };
        if !good {
            return Some(at);
        }
    }
    (in_quantum % 4 != 0).then_some(text.len().saturating_sub(in_quantum % 4))
}
