//! What upstream's types say beyond their JSON shape: list types and keys, patch strategies,
//! allowed values and defaults, per OpenAPI component and field.
//!
//! `facts.txt` has a line per component and an indented line per field (`.` is the component
//! itself) with space-separated `name=value` facts.

use crate::schema::{ListType, PatchStrategy, Schema};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

const TABLE: &str = include_str!("facts.txt");

type Fields = HashMap<&'static str, &'static str>;

fn table() -> &'static HashMap<&'static str, Fields> {
    static FACTS: OnceLock<HashMap<&'static str, Fields>> = OnceLock::new();
    FACTS.get_or_init(|| {
        let mut components = HashMap::new();
        let mut current: Option<&mut Fields> = None;
        for line in TABLE.lines() {
            match (line.strip_prefix("  "), current.as_mut()) {
                (Some(field), Some(fields)) => {
                    if let Some((name, facts)) = field.split_once(' ') {
                        fields.insert(name, facts);
                    }
                }
                _ => current = Some(components.entry(line).or_default()),
            }
        }
        components
    })
}

/// Adds to `schema` what is known of `field` of `component`; `.` is the component itself.
pub(super) fn apply(component: &str, field: &str, schema: &mut Schema) {
    let Some(facts) = table().get(component).and_then(|fields| fields.get(field)) else {
        return;
    };
    for (name, value) in facts.split(' ').filter_map(|fact| fact.split_once('=')) {
        match name {
            "list" => {
                schema.list_type = match value {
                    "map" => Some(ListType::Map),
                    "set" => Some(ListType::Set),
                    _ => Some(ListType::Atomic),
                }
            }
            "keys" => schema.list_map_keys = value.split(',').map(str::to_owned).collect(),
            "patch" => {
                schema.patch_strategy = PatchStrategy {
                    merge: value.split(',').any(|s| s == "merge"),
                    retain_keys: value.split(',').any(|s| s == "retainKeys"),
                }
            }
            "mergeKey" => schema.patch_merge_key = Some(value.to_owned()),
            "map" => schema.map_atomic = value == "atomic",
            // The Rust type insists on a name that upstream lets be empty.
            "optional" => schema.required.retain(|field| field != value),
            "enum" => schema.enum_ = value.split(',').map(Value::from).collect(),
            "itemEnum" => {
                if let Some(items) = schema.items.as_mut() {
                    Arc::make_mut(items).enum_ = value.split(',').map(Value::from).collect();
                }
            }
            "default" => schema.default = serde_json::from_str(value).ok(),
            _ => {}
        }
    }
}
