//! Unit tests of the registry.
#![allow(clippy::unwrap_used)]

use super::keys::{self, Place};
use super::meta;
use super::value::{Stored, tombstone};
use apimachinery::definition::GroupResource;
use apimachinery::selector::LabelSelector;
use bytes::Bytes;
use serde_json::{Value, json};
use store::Revision;

fn pods() -> super::Kind {
    let definitions = apimachinery::builtin::definitions();
    super::Kind::new(definitions.into_iter().find(|definition| definition.names.plural == "pods").unwrap())
}

#[test]
fn keys_are_read_back() {
    let deployments = GroupResource { group: "apps".into(), resource: "deployments".into() };
    let nodes = GroupResource { group: String::new(), resource: "nodes".into() };
    let key = keys::object(&deployments, "c", Some("ns"), "x:y");
    assert_eq!(key, "r/apps/deployments/c/ns/x:y");
    let place = Place { cluster: "c", namespace: Some("ns"), name: "x:y" };
    assert_eq!(Place::parse(&key, &keys::kind(&deployments)), Some(place));
    assert_eq!(Place::parse(&key, &keys::kind(&nodes)), None);
    let key = keys::object(&nodes, "c", None, "n1");
    assert_eq!(key, "r/core/nodes/c/_/n1");
    let place = Place { cluster: "c", namespace: None, name: "n1" };
    assert_eq!(Place::parse(&key, &keys::kind(&nodes)), Some(place));
}

#[test]
fn stored_objects_are_read_back() {
    for metadata in [
        json!({}),
        json!({"name": "x"}),
        json!({"name": "x", "annotations": {}}),
        json!({"name": "x", "annotations": {"a": "\"metadata\":{"}, "labels": {"app": "y"}}),
    ] {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "aaa": {"metadata": {"x": 1}},
            "spec": {"nodeName": "n1"},
        });
        let mut sent = object.clone();
        sent["metadata"]["resourceVersion"] = "1".into();
        let bytes = pods().encode(&sent).bytes();
        let stored = Stored::decode(&bytes).unwrap().object().unwrap();
        let mut expected = object.clone();
        expected["metadata"]["resourceVersion"] = "7".into();
        assert_eq!(stored.value(Revision(7), None).unwrap(), expected);
        expected["metadata"]["annotations"]["kcp.io/cluster"] = "c".into();
        let named = stored.value(Revision(7), Some("c")).unwrap();
        assert_eq!(named, expected);
        // The annotation is never stored.
        let again = pods().encode(&named);
        assert!(again.value(Revision(7), None).unwrap()["metadata"]["annotations"].get("kcp.io/cluster").is_none());
        assert_eq!((stored.field("spec.nodeName"), stored.field("status.podIP")), (Some("n1"), Some("")));
        assert_eq!((stored.field("spec.hostNetwork"), stored.field("other")), (Some("false"), None));
        let selected = LabelSelector::parse("app=y").unwrap().matches(&stored);
        assert_eq!(selected, object["metadata"]["labels"]["app"] == "y");
    }
}

#[test]
fn damaged_values_are_errors() {
    assert!(matches!(Stored::decode(&tombstone()).unwrap(), Stored::Tombstone));
    let good = pods().encode(&json!({"metadata": {"name": "x", "labels": {"a": "b"}}})).bytes();
    for length in 0..good.len() {
        // What is cut off is told or reads as something else, but never ends the process.
        let cut = Stored::decode(&good.slice(..length)).ok().and_then(Stored::object);
        let _ = cut.map(|object| (object.value(Revision(1), Some("c")), object.field("spec.nodeName").map(str::len)));
    }
    for bytes in [&b""[..], &b"\x02"[..], &b"\x01\xff\xff\xff\xff\xff\xff\xff\xff"[..], &b"\x01\0\0\0\0\0\0\0\x05"[..]]
    {
        assert_eq!(Stored::decode(&Bytes::copy_from_slice(bytes)).unwrap_err().code, 500, "{bytes:?}");
    }
}

#[test]
fn generated_names_fit() {
    assert!(meta::generate_name("x-").starts_with("x-"));
    assert_eq!(meta::generate_name(&"a".repeat(100)).len(), 63);
    assert_eq!(meta::generate_name(&"é".repeat(100)).len(), 63);
}

#[test]
fn absent_metadata_is_made() {
    let mut object = Value::Null;
    meta::of(&mut object).insert("name".into(), "x".into());
    assert_eq!(object, json!({"metadata": {"name": "x"}}));
}
