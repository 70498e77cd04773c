//! The OpenAPI v2 document: all group-versions at once.

use super::components::{Components, REFERENCE, collect_references, reference};
use super::operations::{Operation, Parameter, Path};
use super::{API_VERSION, TITLE, gvk_json, meta, paths};
use crate::definition::ResourceDefinition;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) fn document<'a>(
    components: &Components,
    definitions: impl Iterator<Item = &'a Arc<ResourceDefinition>>,
) -> Value {
    let definitions: Vec<_> = definitions.collect();
    let mut written = Map::new();
    for definition in &definitions {
        for path in paths::paths(components, definition) {
            let item = path_item(&path);
            written.insert(path.path, item);
        }
    }
    let mut paths = Value::Object(written);
    let mut named = vec![meta::WATCH_EVENT.to_owned()];
    collect_references(&paths, &mut named);
    let mut types = Value::Object(components.closure(named.into_iter().collect::<BTreeSet<_>>(), &definitions));
    downgrade(&mut types);
    downgrade(&mut paths);
    json!({
        "swagger": "2.0",
        "info": {"title": TITLE, "version": API_VERSION},
        "paths": paths,
        "definitions": types,
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "in": "header", "name": "authorization", "description": "Bearer Token authentication"}},
        "security": [{"BearerToken": []}],
    })
}

/// Turns v3 schemas into v2's: references stand alone, alternatives become strings, what v2 does
/// not know goes.
fn downgrade(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // A property may be called `allOf`; a schema's is a list.
            if let Some(Value::Array(all)) = fields.get_mut("allOf") {
                for one in std::mem::take(all) {
                    if let Value::Object(one) = one {
                        fields.extend(one);
                    }
                }
                fields.remove("allOf");
                fields.remove("default");
            }
            if fields.get("oneOf").is_some_and(Value::is_array) {
                fields.remove("oneOf");
                fields.insert("type".into(), "string".into());
            }
            if fields.get("nullable") == Some(&Value::Bool(true)) {
                fields.remove("nullable");
            }
            if let Some(Value::String(target)) = fields.get_mut("$ref")
                && let Some(name) = target.strip_prefix(REFERENCE)
            {
                *target = format!("#/definitions/{name}");
            }
            fields.values_mut().for_each(downgrade);
        }
        Value::Array(items) => items.iter_mut().for_each(downgrade),
        _ => {}
    }
}

fn path_item(path: &Path) -> Value {
    let mut item = Map::new();
    let mut parameters: Vec<Value> = path
        .variables()
        .into_iter()
        .map(|(name, description)| json!({"name": name, "in": "path", "description": description, "required": true, "type": "string", "uniqueItems": true}))
        .collect();
    parameters.extend(path.parameters.iter().map(query));
    item.insert("parameters".into(), parameters.into());
    for operation in &path.operations {
        item.insert(operation.method.into(), operation_json(operation));
    }
    Value::Object(item)
}

fn query((name, type_, description): &Parameter) -> Value {
    json!({"name": name, "in": "query", "description": description, "type": type_, "uniqueItems": true})
}

fn operation_json(operation: &Operation) -> Value {
    let answer = operation.answer.as_deref().map_or_else(|| json!({"type": "string"}), reference);
    let mut responses: Map<String, Value> = operation
        .action
        .codes()
        .iter()
        .map(|(code, words)| ((*code).to_owned(), json!({"description": words, "schema": answer})))
        .collect();
    responses.insert("401".into(), json!({"description": "Unauthorized"}));
    let mut parameters = Vec::new();
    let mut consumes = vec!["*/*"];
    if let Some(body) = &operation.body {
        let mut parameter = json!({"name": "body", "in": "body", "schema": reference(&body.component)});
        if body.required {
            parameter["required"] = true.into();
        }
        parameters.push(parameter);
        consumes.clone_from(&body.consumes);
    }
    parameters.extend(operation.action.parameters().iter().map(query));
    let mut value = json!({
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
        "schemes": ["https"],
        "consumes": consumes,
        "produces": operation.produces,
        "responses": responses,
        "x-kubernetes-action": operation.action.name(),
        "x-kubernetes-group-version-kind": gvk_json(&operation.gvk),
    });
    if !parameters.is_empty() {
        value["parameters"] = parameters.into();
    }
    value
}
