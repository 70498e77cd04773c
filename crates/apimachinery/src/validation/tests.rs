//! Tests of `validation`.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::status::ApiError;
use serde_json::{Value, json};

#[test]
fn names() {
    for (rule, good, bad) in [
        (
            dns1123_subdomain as NameRule,
            vec!["a", "a-b.c", "1.2"],
            vec!["", "A", "a_b", ".a", "a.", "a..b", "-a", "a-", "é"],
        ),
        (dns1123_label, vec!["a", "1", "a-b"], vec!["", "a.b", "A", "-", "a-"]),
        (dns1035_label, vec!["a", "a-1"], vec!["", "1a", "a.b"]),
        (path_segment, vec!["system:node", "A b", ""], vec![".", "..", "a/b", "a%b"]),
        (qualified_name, vec!["a", "A_b.c-1", "example.com/A"], vec!["", "/a", "a/", "a/b/c", "_a", "A.com/b", "a b"]),
        (label_value, vec!["", "a", "A_b.c-1"], vec!["-", "a/b", "a b", "_"]),
    ] {
        for name in good {
            assert_eq!(rule(name), Vec::<String>::new(), "{name:?}");
        }
        for name in bad {
            assert!(!rule(name).is_empty(), "{name:?}");
        }
        if rule("a/b") != path_segment("a/b") {
            assert!(!rule(&"a".repeat(254)).is_empty());
        }
    }
    assert_eq!(dns1123_label(&"a".repeat(64)), ["must be no more than 63 bytes"]);
}

#[test]
fn tells_a_bad_name_as_upstream_does() {
    let errors = validate_object_meta(&json!({"name": "Bad_Name", "namespace": "default"}), true, dns1123_subdomain);
    let error = ApiError::invalid("", "ConfigMap", "Bad_Name", &errors);
    assert_eq!(
        error.message,
        "ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain \
         must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric \
         character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    );
}

#[test]
fn checks_metadata() {
    let said = |meta: Value, namespaced| -> Vec<String> {
        validate_object_meta(&meta, namespaced, dns1123_subdomain).iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        said(
            json!({"name": "a", "generateName": "a-", "labels": {"x": "y"}, "annotations": {"Example.com/X": "any thing"}}),
            false
        ),
        Vec::<String>::new()
    );
    assert_eq!(
        said(json!({}), true),
        ["metadata.name: Required value: name or generateName is required", "metadata.namespace: Required value"]
    );
    assert_eq!(
        said(json!({"name": "a", "namespace": "b"}), false),
        ["metadata.namespace: Forbidden: not allowed on this type"]
    );
    assert!(
        said(json!({"name": "a", "labels": {"x": "a b"}}), false)[0]
            .starts_with("metadata.labels: Invalid value: \"a b\": a valid label must be")
    );
    assert!(
        said(json!({"name": "a", "generateName": "A-"}), false)[0]
            .starts_with("metadata.generateName: Invalid value: \"A-\"")
    );
    let big = "x".repeat(256 * 1024);
    assert_eq!(
        said(json!({"name": "a", "annotations": {"k": big}}), false),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
    let owner = |name: &str| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "1", "controller": true});
    assert_eq!(said(json!({"name": "a", "ownerReferences": [owner("x")]}), false), Vec::<String>::new());
    assert_eq!(said(json!({"name": "a", "ownerReferences": [owner("x"), owner("y")]}), false).len(), 1);
    assert_eq!(
        said(json!({"name": "a", "ownerReferences": [owner("")]}), false),
        ["metadata.ownerReferences[0].name: Invalid value: \"\": must not be empty"]
    );
    assert_eq!(said(json!({"name": "a", "finalizers": ["a b"]}), false).len(), 1);
}
