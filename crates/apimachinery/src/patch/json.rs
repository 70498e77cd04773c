//! JSON patch.

use super::unprocessable;
use crate::parse::{self, MAX_DEPTH};
use crate::status::ApiError;
use serde_json::Value;

/// Operations per patch, as upstream.
const MAX_OPERATIONS: usize = 10_000;
/// Bytes that all `copy` operations of a patch may add, so that copies of copies stay bounded.
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// Nodes that the depth checks of a patch may visit, so that moving a big tree often stays cheap.
const MAX_VISITED: usize = 8_000_000;

/// Applies a JSON patch (RFC 6902).
///
/// # Errors
///
/// 400 for what is not a patch, 413 for too many operations, 422 when an operation fails.
pub fn json_patch(doc: &Value, patch: &[u8]) -> Result<Value, ApiError> {
    let undecodable = |why: &str| ApiError::bad_request(format!("error decoding patch: {why}"));
    let (operations, _) = parse::value(patch).map_err(|why| undecodable(&why))?;
    let Value::Array(operations) = operations else {
        return Err(undecodable("json: cannot unmarshal object into Go value of type jsonpatch.Patch"));
    };
    if operations.len() > MAX_OPERATIONS {
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    let mut result = doc.clone();
    let mut bounds = Bounds { copied: 0, visits_left: MAX_VISITED };
    for operation in &operations {
        if !operation.is_object() {
            return Err(undecodable("json: cannot unmarshal into Go value of type jsonpatch.Operation"));
        }
        apply(&mut result, operation, &mut bounds).map_err(unprocessable)?;
    }
    Ok(result)
}

/// What a patch has used up.
struct Bounds {
    copied: usize,
    visits_left: usize,
}

impl Bounds {
    /// Keeps the object's nesting, and so every recursion over it, within what a body may have.
    fn check_depth(&mut self, path: &Pointer, value: &Value) -> Result<(), String> {
        let levels = MAX_DEPTH.checked_sub(path.tokens.len()).ok_or("the patched object exceeds max depth")?;
        self.visit(value, levels)
    }

    fn visit(&mut self, value: &Value, levels: usize) -> Result<(), String> {
        self.visits_left = self.visits_left.checked_sub(1).ok_or("the patch is too complex")?;
        let inside = levels.checked_sub(1).ok_or("the patched object exceeds max depth");
        match value {
            Value::Array(items) => inside
                .map_err(str::to_owned)
                .and_then(|levels| items.iter().try_for_each(|item| self.visit(item, levels))),
            Value::Object(fields) => inside
                .map_err(str::to_owned)
                .and_then(|levels| fields.values().try_for_each(|field| self.visit(field, levels))),
            _ => Ok(()),
        }
    }
}

fn apply(doc: &mut Value, operation: &Value, bounds: &mut Bounds) -> Result<(), String> {
    let kind = operation.get("op").and_then(Value::as_str).unwrap_or("unknown");
    let pointer = |field: &str| {
        let text = operation.get(field).and_then(Value::as_str);
        let text = text.ok_or_else(|| format!("{kind} operation does not apply: missing {field}"))?;
        Pointer::parse(text).ok_or_else(|| format!("{kind} operation does not apply: {text:?} is not a JSON pointer"))
    };
    let value = || {
        operation.get("value").cloned().ok_or_else(|| format!("{kind} operation missing value field: missing value"))
    };
    match kind {
        "add" => add(doc, &pointer("path")?, value()?, kind, bounds),
        "remove" => remove(doc, &pointer("path")?, kind).map(drop),
        "replace" => {
            let path = pointer("path")?;
            let target = path.get_mut(doc).ok_or_else(|| {
                format!("replace operation does not apply: doc is missing key: {}: missing value", path.text)
            })?;
            let value = value()?;
            bounds.check_depth(&path, &value)?;
            *target = value;
            Ok(())
        }
        "move" => {
            let (from, path) = (pointer("from")?, pointer("path")?);
            let below = path.tokens.len() > from.tokens.len() && path.tokens.starts_with(&from.tokens);
            if below {
                return Err(format!("move operation does not apply: {:?} is inside {:?}", path.text, from.text));
            }
            let value = remove(doc, &from, kind)?;
            add(doc, &path, value, kind, bounds)
        }
        "copy" => {
            let (from, path) = (pointer("from")?, pointer("path")?);
            let value = from.get(doc).ok_or_else(|| {
                format!("copy operation does not apply: doc is missing from path: {}: missing value", from.text)
            })?;
            let value = value.clone();
            bounds.copied += value.to_string().len();
            if bounds.copied > MAX_COPIED {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {MAX_COPIED}",
                    bounds.copied
                ));
            }
            add(doc, &path, value, kind, bounds)
        }
        "test" => {
            let path = pointer("path")?;
            let wanted = operation.get("value").unwrap_or(&Value::Null);
            // An absent value equals null, as upstream.
            let found = path.get(doc).unwrap_or(&Value::Null);
            if equal(found, wanted) { Ok(()) } else { Err(format!("testing value {} failed: test failed", path.text)) }
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn add(doc: &mut Value, path: &Pointer, value: Value, kind: &str, bounds: &mut Bounds) -> Result<(), String> {
    bounds.check_depth(path, &value)?;
    let Some((last, parents)) = path.tokens.split_last() else {
        *doc = value;
        return Ok(());
    };
    let missing = || format!("{kind} operation does not apply: doc is missing path: {:?}: missing value", path.text);
    match walk_mut(doc, parents).ok_or_else(missing)? {
        Value::Object(fields) => {
            fields.insert(last.clone(), value);
            Ok(())
        }
        Value::Array(items) => {
            let index = if last == "-" { Some(items.len()) } else { index(last) };
            let index = index.filter(|index| *index <= items.len());
            items.insert(index.ok_or_else(|| format!("{kind} operation does not apply: unable to access invalid index: {last}: invalid index referenced"))?, value);
            Ok(())
        }
        _ => Err(missing()),
    }
}

fn remove(doc: &mut Value, path: &Pointer, kind: &str) -> Result<Value, String> {
    let missing = || format!("{kind} operation does not apply: doc is missing path: {:?}: missing value", path.text);
    let (last, parents) = path.tokens.split_last().ok_or_else(missing)?;
    match walk_mut(doc, parents).ok_or_else(missing)? {
        Value::Object(fields) => fields.remove(last).ok_or_else(|| {
            format!("{kind} operation does not apply: unable to remove nonexistent key: {last}: missing value")
        }),
        Value::Array(items) => match index(last).filter(|index| *index < items.len()) {
            Some(index) => Ok(items.remove(index)),
            None => Err(format!(
                "{kind} operation does not apply: unable to access invalid index: {last}: invalid index referenced"
            )),
        },
        _ => Err(missing()),
    }
}

/// Numbers compare by value, so that `1` equals `1.0`.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || (x.is_f64() != y.is_f64() && x.as_f64() == y.as_f64()),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| equal(x, y)))
        }
        _ => a == b,
    }
}

/// A JSON pointer (RFC 6901).
struct Pointer {
    text: String,
    tokens: Vec<String>,
}

impl Pointer {
    fn parse(text: &str) -> Option<Self> {
        let tokens = match text.strip_prefix('/') {
            None if text.is_empty() => Vec::new(),
            None => return None,
            Some(rest) => rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect(),
        };
        Some(Self { text: text.to_owned(), tokens })
    }

    fn get<'a>(&self, doc: &'a Value) -> Option<&'a Value> {
        self.tokens.iter().try_fold(doc, |value, token| match value {
            Value::Object(fields) => fields.get(token),
            Value::Array(items) => items.get(index(token)?),
            _ => None,
        })
    }

    fn get_mut<'a>(&self, doc: &'a mut Value) -> Option<&'a mut Value> {
        walk_mut(doc, &self.tokens)
    }
}

fn walk_mut<'a>(doc: &'a mut Value, tokens: &[String]) -> Option<&'a mut Value> {
    tokens.iter().try_fold(doc, |value, token| match value {
        Value::Object(fields) => fields.get_mut(token),
        Value::Array(items) => items.get_mut(index(token)?),
        _ => None,
    })
}

/// An array index: digits without leading zeros.
fn index(token: &str) -> Option<usize> {
    let plain = token.bytes().all(|b| b.is_ascii_digit()) && (token == "0" || !token.starts_with('0'));
    if plain { token.parse().ok() } else { None }
}
