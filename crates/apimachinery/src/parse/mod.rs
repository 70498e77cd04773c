//! Request bodies: JSON with duplicate keys reported, nesting bounded, and errors in Go's words.

#[cfg(test)]
mod tests;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt::{self, Write as _};

/// Deepest nesting of a body: what the parser accepts, and what patches may build.
pub const MAX_DEPTH: usize = 128;
/// Strict-decoding complaints kept per body, as upstream.
const MAX_COMPLAINTS: usize = 100;

/// Parses JSON and names the duplicate keys, as `spec.foo` or `spec.containers[0].name`; the last
/// of several values is kept, as in Go.
///
/// # Errors
///
/// `couldn't get version/kind; json parse error: ...`, the words of Kubernetes for what is not
/// JSON.
pub fn strict(bytes: &[u8]) -> Result<(Value, Vec<String>), String> {
    value(bytes).map_err(|why| format!("couldn't get version/kind; json parse error: {why}"))
}

/// [`strict`], with the bare reason of a failure.
///
/// # Errors
///
/// The reason in Go's words, such as `unexpected end of JSON input`.
pub fn value(bytes: &[u8]) -> Result<(Value, Vec<String>), String> {
    let mut path = String::new();
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let node = Node { path: &mut path, duplicates: &mut duplicates };
    let parsed = node.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    parsed.map(|value| (value, duplicates)).map_err(|error| go_words(bytes, &error))
}

/// What strict field validation says of unknown and duplicate fields: `strict decoding error:
/// unknown field "spec.foo", duplicate field "spec.bar"`; `None` when there is nothing to say.
#[must_use]
pub fn strict_decoding_error(unknown: &[String], duplicates: &[String]) -> Option<String> {
    let complaints = complaints(unknown, duplicates);
    (!complaints.is_empty()).then(|| format!("strict decoding error: {}", complaints.join(", ")))
}

/// One sentence per unknown or duplicate field, as in warnings: `unknown field "spec.foo"`.
#[must_use]
pub fn complaints(unknown: &[String], duplicates: &[String]) -> Vec<String> {
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    let duplicates = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
    unknown.chain(duplicates).take(MAX_COMPLAINTS).collect()
}

/// Whether `value` nests at most `limit` levels; looks no deeper.
#[must_use]
pub fn depth_within(value: &Value, limit: usize) -> bool {
    match value {
        Value::Array(items) => limit > 0 && items.iter().all(|item| depth_within(item, limit - 1)),
        Value::Object(fields) => limit > 0 && fields.values().all(|field| depth_within(field, limit - 1)),
        _ => true,
    }
}

struct Node<'a> {
    path: &'a mut String,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        let length = self.path.len();
        loop {
            // Writing to a String cannot fail.
            let _ = write!(self.path, "[{}]", items.len());
            let item = seq.next_element_seed(Node { path: &mut *self.path, duplicates: &mut *self.duplicates })?;
            self.path.truncate(length);
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        let length = self.path.len();
        while let Some(key) = map.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            if self.duplicates.len() < MAX_COMPLAINTS
                && fields.contains_key(&key)
                && !self.duplicates.contains(self.path)
            {
                self.duplicates.push(self.path.clone());
            }
            let value = map.next_value_seed(Node { path: &mut *self.path, duplicates: &mut *self.duplicates })?;
            self.path.truncate(length);
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

/// What Go's decoder says where serde_json says `error`.
fn go_words(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".into();
    }
    let said = error.to_string();
    let place = [
        ("expected value", "looking for beginning of value"),
        ("key must be a string", "looking for beginning of object key string"),
        ("trailing comma", "looking for beginning of value"),
        ("expected `:`", "after object key"),
        ("expected `,` or `}`", "after object key:value pair"),
        ("expected `,` or `]`", "after array element"),
        ("trailing characters", "after top-level value"),
        ("control character", "in string literal"),
        ("invalid escape", "in string escape code"),
        ("invalid number", "in numeric literal"),
        ("expected ident", "in literal"),
    ]
    .iter()
    .find(|(theirs, _)| said.starts_with(theirs));
    if said.starts_with("recursion limit exceeded") {
        return "exceeded max depth".into();
    }
    let Some((_, place)) = place else { return said };
    let before: usize =
        bytes.split_inclusive(|b| *b == b'\n').take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let at = (before + error.column()).saturating_sub(1);
    // Scalars are short: four bytes hold one.
    let window = bytes.get(at..bytes.len().min(at + 4)).unwrap_or_default();
    match window.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next()) {
        Some(found) => format!("invalid character {found:?} {place}"),
        None => said,
    }
}
