//! Building blocks of the printer columns.

use super::value::{entries, list, text};
use crate::definition::{Cell, PrinterColumn};
use crate::table::{human_duration, translate_timestamp};
use jiff::Timestamp;
use serde_json::Value;

/// What stands for an empty cell.
pub(super) const NONE: &str = "<none>";
/// What stands for what cannot be known.
pub(super) const UNKNOWN: &str = "<unknown>";

/// Computes a cell from an object and now.
pub(super) type CellFn = fn(&Value, Timestamp) -> Value;

/// A column of strings.
pub(super) fn string(name: &str, description: &str, cell: CellFn) -> PrinterColumn {
    column(name, "string", description, cell)
}

/// A column of numbers.
pub(super) fn number(name: &str, description: &str, cell: CellFn) -> PrinterColumn {
    column(name, "integer", description, cell)
}

fn column(name: &str, type_: &str, description: &str, cell: CellFn) -> PrinterColumn {
    PrinterColumn {
        name: name.into(),
        type_: type_.into(),
        format: String::new(),
        description: description.into(),
        priority: 0,
        cell: Cell::Function(cell),
    }
}

/// The column only shows in wide output.
pub(super) fn wide(mut column: PrinterColumn) -> PrinterColumn {
    column.priority = 1;
    column
}

/// `Name`.
pub(super) fn name() -> PrinterColumn {
    let description = "Name must be unique within a namespace.";
    let mut column = string("Name", description, |object, _| text(&object["metadata"], "name").into());
    column.format = "name".into();
    column
}

/// `Age`.
pub(super) fn age() -> PrinterColumn {
    string("Age", "Time since the object was created.", |object, now| {
        translate_timestamp(&object["metadata"]["creationTimestamp"], now).into()
    })
}

/// `Containers`, `Images` and `Selector` of a workload, in wide output.
pub(super) fn workload() -> [PrinterColumn; 3] {
    [
        wide(string("Containers", "Names of each container in the template.", |o, _| containers(o, "name"))),
        wide(string("Images", "Images referenced by each container in the template.", |o, _| containers(o, "image"))),
        wide(string("Selector", "Label selector of the Pods.", |o, _| selector(&o["spec"]["selector"]).into())),
    ]
}

fn containers(workload: &Value, field: &str) -> Value {
    let containers = list(&workload["spec"]["template"]["spec"], "containers");
    containers.iter().map(|container| text(container, field)).collect::<Vec<_>>().join(",").into()
}

/// A `LabelSelector` as text.
pub(super) fn selector(selector: &Value) -> String {
    if selector.is_null() {
        return NONE.into();
    }
    let mut parts = label_parts(selector, "matchLabels");
    for expression in list(selector, "matchExpressions") {
        let key = text(expression, "key");
        let values: Vec<_> = list(expression, "values").iter().filter_map(Value::as_str).collect();
        parts.push(match text(expression, "operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    joined(&parts)
}

/// A map of labels as text.
pub(super) fn labels(object: &Value, field: &str) -> String {
    joined(&label_parts(object, field))
}

fn label_parts(object: &Value, field: &str) -> Vec<String> {
    entries(object, field).map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect()
}

/// A list as text; `<none>` for an empty one.
pub(super) fn joined<S: AsRef<str>>(parts: &[S]) -> String {
    if parts.is_empty() {
        return NONE.into();
    }
    parts.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(",")
}

/// A string, or `<none>`.
pub(super) fn or_none(text: &str) -> Value {
    if text.is_empty() { NONE.into() } else { text.into() }
}

/// A count; zero when absent.
pub(super) fn count(object: &Value, field: &str) -> Value {
    object.get(field).and_then(Value::as_i64).unwrap_or(0).into()
}

/// The time from one timestamp to another, as a duration for people.
pub(super) fn between(from: &Value, to: Timestamp) -> Option<String> {
    let from: Timestamp = from.as_str()?.parse().ok()?;
    let duration = std::time::Duration::try_from(to.duration_since(from)).unwrap_or_default();
    Some(human_duration(duration))
}
