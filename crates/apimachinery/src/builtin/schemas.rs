//! Turns Rust types' JSON schemas into structural schemas whose nodes are shared.
//!
//! Each Kubernetes type is converted once per process; a field of that type is a copy of the
//! type's node (whose children are shared) with the field's own description and merge facts.

use super::facts;
use crate::schema::Schema;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Schemas by OpenAPI component name such as `io.k8s.api.core.v1.PodSpec`.
pub type Components = BTreeMap<String, Arc<Schema>>;

/// Collects types, then converts them together.
#[derive(Default)]
pub struct Converter {
    generator: SchemaGenerator,
}

impl Converter {
    /// Adds `T` and everything it refers to.
    pub fn add<T: JsonSchema>(&mut self) {
        self.generator.subschema_for::<T>();
    }

    /// The components of all added types. Types that are not Kubernetes' (`io.k8s.`) are inlined
    /// where they are used, as custom resources' are.
    #[must_use]
    pub fn finish(mut self) -> Components {
        let definitions = self.generator.take_definitions(false);
        let mut conversion = Conversion { definitions: &definitions, done: BTreeMap::new() };
        for name in definitions.keys() {
            conversion.component(name);
        }
        conversion.done
    }
}

struct Conversion<'a> {
    definitions: &'a Map<String, Value>,
    done: Components,
}

impl Conversion<'_> {
    /// The schema of a type; a stand-in that accepts anything if it is unknown or, being
    /// recursive, still in the making.
    fn component(&mut self, name: &str) -> Arc<Schema> {
        if let Some(done) = self.done.get(name) {
            return done.clone();
        }
        let anything = Arc::new(Schema { preserve_unknown_fields: true, ..Schema::default() });
        let Some(definition) = self.definitions.get(name) else {
            return anything;
        };
        self.done.insert(name.to_owned(), anything);
        let mut schema = self.node(name, definition);
        if name.starts_with("io.k8s.") {
            schema.component = Some(name.to_owned());
        }
        // A free-form object: what is in it is the user's.
        if schema.type_ == "object" && schema.properties.is_empty() && schema.additional_properties.is_none() {
            schema.preserve_unknown_fields = true;
        }
        // The Rust types always have metadata; users may leave it out.
        if schema.properties.contains_key("metadata") {
            schema.required.retain(|field| !matches!(field.as_str(), "metadata" | "apiVersion" | "kind"));
        }
        facts::apply(name, ".", &mut schema);
        let schema = Arc::new(schema);
        self.done.insert(name.to_owned(), schema.clone());
        schema
    }

    fn node(&mut self, component: &str, json: &Value) -> Schema {
        let description = json.get("description").and_then(Value::as_str);
        if let Some(name) = reference(json) {
            let mut schema = (*self.component(&name)).clone();
            if let Some(description) = description {
                description.clone_into(&mut schema.description);
            }
            if let Some(default) = json.get("default") {
                schema.default = Some(default.clone());
            }
            return schema;
        }
        let type_ = type_of(json);
        let mut schema = Schema {
            description: description.unwrap_or_default().to_owned(),
            type_,

            format: text(json, "format"),
            int_or_string: json.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)),
            preserve_unknown_fields: json.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)),
            required: strings(json.get("required")),
            default: json.get("default").cloned(),
            enum_: json.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            ..Schema::default()
        };
        // A Rust enum with documented variants.
        if let Some(variants) = json.get("oneOf").and_then(Value::as_array) {
            schema.enum_ = variants.iter().filter_map(|variant| variant.get("const").cloned()).collect();
            if !schema.enum_.is_empty() {
                "string".clone_into(&mut schema.type_);
            }
        }
        if let Some(items) = json.get("items") {
            schema.items = Some(Arc::new(self.node(component, items)));
        }
        if let Some(values) = json.get("additionalProperties").filter(|values| values.is_object()) {
            schema.additional_properties = Some(Arc::new(self.node(component, values)));
        }
        for (field, json) in json.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let mut property = self.node(component, json);
            facts::apply(component, field, &mut property);
            schema.properties.insert(field.clone(), Arc::new(property));
        }
        schema
    }
}

/// The type that a schema refers to, alone or as one of two alternatives of which the other is null.
fn reference(json: &Value) -> Option<String> {
    let direct = json.get("$ref").or_else(|| {
        let alternatives = ["anyOf", "allOf"].iter().find_map(|key| json.get(key))?.as_array()?;
        alternatives.iter().find_map(|alternative| alternative.get("$ref"))
    })?;
    direct.as_str()?.rsplit('/').next().map(str::to_owned)
}

fn type_of(json: &Value) -> String {
    match json.get("type") {
        Some(Value::String(type_)) => type_.clone(),
        // `Option<T>`: Kubernetes writes none as an absent field, so null is not a value.
        Some(Value::Array(types)) => {
            types.iter().filter_map(Value::as_str).find(|type_| *type_ != "null").unwrap_or_default().to_owned()
        }
        _ => String::new(),
    }
}

fn text(json: &Value, key: &str) -> String {
    json.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn strings(json: Option<&Value>) -> Vec<String> {
    json.and_then(Value::as_array)
        .map(|items| items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        .unwrap_or_default()
}
