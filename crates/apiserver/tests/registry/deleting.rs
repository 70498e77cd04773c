//! Delete and deletecollection.

use crate::support::*;
use serde_json::{Value, json};

#[tokio::test]
async fn delete_answers_and_removes() {
    let h = Harness::new().await;
    let created = h.call("a", &format!("create {MAPS}"), config_map("x")).await.expect(201);
    let status = h.call("a", &format!("delete {MAPS}/x"), Value::Null).await.expect(200);
    assert_eq!(status["status"], "Success");
    assert_eq!(status["details"], json!({"name": "x", "kind": "configmaps", "uid": created["metadata"]["uid"]}));
    h.call("a", &format!("get {MAPS}/x"), Value::Null).await.refused(404, "NotFound");
    h.call("a", &format!("delete {MAPS}/x"), Value::Null).await.refused(404, "NotFound");
}

#[tokio::test]
async fn preconditions() {
    let h = Harness::new().await;
    let created = h.call("a", &format!("create {MAPS}"), config_map("x")).await.expect(201);
    let with =
        |preconditions: Value| json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions});
    let line = format!("delete {MAPS}/x");
    h.call("a", &line, with(json!({"uid": "another"}))).await.refused(409, "Conflict");
    h.call("a", &line, with(json!({"resourceVersion": "1"}))).await.refused(409, "Conflict");
    let right = json!({"uid": created["metadata"]["uid"], "resourceVersion": version(&created)});
    h.call("a", &line, with(right)).await.expect(200);
}

#[tokio::test]
async fn finalizers_hold_an_object() {
    let h = Harness::new().await;
    let mut map = config_map("x");
    map["metadata"]["finalizers"] = json!(["example.com/hold"]);
    h.call("a", &format!("create {MAPS}"), map).await.expect(201);
    let mut marked = h.call("a", &format!("delete {MAPS}/x"), Value::Null).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    // A second deletion changes nothing.
    let again = h.call("a", &format!("delete {MAPS}/x"), Value::Null).await.expect(200);
    assert_eq!(again, marked);
    marked["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/more"]);
    let message = h.call("a", &format!("update {MAPS}/x"), marked.clone()).await.refused(422, "Invalid");
    assert!(message.contains("no new finalizers can be added if the object is being deleted"), "{message}");
    // The deletion is not undone by leaving out its time.
    marked["metadata"]["finalizers"] = json!(["example.com/hold"]);
    marked["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    let kept = h.call("a", &format!("update {MAPS}/x"), marked).await.expect(200);
    assert!(kept["metadata"]["deletionTimestamp"].is_string());
    h.patch("a", &format!("{MAPS}/x"), "merge", json!({"metadata": {"finalizers": null}})).await.expect(200);
    h.call("a", &format!("get {MAPS}/x"), Value::Null).await.refused(404, "NotFound");
}

#[tokio::test]
async fn propagation() {
    let h = Harness::new().await;
    for (query, body, finalizer) in [
        ("?propagationPolicy=Foreground", Value::Null, Some("foregroundDeletion")),
        ("", json!({"propagationPolicy": "Orphan"}), Some("orphan")),
        ("", json!({"orphanDependents": true}), Some("orphan")),
        ("?propagationPolicy=Background", Value::Null, None),
        ("", Value::Null, None),
    ] {
        h.call("a", &format!("create {DEPLOYMENTS}"), deployment("web")).await.expect(201);
        let answer = h.call("a", &format!("delete {DEPLOYMENTS}/web{query}"), body.clone()).await.expect(200);
        match finalizer {
            Some(finalizer) => {
                assert_eq!(answer["metadata"]["finalizers"], json!([finalizer]), "{query} {body}");
                let free = json!({"metadata": {"finalizers": []}});
                h.patch("a", &format!("{DEPLOYMENTS}/web"), "merge", free).await.expect(200);
            }
            None => assert_eq!(answer["status"], "Success", "{query} {body}"),
        }
        h.call("a", &format!("get {DEPLOYMENTS}/web"), Value::Null).await.refused(404, "NotFound");
    }
    let bad = h.call("a", &format!("delete {MAPS}/x?propagationPolicy=Sideways"), Value::Null).await;
    bad.refused(422, "Invalid");
}

#[tokio::test]
async fn collections() {
    let h = Harness::new().await;
    for (name, app) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        h.call("a", &format!("create {MAPS}"), labelled(name, app)).await.expect(201);
    }
    let gone = h.call("a", &format!("deletecollection {MAPS}?labelSelector=app in (a)"), Value::Null).await.expect(200);
    assert_eq!((gone["kind"].as_str(), names(&gone)), (Some("ConfigMapList"), vec!["a1".into(), "a2".into()]));
    let left = h.call("a", &format!("list {MAPS}?labelSelector=app"), Value::Null).await.expect(200);
    assert_eq!(names(&left), ["b1"]);
    h.call("a", "deletecollection /api/v1/configmaps", Value::Null).await.refused(405, "MethodNotAllowed");
    h.call("a", "deletecollection /api/v1/namespaces", Value::Null).await.refused(405, "MethodNotAllowed");
}

#[tokio::test]
async fn namespaces_go_in_two_steps() {
    let h = Harness::new().await;
    let ns = "/api/v1/namespaces";
    let namespace = json!({"metadata": {"name": "team"}});
    let created = h.call("a", &format!("create {ns}"), namespace).await.expect(201);
    assert_eq!(created["spec"]["finalizers"], json!(["kubernetes"]));
    h.call("a", "create /api/v1/namespaces/team/configmaps", config_map("x")).await.expect(201);
    let marked = h.call("a", &format!("delete {ns}/team"), Value::Null).await.expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    let refused = h.call("a", "create /api/v1/namespaces/team/configmaps", config_map("y")).await;
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    assert_eq!(
        refused.refused(403, "Forbidden"),
        "configmaps \"y\" is forbidden: unable to create new content in namespace team because it is being terminated"
    );
    // An ordinary update does not release it.
    let mut update = marked.clone();
    update["spec"]["finalizers"] = json!([]);
    h.call("a", &format!("update {ns}/team"), update.clone()).await.expect(200);
    let kept = h.call("a", &format!("get {ns}/team"), Value::Null).await.expect(200);
    assert_eq!(kept["spec"]["finalizers"], json!(["kubernetes"]));
    update["metadata"]["resourceVersion"] = kept["metadata"]["resourceVersion"].clone();
    h.call("a", &format!("update {ns}/team/finalize"), update).await.expect(200);
    h.call("a", &format!("get {ns}/team"), Value::Null).await.refused(404, "NotFound");
    let none = h.call("a", "create /api/v1/namespaces/team/configmaps", config_map("y")).await;
    assert_eq!(none.refused(404, "NotFound"), "namespaces \"team\" not found");
    for name in ["default", "kube-system", "kube-public"] {
        h.call("a", &format!("delete {ns}/{name}"), Value::Null).await.refused(403, "Forbidden");
    }
}
