//! Reading and writing `metadata` of untyped objects.

use jiff::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

/// Letters of generated names, as upstream: no vowels and nothing that looks alike.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Longest name that random letters are added to.
const MAX_GENERATED_BASE: usize = 58;
const RANDOM_LETTERS: usize = 5;

/// Now, to the second, as timestamps of metadata are.
pub(super) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// A timestamp of metadata.
pub(super) fn rfc3339(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// A new uid.
pub(super) fn new_uid() -> String {
    Uuid::new_v4().to_string()
}

/// A number nobody foresees.
pub(super) fn random() -> u64 {
    let (high, low) = Uuid::new_v4().as_u64_pair();
    high ^ low.rotate_left(17)
}

/// A name from `generateName`.
pub(super) fn generate_name(base: &str) -> String {
    let mut end = base.len().min(MAX_GENERATED_BASE);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base[..end].to_owned();
    for byte in Uuid::new_v4().as_bytes().iter().take(RANDOM_LETTERS) {
        name.push(char::from(LETTERS[usize::from(*byte) % LETTERS.len()]));
    }
    name
}

/// A string field; empty when absent.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A field of `metadata`; empty when absent.
pub(super) fn field<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get("metadata").map(|metadata| text(metadata, key)).unwrap_or_default()
}

/// `metadata`, to change; it is made when absent or no object.
pub(super) fn of(object: &mut Value) -> &mut Map<String, Value> {
    section(object, "metadata")
}

/// A field that is an object, to change; it is made when absent or no object.
pub(super) fn section<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let field = &mut object[key];
    if !field.is_object() {
        *field = Value::Object(Map::new());
    }
    field.as_object_mut().expect("it was made an object above")
}

/// Sets or removes a field.
pub(super) fn set(fields: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => fields.insert(key.to_owned(), value),
        None => fields.remove(key),
    };
}

/// The finalizers of an object.
pub(super) fn finalizers(object: &Value) -> Vec<String> {
    let list = object.get("metadata").and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Whether the object is being deleted.
pub(super) fn is_deleting(object: &Value) -> bool {
    !field(object, "deletionTimestamp").is_empty()
}
