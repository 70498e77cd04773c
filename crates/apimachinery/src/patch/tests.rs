//! Tests of `patch`.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::schema::{PatchStrategy, Schema};
use proptest::prelude::*;
use std::sync::Arc;

fn object(fields: Vec<(&str, Schema)>) -> Schema {
    let properties = fields.into_iter().map(|(name, schema)| (name.to_owned(), Arc::new(schema))).collect();
    Schema { type_: "object".into(), properties, ..Schema::default() }
}

fn merging(items: Schema, key: Option<&str>) -> Schema {
    Schema {
        type_: "array".into(),
        items: Some(Arc::new(items)),
        patch_strategy: PatchStrategy { merge: true, retain_keys: false },
        patch_merge_key: key.map(str::to_owned),
        ..Schema::default()
    }
}

fn pod() -> Schema {
    let text = || Schema { type_: "string".into(), ..Schema::default() };
    let env = merging(object(vec![("name", text()), ("value", text())]), Some("name"));
    let container = object(vec![("name", text()), ("image", text()), ("env", env)]);
    object(vec![
        ("containers", merging(container, Some("name"))),
        ("finalizers", merging(text(), None)),
        ("args", Schema { type_: "array".into(), items: Some(Arc::new(text())), ..Schema::default() }),
        ("strategy", object(vec![("type", text())])),
    ])
}

fn merged(doc: Value, patch: Value) -> Value {
    strategic_merge(&doc, &patch, &pod()).unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

fn cause(error: &ApiError) -> &str {
    error.details.as_ref().unwrap()["causes"][0]["message"].as_str().unwrap()
}

#[test]
fn merges_lists_by_key_at_every_level() {
    let doc = json!({"containers": [{"name": "a", "image": "1", "env": [{"name": "x", "value": "1"}]}, {"name": "b"}], "args": ["1"], "kept": 1});
    let patch = json!({"containers": [{"name": "a", "image": "2", "env": [{"name": "y", "value": "2"}]}, {"name": "c", "image": null}], "args": ["2"]});
    let want = json!({
        "containers": [{"name": "a", "image": "2", "env": [{"name": "y", "value": "2"}, {"name": "x", "value": "1"}]}, {"name": "b"}, {"name": "c"}],
        "args": ["2"], "kept": 1
    });
    let got = merged(doc, patch);
    assert_eq!(got["containers"][0], want["containers"][0]);
    // What the patch names comes first, as upstream.
    assert_eq!(names(&got["containers"]), ["a", "c", "b"]);
    assert_eq!((&got["args"], &got["kept"]), (&want["args"], &want["kept"]));
}

#[test]
fn directives() {
    let doc = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "strategy": {"type": "RollingUpdate", "rollingUpdate": {"x": 1}}});
    let deleted = merged(doc.clone(), json!({"containers": [{"$patch": "delete", "name": "a"}]}));
    assert_eq!(names(&deleted["containers"]), ["b"]);
    let replaced = merged(doc.clone(), json!({"containers": [{"name": "z"}, {"$patch": "replace"}]}));
    assert_eq!(names(&replaced["containers"]), ["z"]);
    let replaced = merged(doc.clone(), json!({"strategy": {"$patch": "replace", "type": "Recreate"}}));
    assert_eq!(replaced["strategy"], json!({"type": "Recreate"}));
    let deleted = merged(doc.clone(), json!({"strategy": {"$patch": "delete"}}));
    assert_eq!(deleted["strategy"], json!({}));
    let explicit = merged(doc.clone(), json!({"strategy": {"$patch": "merge", "type": "X"}}));
    assert_eq!(explicit["strategy"], json!({"type": "X", "rollingUpdate": {"x": 1}}));
    let retained =
        merged(doc.clone(), json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": null}}));
    assert_eq!(retained["strategy"], json!({"type": "Recreate"}));
    let stray = json!({"strategy": {"$retainKeys": ["type"], "other": 1}});
    assert_eq!(strategic_merge(&doc, &stray, &pod()).unwrap_err().message, "invalid patch format of retainKeys");
    let unknown = strategic_merge(&doc, &json!({"strategy": {"$patch": "shred"}}), &pod()).unwrap_err();
    assert_eq!(unknown.code, 400);
    assert!(unknown.message.starts_with("unknown patch type found: shred"));
}

#[test]
fn sets_of_scalars() {
    let doc = json!({"finalizers": ["a", "b", "c"]});
    assert_eq!(merged(doc.clone(), json!({"finalizers": ["d", "a"]}))["finalizers"], json!(["d", "a", "b", "c"]));
    let deleted =
        merged(doc, json!({"$deleteFromPrimitiveList/finalizers": ["b"], "$setElementOrder/finalizers": ["c", "a"]}));
    assert_eq!(deleted["finalizers"], json!(["c", "a"]));
}

#[test]
fn element_order() {
    let doc = json!({"containers": [{"name": "a"}, {"name": "server"}, {"name": "b"}]});
    let patch = json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "n"}, {"name": "a"}], "containers": [{"name": "n", "image": "1"}]});
    let got = merged(doc.clone(), patch);
    assert_eq!(names(&got["containers"]), ["server", "b", "n", "a"]);
    let kept = merged(doc.clone(), json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}]}));
    assert_eq!(names(&kept["containers"]), ["a", "server", "b"]);
    let wrong = json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "n"}]});
    assert!(strategic_merge(&doc, &wrong, &pod()).unwrap_err().message.starts_with("The order in patch list"));
    assert_eq!(merged(json!({}), json!({"$setElementOrder/containers": [{"name": "a"}]})), json!({}));
}

#[test]
fn leaves_no_directive_behind() {
    let got = merged(
        json!({}),
        json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "b", "env": null}], "strategy": {"$retainKeys": ["type"], "type": "R"}, "args": ["1"]}),
    );
    assert_eq!(got, json!({"containers": [{"name": "b"}], "strategy": {"type": "R"}, "args": ["1"]}));
}

#[test]
fn items_need_their_key() {
    let error =
        strategic_merge(&json!({"containers": []}), &json!({"containers": [{"image": "1"}]}), &pod()).unwrap_err();
    assert_eq!(error.code, 422);
    assert!(cause(&error).ends_with("does not contain declared merge key: name"));
}

#[test]
fn merge_patch_follows_the_rfc() {
    let doc = json!({"a": "b", "c": {"d": "e", "f": "g"}, "l": [1]});
    assert_eq!(
        merge_patch(&doc, &json!({"a": "z", "c": {"f": null}, "n": {"x": null, "y": 1}, "l": [2]})).unwrap(),
        json!({"a": "z", "c": {"d": "e"}, "n": {"y": 1}, "l": [2]})
    );
    assert_eq!(merge_patch(&doc, &json!([])).unwrap_err().code, 400);
}

#[test]
fn json_patch_operations() {
    let doc = json!({"a": {"b": [1, 2]}, "c~/d": 1});
    let apply = |patch: Value| json_patch(&doc, patch.to_string().as_bytes());
    assert_eq!(apply(json!([{"op": "add", "path": "/a/b/-", "value": 3}])).unwrap()["a"]["b"], json!([1, 2, 3]));
    assert_eq!(apply(json!([{"op": "add", "path": "/a/b/0", "value": 0}])).unwrap()["a"]["b"], json!([0, 1, 2]));
    assert_eq!(apply(json!([{"op": "remove", "path": "/a/b/0"}])).unwrap()["a"]["b"], json!([2]));
    assert_eq!(apply(json!([{"op": "replace", "path": "/c~0~1d", "value": 2}])).unwrap()["c~/d"], 2);
    assert_eq!(
        apply(json!([{"op": "move", "from": "/a/b", "path": "/e"}])).unwrap(),
        json!({"a": {}, "c~/d": 1, "e": [1, 2]})
    );
    assert_eq!(apply(json!([{"op": "copy", "from": "/a/b", "path": "/e"}])).unwrap()["e"], json!([1, 2]));
    assert!(
        apply(json!([{"op": "test", "path": "/a/b/0", "value": 1.0}, {"op": "test", "path": "/none", "value": null}]))
            .is_ok()
    );
    for (bad, words) in [
        (json!([{"op": "test", "path": "/a/b/0", "value": 2}]), "testing value /a/b/0 failed: test failed"),
        (
            json!([{"op": "remove", "path": "/x"}]),
            "remove operation does not apply: unable to remove nonexistent key: x: missing value",
        ),
        (
            json!([{"op": "replace", "path": "/x", "value": 1}]),
            "replace operation does not apply: doc is missing key: /x: missing value",
        ),
        (
            json!([{"op": "add", "path": "/x/y", "value": 1}]),
            "add operation does not apply: doc is missing path: \"/x/y\": missing value",
        ),
        (
            json!([{"op": "add", "path": "/a/b/7", "value": 1}]),
            "add operation does not apply: unable to access invalid index: 7: invalid index referenced",
        ),
        (json!([{"op": "add", "path": "/x"}]), "add operation missing value field: missing value"),
        (
            json!([{"op": "move", "from": "/a", "path": "/a/b/c"}]),
            "move operation does not apply: \"/a/b/c\" is inside \"/a\"",
        ),
        (json!([{"op": "eat", "path": "/x"}]), "Unexpected kind: eat"),
    ] {
        let error = apply(bad).unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (422, "the server rejected our request due to an error in our request")
        );
        assert_eq!(cause(&error), words);
    }
    assert_eq!(apply(json!({"op": "add"})).unwrap_err().code, 400);
    assert!(
        json_patch(&doc, b"[{").unwrap_err().message.starts_with("error decoding patch: unexpected end of JSON input")
    );
}

#[test]
fn json_patch_is_bounded() {
    let many = vec![json!({"op": "test", "path": "/x", "value": null}); 10_001];
    let error = json_patch(&json!({}), Value::Array(many).to_string().as_bytes()).unwrap_err();
    assert_eq!((error.code, error.reason.as_str()), (413, "RequestEntityTooLarge"));
    // Each copy nests the document once more and doubles it.
    let nest = vec![json!({"op": "copy", "from": "/a", "path": "/a/b"}); 5_000];
    assert!(json_patch(&json!({"a": {}}), Value::Array(nest).to_string().as_bytes()).is_err());
    let double = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 60];
    assert!(json_patch(&json!({"a": ["x"]}), Value::Array(double).to_string().as_bytes()).is_err());
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (0..4).prop_map(Value::from),
        "[ab]{1,2}".prop_map(Value::from)
    ];
    let key = prop_oneof![
        "[ab]",
        Just("containers".to_owned()),
        Just("env".into()),
        Just("name".into()),
        Just("finalizers".into()),
        Just("$patch".into()),
        Just("$setElementOrder/containers".into()),
        Just("$retainKeys".into())
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::btree_map(key.clone(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn strategic_merge_never_panics(doc in tree(), patch in tree()) {
        let _ = strategic_merge(&doc, &patch, &pod());
    }

    #[test]
    fn merge_patch_is_idempotent(doc in tree(), patch in tree()) {
        if let Ok(once) = merge_patch(&doc, &patch) {
            prop_assert_eq!(merge_patch(&once, &patch).unwrap(), once);
        }
    }

    #[test]
    fn strategic_merge_of_containers_is_idempotent_and_loses_none(old in proptest::collection::btree_set("[a-e]", 0..5), new in proptest::collection::btree_set("[a-g]", 0..5)) {
        let list = |names: &std::collections::BTreeSet<String>| json!({"containers": names.iter().map(|n| json!({"name": n})).collect::<Vec<_>>()});
        let once = merged(list(&old), list(&new));
        let mut have: Vec<&str> = names(&once["containers"]);
        prop_assert_eq!(&merged(once.clone(), list(&new)), &once);
        have.sort_unstable();
        prop_assert_eq!(have, old.union(&new).map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn json_patch_never_panics(doc in tree(), op in "(add|remove|replace|move|copy|test)", from in "(/[ab0-2-]){0,3}", path in "(/[ab0-2-]){0,3}", value in tree()) {
        let _ = json_patch(&doc, json!([{"op": op, "from": from, "path": path, "value": value}]).to_string().as_bytes());
    }

    #[test]
    fn json_patch_adds_what_it_then_finds(doc in tree(), path in "(/[ab]){1,2}", value in tree()) {
        let add = json!([{"op": "add", "path": path, "value": value}]).to_string();
        if let Ok(added) = json_patch(&doc, add.as_bytes()) {
            let test = json!([{"op": "test", "path": path, "value": value}]).to_string();
            prop_assert_eq!(json_patch(&added, test.as_bytes()).unwrap(), added);
        }
    }
}
