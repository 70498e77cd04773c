//! Tests of `table`.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::definition::{Audience, GroupVersionKind, Names, Rules, Scope, Subresources};
use crate::schema::Schema;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

fn definition(columns: Vec<PrinterColumn>) -> ResourceDefinition {
    ResourceDefinition {
        gvk: GroupVersionKind { group: "apps".into(), version: "v1".into(), kind: "Deployment".into() },
        names: Names {
            plural: "deployments".into(),
            singular: "deployment".into(),
            kind: "Deployment".into(),
            short_names: vec![],
            categories: vec![],
        },
        scope: Scope::Namespaced,
        verbs: vec![],
        schema: Arc::new(Schema::default()),
        columns,
        subresources: Subresources::default(),
        audience: Audience::Every,
        selectable_fields: vec![],
        rules: Rules::default(),
    }
}

fn column(name: &str, type_: &str, cell: Cell) -> PrinterColumn {
    PrinterColumn {
        name: name.into(),
        type_: type_.into(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        cell,
    }
}

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

#[test]
fn renders_rows() {
    let definition = definition(vec![
        column("Ready", "string", Cell::Path(".status.conditions[?(@.type==\"Ready\")].status".into())),
        column("Replicas", "integer", Cell::Path(".spec.replicas".into())),
        column(
            "Twice",
            "integer",
            Cell::Function(|object, _| (object["spec"]["replicas"].as_i64().unwrap_or(0) * 2).into()),
        ),
        column("Age", "date", Cell::Path(".metadata.creationTimestamp".into())),
        column("Mismatch", "integer", Cell::Path(".metadata.name".into())),
        column("Json", "string", Cell::Path(".spec".into())),
    ]);
    let object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"replicas": 3},
        "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}});
    let table = render(&definition, [&object], now(), IncludeObject::Metadata);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "True", 3, 6, "10m", null, "{\"replicas\":3}"]));
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["rows"][0]["object"]["metadata"]["name"], "a");
    let table = render(&definition, [&object], now(), IncludeObject::Object);
    assert_eq!(table["rows"][0]["object"], object);
    let table = render(&definition, [&object], now(), IncludeObject::None);
    assert!(table["rows"][0].get("object").is_none());
}

#[test]
fn a_kind_without_columns_shows_name_and_age() {
    let object = json!({"metadata": {"name": "a"}});
    let table = render(&definition(vec![]), [&object], now(), IncludeObject::None);
    assert_eq!(table["rows"][0]["cells"], json!(["a", null]));
    assert_eq!(table["columnDefinitions"][1]["name"], "Age");
}

#[test]
fn finds_by_path() {
    let value = json!({"a": {"b.c/d": 1, "l": [{"k": "x", "n": 1}, {"k": "y", "n": 2}]}});
    for (path, want) in [
        (".a['b.c/d']", json!([1])),
        (r".a.b\.c/d", json!([1])),
        ("{.a.l[0].k}", json!(["x"])),
        (".a.l[-1].k", json!(["y"])),
        (".a.l[*].n", json!([1, 2])),
        (".a.l[?(@.k=='y')].n", json!([2])),
        (".a.l[?(@.n >= 2)].k", json!(["y"])),
        (".a.l[?(@.k!=\"y\")].n", json!([1])),
        (".a.l[?(@.gone)].n", json!([])),
        (".a.l[?(@.k)].n", json!([1, 2])),
        (".none.x", json!([])),
        ("$.a.l[9]", json!([])),
    ] {
        let path = JsonPath::parse(path).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(json!(path.all(&value)), want, "{path:?}");
    }
    for bad in ["a.b", ".a[", ".a[x]", ".a[?(@.k==\"y)]", ".a[?(k)]", "..a", ".a[?(@.l[?(@.k)])]"] {
        assert!(JsonPath::parse(bad).is_err(), "{bad}");
    }
    assert_eq!(JsonPath::parse(".spec.replicas").unwrap().fields().unwrap(), ["spec", "replicas"]);
    assert_eq!(JsonPath::parse(".spec[0]").unwrap().fields(), None);
}

#[test]
fn prints_durations_as_kubectl_does() {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;
    for (seconds, want) in [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (10 * MINUTE, "10m"),
        (179 * MINUTE + 59, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (48 * HOUR, "2d"),
        (51 * HOUR, "2d3h"),
        (8 * DAY + HOUR, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (800 * DAY, "2y70d"),
        (8 * 365 * DAY + DAY, "8y"),
    ] {
        assert_eq!(human_duration(Duration::from_secs(seconds)), want, "{seconds}");
    }
    assert_eq!(translate_timestamp(&json!("2026-01-01T00:05:00Z"), now()), "5m");
    assert_eq!(translate_timestamp(&json!("2026-01-01T00:10:01Z"), now()), "0s");
    assert_eq!(translate_timestamp(&json!("2027-01-01T00:00:00Z"), now()), "<invalid>");
    assert_eq!(translate_timestamp(&Value::Null, now()), "<unknown>");
    assert_eq!(translate_timestamp(&json!("noon"), now()), "<unknown>");
}

proptest! {
    #[test]
    fn paths_never_panic(text in "[.a\\[\\]?@()='\"\\\\*0-9é -]{0,30}") {
        if let Ok(path) = JsonPath::parse(&text) {
            let _ = path.first(&json!({"a": [{"a": 1}]}));
        }
    }
}
