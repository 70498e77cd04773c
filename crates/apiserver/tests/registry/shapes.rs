//! Tables, metadata only, and YAML.

use crate::support::*;
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[tokio::test]
async fn tables() {
    let h = Harness::new().await;
    h.call("a", &format!("create {PODS}"), pod("x")).await.expect(201);
    let accept = [("accept", TABLE)];
    let table = h.send("a", &format!("list {PODS}"), &accept, "").await.expect(200);
    assert_eq!((table["kind"].as_str(), table["columnDefinitions"][0]["name"].as_str()), (Some("Table"), Some("Name")));
    assert_eq!(table["rows"][0]["cells"][0], "x");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert!(version(&table).parse::<u64>().unwrap() > 0);
    let one = h.send("a", &format!("get {PODS}/x?includeObject=Object"), &accept, "").await.expect(200);
    assert_eq!(one["rows"][0]["object"]["kind"], "Pod");
    let mut watch = h.watch_as("a", PODS, TABLE).await;
    let first = watch.next().await.unwrap();
    assert_eq!((first["type"].as_str(), first["object"]["kind"].as_str()), (Some("ADDED"), Some("Table")));
    assert!(first["object"]["columnDefinitions"].is_array());
    h.call("a", &format!("delete {PODS}/x"), Value::Null).await.expect(200);
    let second = watch.next().await.unwrap();
    assert_eq!((second["type"].as_str(), &second["object"]["columnDefinitions"]), (Some("DELETED"), &Value::Null));
    h.send("a", &format!("list {PODS}?includeObject=Some"), &accept, "").await.refused(400, "BadRequest");
}

#[tokio::test]
async fn metadata_only() {
    let h = Harness::new().await;
    h.call("a", &format!("create {PODS}"), pod("x")).await.expect(201);
    let list = [("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")];
    let partial = h.send("a", &format!("list {PODS}"), &list, "").await.expect(200);
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert_eq!(names(&partial), ["x"]);
    assert!(partial["items"][0].get("spec").is_none());
    let one = [("accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")];
    let partial = h.send("a", &format!("get {PODS}/x"), &one, "").await.expect(200);
    assert_eq!((partial["kind"].as_str(), partial.get("spec")), (Some("PartialObjectMetadata"), None));
    let mut watch = h.watch_as("*", "/api/v1/pods", one[0].1).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["object"]["metadata"]["annotations"]["kcp.io/cluster"], "a");
    assert_eq!(event["object"].get("spec"), None);
}

#[tokio::test]
async fn yaml_in_and_out() {
    let h = Harness::new().await;
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  k: v\n";
    let headers = [("content-type", "application/yaml"), ("accept", "application/yaml")];
    let created = h.send("a", &format!("create {MAPS}"), &headers, body).await.expect(201);
    assert_eq!(created["data"], json!({"k": "v"}));
    let protobuf = "application/vnd.kubernetes.protobuf";
    let answer = h.send("a", &format!("get {MAPS}/x"), &[("accept", protobuf)], "").await;
    answer.refused(406, "NotAcceptable");
    let fallback = format!("{protobuf},application/json");
    h.send("a", &format!("get {MAPS}/x"), &[("accept", fallback.as_str())], "").await.expect(200);
}
