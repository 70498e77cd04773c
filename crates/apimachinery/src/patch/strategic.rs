//! Strategic merge patch: lists merge by key where the schema says so.
//!
//! Source: k8s.io/apimachinery `pkg/util/strategicpatch`.

use super::{bounded, unprocessable};
use crate::schema::Schema;
use crate::status::ApiError;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// Applies a strategic merge patch, with the merge keys of `schema`: `$patch: replace|merge|delete`
/// on objects and list items, `$retainKeys`, `$deleteFromPrimitiveList/<field>` and
/// `$setElementOrder/<field>`.
///
/// # Errors
///
/// 400 for malformed directives, 422 when lists cannot be merged.
pub fn strategic_merge(doc: &Value, patch: &Value, schema: &Schema) -> Result<Value, ApiError> {
    let Value::Object(patch) = patch else {
        return Err(ApiError::bad_request(
            "error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}",
        ));
    };
    let original = doc.as_object().cloned().unwrap_or_default();
    bounded(Value::Object(merge_object(original, patch, schema)?))
}

fn merge_object(
    original: Map<String, Value>,
    patch: &Map<String, Value>,
    schema: &Schema,
) -> Result<Map<String, Value>, ApiError> {
    match patch.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("delete") => return Ok(Map::new()),
        Some("replace") => return merge_fields(Map::new(), patch, schema),
        Some(other) => return Err(bad_directive(other, patch)),
    }
    merge_fields(original, patch, schema)
}

fn merge_fields(
    mut merged: Map<String, Value>,
    patch: &Map<String, Value>,
    schema: &Schema,
) -> Result<Map<String, Value>, ApiError> {
    if let Some(retain) = patch.get(RETAIN_KEYS) {
        retain_keys(&mut merged, patch, retain)?;
    }
    for (name, value) in patch {
        if name == DIRECTIVE || name == RETAIN_KEYS || name.starts_with(DELETE_PRIMITIVES) {
            continue;
        }
        if let Some(field) = name.strip_prefix(ELEMENT_ORDER) {
            // Together with the list's own patch, if there is one.
            if !patch.contains_key(field) {
                let order = list_directive(name, value)?;
                merge_list_field(&mut merged, field, &[], Some(order), schema)?;
            }
            continue;
        }
        match value {
            Value::Null => {
                merged.remove(name);
            }
            Value::Object(value) => {
                let original = match merged.remove(name) {
                    Some(Value::Object(original)) => original,
                    _ => Map::new(),
                };
                let unknown = Schema::default();
                let value = merge_object(original, value, schema.field(name).unwrap_or(&unknown))?;
                merged.insert(name.clone(), Value::Object(value));
            }
            Value::Array(items) => {
                let directive = format!("{ELEMENT_ORDER}{name}");
                let order = patch.get(&directive).map(|order| list_directive(&directive, order)).transpose()?;
                merge_list_field(&mut merged, name, items, order, schema)?;
            }
            scalar => {
                merged.insert(name.clone(), scalar.clone());
            }
        }
    }
    for (name, value) in patch {
        if let Some(field) = name.strip_prefix(DELETE_PRIMITIVES) {
            let deleted = list_directive(name, value)?;
            if let Some(Value::Array(items)) = merged.get_mut(field) {
                let deleted: HashSet<&Value> = deleted.iter().collect();
                items.retain(|item| !deleted.contains(item));
            }
        }
    }
    Ok(merged)
}

fn retain_keys(merged: &mut Map<String, Value>, patch: &Map<String, Value>, retain: &Value) -> Result<(), ApiError> {
    let bad = || ApiError::bad_request("invalid patch format of retainKeys");
    let retain = retain.as_array().ok_or_else(bad)?;
    let retained = |name: &str| retain.iter().any(|key| key.as_str() == Some(name));
    let stray = |(name, value): (&String, &Value)| {
        !value.is_null()
            && name != RETAIN_KEYS
            && !name.starts_with(DELETE_PRIMITIVES)
            && !name.starts_with(ELEMENT_ORDER)
            && !retained(name)
    };
    if patch.iter().any(stray) {
        return Err(bad());
    }
    merged.retain(|name, _| retained(name));
    Ok(())
}

fn merge_list_field(
    merged: &mut Map<String, Value>,
    name: &str,
    patch: &[Value],
    order: Option<&[Value]>,
    schema: &Schema,
) -> Result<(), ApiError> {
    let unknown = Schema::default();
    let field = schema.field(name).unwrap_or(&unknown);
    let original = match merged.remove(name) {
        Some(Value::Array(items)) => items,
        // An order for a list that is not there orders nothing.
        None if patch.is_empty() && order.is_some() => return Ok(()),
        _ => Vec::new(),
    };
    let items = field.items.as_deref().unwrap_or(&unknown);
    let list = if field.patch_strategy.merge {
        merge_list(original, patch, order, items, field.patch_merge_key.as_deref())?
    } else if patch.is_empty() && order.is_some() {
        original
    } else {
        patch.iter().map(|item| without_directives(item, items)).collect::<Result<_, _>>()?
    };
    merged.insert(name.to_owned(), Value::Array(list));
    Ok(())
}

fn merge_list(
    original: Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
    schema: &Schema,
    merge_key: Option<&str>,
) -> Result<Vec<Value>, ApiError> {
    if original.iter().chain(patch).any(Value::is_array) {
        return Err(unprocessable("lists of lists are not supported"));
    }
    if !original.iter().chain(patch).any(Value::is_object) {
        let mut seen = HashSet::new();
        let merged = original.iter().chain(patch).filter(|item| seen.insert(*item)).cloned().collect();
        check_order(patch, order, Identity::Whole)?;
        return Ok(arrange(merged, order.unwrap_or(patch), &original, Identity::Whole));
    }
    let merge_key = merge_key.ok_or_else(|| unprocessable("cannot merge lists without a merge key"))?;
    if original.iter().chain(patch).any(|item| !item.is_object()) {
        return Err(unprocessable("list element types are not identical"));
    }
    let directives = ListDirectives::read(patch, merge_key)?;
    let mut merged: Vec<Value> = if directives.replace { Vec::new() } else { original.clone() };
    merged.retain(|item| !item.get(merge_key).is_some_and(|key| directives.deleted.contains(key)));
    // Of several items with one key (ports by number), the first is meant.
    let mut places: HashMap<Value, usize> = HashMap::new();
    for (place, item) in merged.iter().enumerate() {
        if let Some(key) = item.get(merge_key) {
            places.entry(key.clone()).or_insert(place);
        }
    }
    for (key, fields) in directives.merged {
        let place = *places.entry(key.clone()).or_insert_with(|| {
            merged.push(Value::Null);
            merged.len() - 1
        });
        if let Some(slot) = merged.get_mut(place) {
            let base = match slot.take() {
                Value::Object(base) => base,
                _ => Map::new(),
            };
            *slot = Value::Object(merge_object(base, fields, schema)?);
        }
    }
    let identity = Identity::Field(merge_key);
    let named: Vec<Value> =
        patch.iter().filter(|item| !is_deletion(item) && item.get(merge_key).is_some()).cloned().collect();
    check_order(&named, order, identity)?;
    Ok(arrange(merged, order.unwrap_or(&named), &original, identity))
}

fn is_deletion(item: &Value) -> bool {
    item.get(DIRECTIVE).is_some_and(|directive| directive == "delete")
}

/// What the items of a list patch ask for.
struct ListDirectives<'a> {
    /// `{"$patch": "replace"}`: nothing of the old list stays.
    replace: bool,
    /// Keys of `{"$patch": "delete"}`.
    deleted: HashSet<&'a Value>,
    /// Keys and fields of the others.
    merged: Vec<(&'a Value, &'a Map<String, Value>)>,
}

impl<'a> ListDirectives<'a> {
    fn read(patch: &'a [Value], merge_key: &str) -> Result<Self, ApiError> {
        let mut read = Self { replace: false, deleted: HashSet::new(), merged: Vec::new() };
        for item in patch {
            let Value::Object(fields) = item else { continue };
            let directive = fields.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default());
            if directive == Some("replace") && fields.len() == 1 {
                read.replace = true;
                continue;
            }
            let no_key = || unprocessable(format!("map: {item} does not contain declared merge key: {merge_key}"));
            let key = fields.get(merge_key).ok_or_else(no_key)?;
            match directive {
                Some("delete") => {
                    read.deleted.insert(key);
                }
                None | Some("merge" | "replace") => read.merged.push((key, fields)),
                Some(other) => return Err(bad_directive(other, fields)),
            }
        }
        Ok(read)
    }
}

/// What tells the items of a list apart.
#[derive(Clone, Copy)]
enum Identity<'k> {
    /// The item itself: scalars.
    Whole,
    /// A field of the item.
    Field(&'k str),
}

impl Identity<'_> {
    fn of<'v>(&self, item: &'v Value) -> &'v Value {
        match self {
            Self::Whole => item,
            Self::Field(name) => item.get(name).unwrap_or(&Value::Null),
        }
    }
}

/// The first place of each key.
fn ranks<'a>(list: &'a [Value], identity: Identity<'_>) -> HashMap<&'a Value, usize> {
    let mut ranks = HashMap::new();
    for (rank, item) in list.iter().enumerate() {
        ranks.entry(identity.of(item)).or_insert(rank);
    }
    ranks
}

/// Puts items that `order` names in that order, and the others where they were among them: before
/// the first named item that followed them in `original`.
fn arrange(merged: Vec<Value>, order: &[Value], original: &[Value], identity: Identity<'_>) -> Vec<Value> {
    let (order, original) = (ranks(order, identity), ranks(original, identity));
    let place = |item: &Value| original.get(identity.of(item)).copied();
    let (mut named, mut others): (Vec<_>, Vec<_>) =
        merged.into_iter().partition(|item| order.contains_key(identity.of(item)));
    named.sort_by_key(|item| order.get(identity.of(item)).copied());
    others.sort_by_key(|item| place(item).unwrap_or(usize::MAX));
    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in named {
        if let Some(named_place) = place(&item) {
            while let Some(other) = others.next_if(|other| place(other).is_some_and(|other| other < named_place)) {
                arranged.push(other);
            }
        }
        arranged.push(item);
    }
    arranged.extend(others);
    arranged
}

/// An order must name every item of the patch.
fn check_order(patch: &[Value], order: Option<&[Value]>, identity: Identity<'_>) -> Result<(), ApiError> {
    let Some(order) = order else { return Ok(()) };
    let named = ranks(order, identity);
    if patch.iter().all(|item| named.contains_key(identity.of(item))) {
        return Ok(());
    }
    let (patch, order) = (Value::Array(patch.to_vec()), Value::Array(order.to_vec()));
    Err(ApiError::bad_request(format!(
        "The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
    )))
}

/// The value as it is stored where there is nothing to merge with.
fn without_directives(value: &Value, schema: &Schema) -> Result<Value, ApiError> {
    match value {
        Value::Object(fields) => Ok(Value::Object(merge_object(Map::new(), fields, schema)?)),
        other => Ok(other.clone()),
    }
}

fn list_directive<'a>(name: &str, value: &'a Value) -> Result<&'a [Value], ApiError> {
    let words = if name.starts_with(ELEMENT_ORDER) { "setElementOrder list" } else { "primitive list" };
    value.as_array().map(Vec::as_slice).ok_or_else(|| ApiError::bad_request(format!("invalid patch format of {words}")))
}

fn bad_directive(directive: &str, patch: &Map<String, Value>) -> ApiError {
    ApiError::bad_request(format!("unknown patch type found: {directive} in {}", Value::Object(patch.clone())))
}
