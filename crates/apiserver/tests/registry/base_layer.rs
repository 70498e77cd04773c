//! What every cluster has without storing it.

use crate::support::*;
use serde_json::{Value, json};
use store::Store as _;

const NAMESPACES: &str = "/api/v1/namespaces";

#[tokio::test]
async fn it_is_read_and_costs_nothing() {
    let h = Harness::new().await;
    let before = h.disk.revision();
    let list = h.call("a", &format!("list {NAMESPACES}"), Value::Null).await.expect(200);
    assert_eq!(names(&list), ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let a = h.call("a", &format!("get {NAMESPACES}/default"), Value::Null).await.expect(200);
    assert_eq!(a, list["items"][0]);
    let again = h.call("a", &format!("get {NAMESPACES}/default"), Value::Null).await.expect(200);
    assert_eq!(a, again);
    let b = h.call("b", &format!("get {NAMESPACES}/default"), Value::Null).await.expect(200);
    assert_ne!(a["metadata"]["uid"], b["metadata"]["uid"]);
    assert!(a["metadata"]["creationTimestamp"].is_string());
    assert!(version(&a).parse::<u64>().unwrap() > 0);
    let admin = "get /apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin";
    h.call("a", admin, Value::Null).await.expect(200);
    let dns = h.call("a", "get /api/v1/namespaces/kube-system/services/kube-dns", Value::Null).await.expect(200);
    assert_eq!(dns["spec"]["clusterIP"], "10.96.0.10");
    assert_eq!(h.disk.revision(), before);
}

#[tokio::test]
async fn the_first_change_stores_an_override() {
    let h = Harness::new().await;
    let mut watch = h.watch("a", &format!("{MAPS}?resourceVersion={}", h.disk.revision())).await;
    let mut every = h.watch("*", "/api/v1/configmaps").await;
    let path = format!("{MAPS}/kube-root-ca.crt");
    let base = h.call("a", &format!("get {path}"), Value::Null).await.expect(200);
    let changed = h.patch("a", &path, "merge", json!({"data": {"more": "x"}})).await.expect(200);
    assert_eq!(changed["metadata"]["uid"], base["metadata"]["uid"]);
    assert_eq!(changed["metadata"]["creationTimestamp"], base["metadata"]["creationTimestamp"]);
    assert_ne!(version(&changed), version(&base));
    assert_eq!(watch.line().await, "MODIFIED kube-root-ca.crt");
    assert_eq!(every.line().await, "ADDED kube-root-ca.crt");
    let list = h.call("a", &format!("list {MAPS}"), Value::Null).await.expect(200);
    assert_eq!(list["items"], json!([changed]));
    let other = h.call("b", &format!("get {path}"), Value::Null).await.expect(200);
    assert!(other["data"].get("more").is_none());
    // A stale write to a base object is refused as any other.
    h.call("a", &format!("update {path}"), base).await.refused(409, "Conflict");
}

#[tokio::test]
async fn the_first_deletion_leaves_a_tombstone() {
    let h = Harness::new().await;
    let path = format!("{MAPS}/kube-root-ca.crt");
    let mut watch = h.watch("a", &format!("{MAPS}?resourceVersion={}", h.disk.revision())).await;
    h.call("a", &format!("create {MAPS}"), config_map("kube-root-ca.crt")).await.refused(409, "AlreadyExists");
    h.call("a", &format!("delete {path}"), Value::Null).await.expect(200);
    h.call("a", &format!("get {path}"), Value::Null).await.refused(404, "NotFound");
    h.call("a", &format!("delete {path}"), Value::Null).await.refused(404, "NotFound");
    let list = h.call("a", &format!("list {MAPS}"), Value::Null).await.expect(200);
    assert_eq!(names(&list), Vec::<String>::new());
    h.call("b", &format!("get {path}"), Value::Null).await.expect(200);
    h.call("a", &format!("create {MAPS}"), config_map("kube-root-ca.crt")).await.expect(201);
    h.call("a", &format!("delete {path}"), Value::Null).await.expect(200);
    h.call("a", &format!("get {path}"), Value::Null).await.refused(404, "NotFound");
    for line in ["DELETED kube-root-ca.crt", "ADDED kube-root-ca.crt", "DELETED kube-root-ca.crt"] {
        assert_eq!(watch.line().await, line);
    }
    let every = h.call("*", "list /api/v1/configmaps", Value::Null).await.expect(200);
    assert_eq!(names(&every), Vec::<String>::new());
}

#[tokio::test]
async fn a_namespace_of_the_base_layer_can_go() {
    let h = Harness::new().await;
    let path = format!("{NAMESPACES}/kube-node-lease");
    let mut marked = h.call("a", &format!("delete {path}"), Value::Null).await.expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    marked["spec"]["finalizers"] = json!([]);
    h.call("a", &format!("update {path}/finalize"), marked).await.expect(200);
    h.call("a", &format!("get {path}"), Value::Null).await.refused(404, "NotFound");
}
