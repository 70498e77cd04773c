//! The stored form of an object: a small header that selectors read, and the JSON that is sent.
//!
//! ```text
//! tombstone   0
//! object      1, splice: u32, json: u32, labels, fields, json bytes
//! pairs       count: u32, then per pair two strings of length: u32 and bytes
//! ```
//!
//! `splice` is where `metadata` begins inside: there the resource version goes, and for reads of
//! every cluster the annotation that names the cluster.

use apimachinery::selector::Labels;
use apimachinery::status::ApiError;
use bytes::Bytes;
use serde_json::{Map, Value};
use std::io::Write as _;
use store::Revision;

/// Annotation that names the cluster of an object in a read of every cluster.
pub const CLUSTER_ANNOTATION: &str = "kcp.io/cluster";

const TOMBSTONE: u8 = 0;
const OBJECT: u8 = 1;
const HEAD: usize = 9;

/// What is stored under an object's key.
#[derive(Clone, Debug)]
pub(super) enum Stored {
    /// An object.
    Object(Object),
    /// An object of the base layer was deleted.
    Tombstone,
}

/// A stored object.
#[derive(Clone, Debug)]
pub(super) struct Object {
    bytes: Bytes,
    splice: usize,
    json: usize,
}

/// The value that stands for a deleted object of the base layer.
pub(super) fn tombstone() -> Bytes {
    Bytes::from_static(&[TOMBSTONE])
}

impl Stored {
    /// Reads a stored value.
    pub(super) fn decode(bytes: &Bytes) -> Result<Self, ApiError> {
        match bytes.first() {
            Some(&TOMBSTONE) => Ok(Self::Tombstone),
            Some(&OBJECT) => {
                let number = |at| u32_at(bytes, at).ok_or_else(damaged);
                let (splice, json) = (number(1)?, number(5)?);
                if json > splice || splice > bytes.len() {
                    return Err(damaged());
                }
                Ok(Self::Object(Object { bytes: bytes.clone(), splice, json }))
            }
            _ => Err(damaged()),
        }
    }

    /// The object, unless it is a tombstone.
    pub(super) fn object(self) -> Option<Object> {
        match self {
            Self::Object(object) => Some(object),
            Self::Tombstone => None,
        }
    }
}

impl Object {
    /// The stored form of `object`; `fields` are its selectable fields.
    pub(super) fn encode<'a>(object: &Value, fields: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let mut bytes = vec![0; HEAD];
        let labels = object["metadata"]["labels"].as_object();
        let labels: Vec<(&str, &str)> =
            labels.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect();
        pairs(&mut bytes, &labels);
        let fields: Vec<(&str, String)> = fields.into_iter().collect();
        pairs(&mut bytes, &fields);
        let json = bytes.len();
        let splice = write_json(&mut bytes, object);
        bytes[0] = OBJECT;
        // A body is bounded far below 4 GiB.
        bytes[1..5].copy_from_slice(&u32::try_from(splice).unwrap_or(u32::MAX).to_be_bytes());
        bytes[5..9].copy_from_slice(&u32::try_from(json).unwrap_or(u32::MAX).to_be_bytes());
        Self { bytes: bytes.into(), splice, json }
    }

    /// What to put into the store.
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// A label of the object, or one of its selectable fields.
    fn pair(&self, fields: bool, key: &str) -> Option<&str> {
        let mut at = HEAD;
        if fields {
            at = skip(&self.bytes, at)?;
        }
        let count = u32_at(&self.bytes, at)?;
        at += 4;
        for _ in 0..count {
            let (name, next) = text_at(&self.bytes, at)?;
            let (value, next) = text_at(&self.bytes, next)?;
            if name == key.as_bytes() {
                return std::str::from_utf8(value).ok();
            }
            at = next;
        }
        None
    }

    /// A selectable field.
    pub(super) fn field(&self, path: &str) -> Option<&str> {
        self.pair(true, path)
    }

    /// Writes the object as clients see it; `cluster` is named in reads of every cluster.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Revision, cluster: Option<&str>) {
        const ANNOTATIONS: &[u8] = b"\"annotations\":{";
        let (before, after) = (&self.bytes[self.json..self.splice], &self.bytes[self.splice..]);
        out.reserve(before.len() + after.len() + 128);
        out.extend_from_slice(before);
        let comma = |after: &[u8]| if after.first() == Some(&b'}') { "" } else { "," };
        // Writing to a Vec cannot fail.
        let _ = write!(out, "\"resourceVersion\":\"{revision}\"");
        if let Some(cluster) = cluster {
            let _ = write!(out, ",\"annotations\":{{\"{CLUSTER_ANNOTATION}\":\"{cluster}\"");
            match after.strip_prefix(ANNOTATIONS) {
                Some(rest) => {
                    let _ = write!(out, "{}", comma(rest));
                    out.extend_from_slice(rest);
                    return;
                }
                None => out.push(b'}'),
            }
        }
        let _ = write!(out, "{}", comma(after));
        out.extend_from_slice(after);
    }

    /// The object as clients see it.
    pub(super) fn value(&self, revision: Revision, cluster: Option<&str>) -> Result<Value, ApiError> {
        let mut json = Vec::new();
        self.write(&mut json, revision, cluster);
        serde_json::from_slice(&json).map_err(|_| damaged())
    }
}

impl Labels for Object {
    fn label(&self, key: &str) -> Option<&str> {
        self.pair(false, key)
    }
}

/// Writes the object without resource version and cluster annotation; returns where its metadata
/// begins inside.
fn write_json(out: &mut Vec<u8>, object: &Value) -> usize {
    let empty = Map::new();
    let fields = object.as_object().unwrap_or(&empty);
    out.push(b'{');
    for key in ["apiVersion", "kind"] {
        if let Some(value) = fields.get(key) {
            // Writing to a Vec cannot fail.
            let _ = write!(out, "\"{key}\":{value},");
        }
    }
    out.extend_from_slice(b"\"metadata\":{");
    let splice = out.len();
    let metadata = fields.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let mut first = true;
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
        let value = match (key.as_str(), value.as_object()) {
            ("annotations", Some(annotations)) if annotations.contains_key(CLUSTER_ANNOTATION) => {
                let mut annotations = annotations.clone();
                annotations.remove(CLUSTER_ANNOTATION);
                if annotations.is_empty() {
                    continue;
                }
                &Value::Object(annotations)
            }
            _ => value,
        };
        member(out, &mut first, key, value);
    }
    out.push(b'}');
    first = false;
    for (key, value) in fields.iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata")) {
        member(out, &mut first, key, value);
    }
    out.push(b'}');
    splice
}

fn member(out: &mut Vec<u8>, first: &mut bool, key: &str, value: &Value) {
    let leading = std::mem::take(first);
    if !leading {
        out.push(b',');
    }
    // Neither writing to a Vec nor a JSON value can fail.
    let _ = serde_json::to_writer(&mut *out, key);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, value);
}

fn pairs(out: &mut Vec<u8>, pairs: &[(impl AsRef<str>, impl AsRef<str>)]) {
    number(out, pairs.len());
    for (key, value) in pairs {
        for text in [key.as_ref(), value.as_ref()] {
            number(out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// Counts and lengths are bounded by the size of a body, far below 4 GiB.
fn number(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes());
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    usize::try_from(u32::from_be_bytes(bytes.try_into().ok()?)).ok()
}

fn text_at(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let length = u32_at(bytes, at)?;
    let start = at + 4;
    let end = start.checked_add(length)?;
    Some((bytes.get(start..end)?, end))
}

/// Where the pairs that start at `at` end.
fn skip(bytes: &[u8], at: usize) -> Option<usize> {
    let mut next = at + 4;
    for _ in 0..u32_at(bytes, at)? {
        next = text_at(bytes, text_at(bytes, next)?.1)?.1;
    }
    Some(next)
}

fn damaged() -> ApiError {
    tracing::error!("a stored object is damaged");
    ApiError::internal("a stored object is damaged")
}
