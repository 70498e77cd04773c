//! `meta.k8s.io/v1` Tables: what `kubectl get` prints.

mod duration;
mod path;
#[cfg(test)]
mod tests;

pub use duration::{human_duration, translate_timestamp};
pub use path::JsonPath;

use crate::definition::{Cell, PrinterColumn, ResourceDefinition};
use jiff::Timestamp;
use serde_json::{Value, json};

/// How much of the object a row carries (query parameter `includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// The object.
    Object,
}

impl IncludeObject {
    /// Reads the query parameter; `None` for a value that is not allowed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "None" => Some(Self::None),
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// Renders a Table. The caller sets `metadata` (`resourceVersion`, `continue`,
/// `remainingItemCount`). A definition without a column of format `name` gets `Name` in front; one
/// without any column gets `Age`, too.
pub fn render<'a>(
    definition: &ResourceDefinition,
    objects: impl IntoIterator<Item = &'a Value>,
    now: Timestamp,
    include: IncludeObject,
) -> Value {
    let mut columns = Vec::new();
    if !definition.columns.iter().any(|column| column.format == "name") {
        columns.push(Column {
            heading: heading("Name", "string", "name", NAME_DESCRIPTION, 0),
            type_: "string",
            source: Source::path(".metadata.name"),
        });
    }
    columns.extend(definition.columns.iter().map(Column::new));
    if definition.columns.is_empty() {
        columns.push(Column {
            heading: heading("Age", "date", "", AGE_DESCRIPTION, 0),
            type_: "date",
            source: Source::path(".metadata.creationTimestamp"),
        });
    }
    let rows: Vec<Value> = objects.into_iter().map(|object| row(&columns, object, now, include)).collect();
    let headings: Vec<Value> = columns.into_iter().map(|column| column.heading).collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": headings, "rows": rows})
}

const NAME_DESCRIPTION: &str = "The name of the object, unique among the objects of its kind in its namespace.";
const AGE_DESCRIPTION: &str = "Time since the object was created.";

struct Column<'a> {
    heading: Value,
    type_: &'a str,
    source: Source,
}

enum Source {
    Path(Option<JsonPath>),
    Function(fn(&Value, Timestamp) -> Value),
}

impl Source {
    /// A path that cannot be parsed yields nothing.
    fn path(text: &str) -> Self {
        Self::Path(JsonPath::parse(text).ok())
    }
}

impl<'a> Column<'a> {
    fn new(column: &'a PrinterColumn) -> Self {
        let source = match &column.cell {
            Cell::Path(path) => Source::path(path),
            Cell::Function(function) => Source::Function(*function),
        };
        let heading = heading(&column.name, &column.type_, &column.format, &column.description, column.priority);
        Self { heading, type_: &column.type_, source }
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.source {
            Source::Function(function) => function(object, now),
            Source::Path(path) => {
                let found = path.as_ref().and_then(|path| path.first(object)).unwrap_or(&Value::Null);
                typed(found, self.type_, now)
            }
        }
    }
}

fn heading(name: &str, type_: &str, format: &str, description: &str, priority: i32) -> Value {
    json!({"name": name, "type": type_, "format": format, "description": description, "priority": priority})
}

/// A found value as a column of `type_` shows it; null where it does not fit.
fn typed(found: &Value, type_: &str, now: Timestamp) -> Value {
    match (type_, found) {
        (_, Value::Null) => Value::Null,
        ("date", found) => translate_timestamp(found, now).into(),
        ("integer", Value::Number(number)) => match number.as_f64() {
            // Cells are whole; what a float drops here is not shown by kubectl either.
            Some(float) if number.is_f64() => Value::from(float.trunc()),
            _ => found.clone(),
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => found.clone(),
        ("string", Value::String(_)) => found.clone(),
        ("string", found) => found.to_string().into(),
        _ => Value::Null,
    }
}

fn row(columns: &[Column<'_>], object: &Value, now: Timestamp, include: IncludeObject) -> Value {
    let cells: Vec<Value> = columns.iter().map(|column| column.cell(object, now)).collect();
    let included = match include {
        IncludeObject::None => return json!({ "cells": cells }),
        IncludeObject::Object => object.clone(),
        IncludeObject::Metadata => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": object.get("metadata").cloned().unwrap_or_default(),
        }),
    };
    json!({"cells": cells, "object": included})
}
