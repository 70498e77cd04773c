//! Compares the definitions with recorded answers of a Kubernetes 1.36 API server.

use super::*;
use crate::definition::Scope;
use crate::schema::{ListType, Schema};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const DISCOVERY: &str = include_str!("../../tests/data/discovery.jsonl");
const COMPONENTS: &str = include_str!("../../tests/data/openapi-components.jsonl");

/// What discovery says of a definition: an entry per path.
fn discovery(definition: &ResourceDefinition) -> Vec<Value> {
    let namespaced = definition.scope == Scope::Namespaced;
    let group_version = definition.gvk.api_version();
    let names = &definition.names;
    let mut main = json!({
        "groupVersion": group_version, "kind": names.kind, "name": names.plural, "namespaced": namespaced,
        "singularName": names.singular, "verbs": definition.verbs,
    });
    if !names.short_names.is_empty() {
        main["shortNames"] = json!(names.short_names);
    }
    if !names.categories.is_empty() {
        main["categories"] = json!(names.categories);
    }
    let sub = |name: &str, kind: &str, verbs: &[String]| {
        json!({
            "groupVersion": group_version, "kind": kind, "name": format!("{}/{name}", names.plural),
            "namespaced": namespaced, "singularName": "", "verbs": verbs,
        })
    };
    let edit: Vec<String> = ["get", "patch", "update"].map(String::from).into();
    let mut entries = vec![main];
    if definition.subresources.status {
        entries.push(sub("status", &names.kind, &edit));
    }
    if definition.subresources.scale.is_some() {
        let mut scale = sub("scale", "Scale", &edit);
        scale["group"] = "autoscaling".into();
        scale["version"] = "v1".into();
        entries.push(scale);
    }
    for connect in &definition.subresources.connect {
        let mut entry = sub(&connect.name, &connect.kind.kind, &connect.verbs);
        if connect.kind.api_version() != group_version {
            entry["group"] = connect.kind.group.clone().into();
            entry["version"] = connect.kind.version.clone().into();
        }
        entries.push(entry);
    }
    entries
}

fn by_path(entries: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    entries.into_iter().map(|e| (format!("{} {}", e["groupVersion"], e["name"]), e)).collect()
}

#[test]
fn discovery_is_upstreams() {
    let expected = by_path(DISCOVERY.lines().map(|line| serde_json::from_str(line).unwrap()));
    let actual = by_path(all().iter().flat_map(discovery));
    assert_eq!(expected.keys().collect::<Vec<_>>(), actual.keys().collect::<Vec<_>>());
    for (path, entry) in &expected {
        assert_eq!(entry, &actual[path], "{path}");
    }
}

/// Prints a schema as the recorded components are written: without descriptions, with references.
fn openapi(schema: &Schema, top: bool) -> Value {
    let mut out = serde_json::Map::new();
    let reference = schema.component.as_ref().filter(|_| !top);
    if let Some(component) = reference {
        out.insert("$ref".into(), component.clone().into());
    } else {
        if schema.int_or_string {
            let quantity = schema.component.as_deref() == Some("io.k8s.apimachinery.pkg.api.resource.Quantity");
            let types: &[&str] = if quantity { &["string", "number"] } else { &["integer", "string"] };
            out.insert("oneOf".into(), types.iter().map(|t| json!({"type": t})).collect());
            if !quantity {
                out.insert("format".into(), "int-or-string".into());
            }
        }
        if !schema.type_.is_empty() {
            out.insert("type".into(), schema.type_.clone().into());
        }
        if !schema.format.is_empty() {
            out.insert("format".into(), schema.format.clone().into());
        }
        if !schema.properties.is_empty() {
            let properties: BTreeMap<_, _> = schema.properties.iter().map(|(k, v)| (k, openapi(v, false))).collect();
            out.insert("properties".into(), json!(properties));
        }
        if !schema.required.is_empty() {
            let mut required = schema.required.clone();
            required.sort();
            out.insert("required".into(), json!(required));
        }
        if let Some(items) = &schema.items {
            out.insert("items".into(), openapi(items, false));
        }
        if let Some(values) = &schema.additional_properties {
            out.insert("additionalProperties".into(), openapi(values, false));
        }
        if schema.map_atomic {
            out.insert("x-kubernetes-map-type".into(), "atomic".into());
        }
    }
    if !schema.enum_.is_empty() {
        out.insert("enum".into(), json!(schema.enum_));
    }
    if let Some(default) = &schema.default {
        out.insert("default".into(), default.clone());
    }
    if let Some(list_type) = schema.list_type {
        let name = match list_type {
            ListType::Atomic => "atomic",
            ListType::Set => "set",
            ListType::Map => "map",
        };
        out.insert("x-kubernetes-list-type".into(), name.into());
    }
    if !schema.list_map_keys.is_empty() {
        out.insert("x-kubernetes-list-map-keys".into(), json!(schema.list_map_keys));
    }
    let strategy: Vec<_> = [(schema.patch_strategy.merge, "merge"), (schema.patch_strategy.retain_keys, "retainKeys")]
        .into_iter()
        .filter_map(|(set, name)| set.then_some(name))
        .collect();
    if !strategy.is_empty() {
        out.insert("x-kubernetes-patch-strategy".into(), strategy.join(",").into());
    }
    if let Some(key) = &schema.patch_merge_key {
        out.insert("x-kubernetes-patch-merge-key".into(), key.clone().into());
    }
    Value::Object(out)
}

#[test]
fn schemas_are_upstreams() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for line in COMPONENTS.lines() {
        let recorded: BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
        for (name, mut expected) in recorded {
            // `events.k8s.io/v1` is not served.
            if name.starts_with("io.k8s.api.events.") {
                continue;
            }
            if let Some(required) = expected.get_mut("required").and_then(Value::as_array_mut) {
                required.sort_by_key(|field| field.as_str().unwrap().to_owned());
                required.retain(|field| field != "metadata");
                if required.is_empty() {
                    expected.as_object_mut().unwrap().remove("required");
                }
            }
            checked += 1;
            match components().get(&name) {
                None => wrong.push(format!("{name}: missing")),
                Some(schema) => {
                    let actual = openapi(schema, true);
                    if actual != expected {
                        wrong.push(format!("{name}:\n  want {expected}\n  have {actual}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {checked} components differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked > 200, "only {checked} components were compared");
}

#[test]
fn every_kind_has_a_schema() {
    for definition in all() {
        assert!(definition.schema.properties.contains_key("metadata"), "{}", definition.gvk.kind);
        assert!(definition.schema.component.is_some());
        assert!(!definition.schema.description.is_empty());
    }
}
