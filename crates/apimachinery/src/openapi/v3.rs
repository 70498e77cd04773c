//! OpenAPI v3 documents, one per group-version.

use super::components::{Components, collect_references, reference};
use super::operations::{Operation, Parameter, Path};
use super::{API_VERSION, TITLE, gvk_json, meta, paths};
use crate::definition::ResourceDefinition;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) fn document(components: &Components, definitions: &[Arc<ResourceDefinition>]) -> Value {
    let mut written = Map::new();
    for definition in definitions {
        for path in paths::paths(components, definition) {
            let item = path_item(&path);
            written.insert(path.path, item);
        }
    }
    let paths = Value::Object(written);
    let mut named = vec![meta::WATCH_EVENT.to_owned()];
    collect_references(&paths, &mut named);
    let definitions: Vec<_> = definitions.iter().collect();
    let schemas = components.closure(named.into_iter().collect::<BTreeSet<_>>(), &definitions);
    json!({
        "openapi": "3.0.0",
        "info": {"title": TITLE, "version": API_VERSION},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"BearerToken": {"type": "apiKey", "in": "header", "name": "authorization", "description": "Bearer Token authentication"}},
        },
    })
}

fn path_item(path: &Path) -> Value {
    let mut item = Map::new();
    let mut parameters: Vec<Value> = path
        .variables()
        .into_iter()
        .map(|(name, description)| {
            json!({"name": name, "in": "path", "description": description, "required": true, "schema": {"type": "string", "uniqueItems": true}})
        })
        .collect();
    parameters.extend(path.parameters.iter().map(query));
    item.insert("parameters".into(), parameters.into());
    for operation in &path.operations {
        item.insert(operation.method.into(), operation_json(operation));
    }
    Value::Object(item)
}

fn query((name, type_, description): &Parameter) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": {"type": type_, "uniqueItems": true}})
}

fn operation_json(operation: &Operation) -> Value {
    let answer = operation.answer.as_deref().map_or_else(|| json!({"type": "string"}), reference);
    let content: Map<String, Value> =
        operation.produces.iter().map(|media| ((*media).to_owned(), json!({"schema": answer}))).collect();
    let mut responses: Map<String, Value> = operation
        .action
        .codes()
        .iter()
        .map(|(code, words)| ((*code).to_owned(), json!({"description": words, "content": content})))
        .collect();
    responses.insert("401".into(), json!({"description": "Unauthorized"}));
    let mut value = json!({
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
        "responses": responses,
        "x-kubernetes-action": operation.action.name(),
        "x-kubernetes-group-version-kind": gvk_json(&operation.gvk),
    });
    let parameters: Vec<Value> = operation.action.parameters().iter().map(query).collect();
    if !parameters.is_empty() {
        value["parameters"] = parameters.into();
    }
    if let Some(body) = &operation.body {
        let schema = reference(&body.component);
        let content: Map<String, Value> =
            body.consumes.iter().map(|media| ((*media).to_owned(), json!({"schema": schema}))).collect();
        value["requestBody"] = json!({ "content": content });
        if body.required {
            value["requestBody"]["required"] = true.into();
        }
    }
    value
}
