//! Two clusters with the same names, and reads of every cluster.

use crate::support::*;
use serde_json::{Value, json};

#[tokio::test]
async fn same_names_in_two_clusters() {
    let h = Harness::new().await;
    let mut watch = h.watch("a", &format!("{MAPS}?labelSelector=app")).await;
    let a = h.call("a", &format!("create {MAPS}"), labelled("x", "a")).await.expect(201);
    let b = h.call("b", &format!("create {MAPS}"), labelled("x", "b")).await.expect(201);
    assert_ne!(a["metadata"]["uid"], b["metadata"]["uid"]);
    let read = h.call("b", &format!("get {MAPS}/x"), Value::Null).await.expect(200);
    assert_eq!(read["metadata"]["labels"]["app"], "b");
    h.call("b", &format!("delete {MAPS}/x"), Value::Null).await.expect(200);
    h.call("a", &format!("get {MAPS}/x"), Value::Null).await.expect(200);
    h.call("b", &format!("deletecollection {MAPS}"), Value::Null).await.expect(200);
    let list = h.call("a", &format!("list {MAPS}?labelSelector=app"), Value::Null).await.expect(200);
    assert_eq!(names(&list), ["x"]);
    h.call("a", &format!("delete {MAPS}/x"), Value::Null).await.expect(200);
    // The watch of one cluster saw nothing of the other.
    assert_eq!(watch.line().await, "ADDED x");
    let event = watch.next().await.unwrap();
    assert_eq!(
        (event["type"].as_str(), event["object"]["metadata"]["labels"]["app"].as_str()),
        (Some("DELETED"), Some("a"))
    );
}

#[tokio::test]
async fn every_cluster_at_once() {
    let h = Harness::new().await;
    let mut watch = h.watch("*", "/api/v1/configmaps").await;
    let mut annotated = labelled("y", "b");
    annotated["metadata"]["annotations"] = json!({"x": "y"});
    h.call("a", &format!("create {MAPS}"), labelled("x", "a")).await.expect(201);
    h.call("b", &format!("create {MAPS}"), annotated).await.expect(201);
    let list = h.call("*", "list /api/v1/configmaps", Value::Null).await.expect(200);
    // Stored objects only: those of the base layer are not.
    assert_eq!(names(&list), ["x", "y"]);
    let annotations = |object: &Value| object["metadata"]["annotations"].clone();
    assert_eq!(annotations(&list["items"][0]), json!({"kcp.io/cluster": "a"}));
    assert_eq!(annotations(&list["items"][1]), json!({"kcp.io/cluster": "b", "x": "y"}));
    for expected in ["a", "b"] {
        let event = watch.next().await.unwrap();
        assert_eq!(event["object"]["metadata"]["annotations"]["kcp.io/cluster"], expected);
    }
    // Written back by a controller, the annotation is not stored.
    let mut back = list["items"][0].clone();
    back["data"]["k"] = "2".into();
    let stored = h.call("a", &format!("update {MAPS}/x"), back).await.expect(200);
    assert!(annotations(&stored).get("kcp.io/cluster").is_none(), "{stored}");
    let read = h.call("a", &format!("get {MAPS}/x"), Value::Null).await.expect(200);
    assert!(read["metadata"].get("annotations").is_none());
    let part = h.call("*", "list /api/v1/configmaps?limit=1", Value::Null).await.expect(200);
    let token = part["metadata"]["continue"].as_str().unwrap();
    let rest = h.call("*", &format!("list /api/v1/configmaps?limit=1&continue={token}"), Value::Null).await.expect(200);
    assert_eq!(names(&rest), ["y"]);
    let filtered = h.call("*", "list /api/v1/configmaps?labelSelector=app=b", Value::Null).await.expect(200);
    assert_eq!(names(&filtered), ["y"]);
    for line in [format!("create {MAPS}"), format!("get {MAPS}/x"), format!("delete {MAPS}/x")] {
        h.call("*", &line, config_map("x")).await.refused(405, "MethodNotAllowed");
    }
}

#[tokio::test]
async fn products_kinds_are_for_workspaces() {
    let h = Harness::new().await;
    h.call("root", "list /apis/socialweb.computer/v1alpha1/clusters", Value::Null).await.expect(200);
    h.call("a", "list /apis/socialweb.computer/v1alpha1/clusters", Value::Null).await.refused(404, "NotFound");
    h.call("nowhere", &format!("list {MAPS}"), Value::Null).await.refused(404, "NotFound");
    h.call("no/where", &format!("list {MAPS}"), Value::Null).await.refused(404, "NotFound");
}
