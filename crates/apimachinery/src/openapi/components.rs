//! The named types of a document: collected from definitions, written in OpenAPI v3 form.

use super::{gvk_json, meta};
use crate::definition::{GroupVersionKind, ResourceDefinition};
use crate::schema::{ListType, QUANTITY, Schema};
use serde_json::{Map, Value, json};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
/// Where v3 documents keep types.
pub(super) const REFERENCE: &str = "#/components/schemas/";

/// Named types.
#[derive(Debug)]
pub(super) struct Components {
    schemas: BTreeMap<String, Arc<Schema>>,
    /// The kinds that a named type is.
    kinds: BTreeMap<String, BTreeSet<GroupVersionKind>>,
}

impl Components {
    pub(super) fn collect<'a>(
        given: &BTreeMap<String, Arc<Schema>>,
        definitions: impl Iterator<Item = &'a Arc<ResourceDefinition>>,
    ) -> Self {
        let mut collected = Self { schemas: given.clone(), kinds: BTreeMap::new() };
        for schema in given.values() {
            collected.add_inner(schema);
        }
        for definition in definitions {
            let name = component_name(definition);
            collected.kinds.entry(name.clone()).or_default().insert(definition.gvk.clone());
            if let Entry::Vacant(vacant) = collected.schemas.entry(name) {
                vacant.insert(definition.schema.clone());
                collected.add_inner(&definition.schema);
            }
        }
        collected
    }

    fn add(&mut self, schema: &Arc<Schema>) {
        if let Some(name) = &schema.component {
            if self.schemas.contains_key(name) {
                return;
            }
            self.schemas.insert(name.clone(), schema.clone());
        }
        self.add_inner(schema);
    }

    fn add_inner(&mut self, schema: &Schema) {
        schema.properties.values().for_each(|field| self.add(field));
        schema.additional_properties.iter().for_each(|values| self.add(values));
        schema.items.iter().for_each(|items| self.add(items));
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.schemas.contains_key(name) || meta::component(name).is_some()
    }

    /// The types named in `wanted` and all they refer to, in v3 form. `group_versions` are those
    /// of the document, for the types that exist in every group.
    pub(super) fn closure(
        &self,
        wanted: BTreeSet<String>,
        definitions: &[&Arc<ResourceDefinition>],
    ) -> Map<String, Value> {
        let mut written = Map::new();
        let mut pending: Vec<String> = wanted.into_iter().collect();
        let lists: BTreeMap<String, &Arc<ResourceDefinition>> =
            definitions.iter().map(|definition| (format!("{}List", component_name(definition)), *definition)).collect();
        while let Some(name) = pending.pop() {
            if written.contains_key(&name) {
                continue;
            }
            let value = match (lists.get(&name), self.schemas.get(&name)) {
                (Some(definition), _) => list_component(definition),
                (None, Some(schema)) => self.component(&name, schema),
                (None, None) => meta::component(&name)
                    .map_or_else(|| json!({"type": "object"}), |value| with_every_group(value, definitions)),
            };
            collect_references(&value, &mut pending);
            written.insert(name, value);
        }
        written
    }

    /// The body of a named type.
    fn component(&self, name: &str, schema: &Schema) -> Value {
        let mut value = match name {
            QUANTITY => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            INT_OR_STRING => json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
            _ => self.inline(schema, !name.starts_with("io.k8s.")),
        };
        if let Value::Object(fields) = &mut value {
            // What a field says of its own use of the type is not the type's.
            fields.remove("default");
            if !schema.description.is_empty() {
                fields.insert("description".into(), schema.description.clone().into());
            }
            if let Some(kinds) = self.kinds.get(name) {
                self.complete_kind(fields);
                fields.insert("x-kubernetes-group-version-kind".into(), kinds.iter().map(gvk_json).collect());
            }
        }
        value
    }

    /// Every kind has `apiVersion`, `kind` and `metadata`, whether its schema says so or not.
    fn complete_kind(&self, fields: &mut Map<String, Value>) {
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(properties) = properties {
            for name in ["apiVersion", "kind"] {
                properties.entry(name).or_insert_with(|| json!({"type": "string"}));
            }
            let bare = properties.get("metadata").is_none_or(|metadata| {
                metadata.get("properties").is_none()
                    && metadata.get("allOf").is_none()
                    && metadata.get("$ref").is_none()
            });
            if bare && self.contains(meta::OBJECT_META) {
                properties.insert("metadata".into(), json!({"allOf": [reference(meta::OBJECT_META)]}));
            }
        }
    }

    /// A use of a schema: a reference, with what is particular to this use, or the schema itself.
    fn usage(&self, schema: &Schema, custom: bool) -> Value {
        let Some(name) = &schema.component else { return self.inline(schema, custom) };
        let mut own = Map::new();
        let described = self.schemas.get(name).is_some_and(|component| component.description == schema.description);
        if !schema.description.is_empty() && !described {
            own.insert("description".into(), schema.description.clone().into());
        }
        if let Some(default) = &schema.default {
            own.insert("default".into(), default.clone());
        }
        insert_merge_facts(&mut own, schema);
        if own.is_empty() {
            return reference(name);
        }
        own.insert("allOf".into(), json!([reference(name)]));
        Value::Object(own)
    }

    fn inline(&self, schema: &Schema, custom: bool) -> Value {
        let mut out = Map::new();
        let mut text = |key: &str, value: &str| {
            if !value.is_empty() {
                out.insert(key.into(), value.into());
            }
        };
        text("type", &schema.type_);
        text("format", &schema.format);
        text("description", &schema.description);
        if !schema.properties.is_empty() {
            let properties: Map<_, _> =
                schema.properties.iter().map(|(name, field)| (name.clone(), self.usage(field, custom))).collect();
            out.insert("properties".into(), properties.into());
        }
        if let Some(values) = &schema.additional_properties {
            out.insert("additionalProperties".into(), self.usage(values, custom));
        }
        if let Some(items) = &schema.items {
            out.insert("items".into(), self.usage(items, custom));
        }
        if !schema.required.is_empty() {
            out.insert("required".into(), schema.required.clone().into());
        }
        if let Some(default) = &schema.default {
            out.insert("default".into(), default.clone());
        }
        if !schema.enum_.is_empty() {
            out.insert("enum".into(), schema.enum_.clone().into());
        }
        let mut flag = |key: &str, set: bool| {
            if set {
                out.insert(key.into(), true.into());
            }
        };
        flag("nullable", schema.nullable);
        flag("x-kubernetes-int-or-string", schema.int_or_string);
        // Built-in types leave this unsaid.
        flag("x-kubernetes-preserve-unknown-fields", custom && schema.preserve_unknown_fields);
        if schema.map_atomic {
            out.insert("x-kubernetes-map-type".into(), "atomic".into());
        }
        insert_merge_facts(&mut out, schema);
        Value::Object(out)
    }
}

fn insert_merge_facts(out: &mut Map<String, Value>, schema: &Schema) {
    if let Some(list_type) = schema.list_type {
        let name = match list_type {
            ListType::Atomic => "atomic",
            ListType::Set => "set",
            ListType::Map => "map",
        };
        out.insert("x-kubernetes-list-type".into(), name.into());
    }
    if !schema.list_map_keys.is_empty() {
        out.insert("x-kubernetes-list-map-keys".into(), schema.list_map_keys.clone().into());
    }
    let strategy = match (schema.patch_strategy.merge, schema.patch_strategy.retain_keys) {
        (true, true) => "merge,retainKeys",
        (true, false) => "merge",
        (false, true) => "retainKeys",
        (false, false) => "",
    };
    if !strategy.is_empty() {
        out.insert("x-kubernetes-patch-strategy".into(), strategy.into());
    }
    if let Some(key) = &schema.patch_merge_key {
        out.insert("x-kubernetes-patch-merge-key".into(), key.clone().into());
    }
}

/// The name of a kind's type; a kind without one is named as custom resources are,
/// `com.example.v1.Kind`.
pub(super) fn component_name(definition: &ResourceDefinition) -> String {
    if let Some(name) = &definition.schema.component {
        return name.clone();
    }
    let GroupVersionKind { group, version, kind } = &definition.gvk;
    let reversed: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{name}")})
}

fn list_component(definition: &ResourceDefinition) -> Value {
    let kind = format!("{}List", definition.gvk.kind);
    json!({
        "description": format!("{kind} is a list of {}.", definition.gvk.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": meta::API_VERSION_DESCRIPTION},
            "kind": {"type": "string", "description": meta::KIND_DESCRIPTION},
            "metadata": {"allOf": [reference(meta::LIST_META)], "default": {}},
            "items": {"type": "array", "items": reference(&component_name(definition))},
        },
        "x-kubernetes-group-version-kind": [{"group": definition.gvk.group, "version": definition.gvk.version, "kind": kind}],
    })
}

/// Types such as DeleteOptions are kinds of every group-version.
fn with_every_group(mut value: Value, definitions: &[&Arc<ResourceDefinition>]) -> Value {
    let kind = value.get("x-kubernetes-group-version-kind").and_then(|kinds| kinds.get(0)).cloned();
    if let Some(kind) = kind.filter(|kind| kind["kind"] == "DeleteOptions" || kind["kind"] == "WatchEvent") {
        let mut all: BTreeSet<(String, String)> = [(String::new(), "v1".to_owned())].into();
        all.extend(definitions.iter().map(|definition| (definition.gvk.group.clone(), definition.gvk.version.clone())));
        let named = |(group, version)| json!({"group": group, "version": version, "kind": kind["kind"]});
        value["x-kubernetes-group-version-kind"] = all.into_iter().map(named).collect();
    }
    value
}

/// Appends the names of the types that `value` refers to.
pub(super) fn collect_references(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(target) if key == "$ref" => {
                        names.extend(target.strip_prefix(REFERENCE).map(str::to_owned))
                    }
                    value => collect_references(value, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, names)),
        _ => {}
    }
}
