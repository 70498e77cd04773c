//! Binding, grace and eviction of Pods.

use crate::support::*;
use serde_json::{Value, json};

async fn bound(h: &Harness, name: &str) -> Value {
    h.call("a", &format!("create {PODS}"), pod(name)).await.expect(201);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": {"x": "y"}},
        "target": {"kind": "Node", "name": "n1"},
    });
    let status = h.call("a", &format!("create {PODS}/{name}/binding"), binding).await.expect(201);
    assert_eq!(status["status"], "Success");
    h.call("a", &format!("get {PODS}/{name}"), Value::Null).await.expect(200)
}

#[tokio::test]
async fn binding() {
    let h = Harness::new().await;
    let pod = bound(&h, "x").await;
    assert_eq!(
        (pod["spec"]["nodeName"].as_str(), pod["metadata"]["annotations"]["x"].as_str()),
        (Some("n1"), Some("y"))
    );
    let condition = &pod["status"]["conditions"][0];
    assert_eq!((condition["type"].as_str(), condition["status"].as_str()), (Some("PodScheduled"), Some("True")));
    let again = json!({"target": {"kind": "Node", "name": "n2"}});
    let again = h.call("a", &format!("create {PODS}/x/binding"), again).await;
    assert_eq!(
        again.refused(409, "Conflict"),
        "Operation cannot be fulfilled on pods/binding \"x\": pod x is already assigned to node \"n1\""
    );
    let nowhere = h.call("a", &format!("create {PODS}/x/binding"), json!({"target": {}})).await;
    nowhere.refused(400, "BadRequest");
    let none = json!({"target": {"name": "n1"}});
    h.call("a", &format!("create {PODS}/y/binding"), none).await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_pod_that_runs_has_grace() {
    let h = Harness::new().await;
    bound(&h, "x").await;
    let marked = h.call("a", &format!("delete {PODS}/x"), Value::Null).await.expect(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    let longer = h.call("a", &format!("delete {PODS}/x?gracePeriodSeconds=60"), Value::Null).await.expect(200);
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 30);
    let shorter = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 5});
    let shorter = h.call("a", &format!("delete {PODS}/x"), shorter).await.expect(200);
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    // The node's agent confirms the end.
    h.call("a", &format!("delete {PODS}/x?gracePeriodSeconds=0"), Value::Null).await.expect(200);
    h.call("a", &format!("get {PODS}/x"), Value::Null).await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_pod_that_does_not_run_goes_at_once() {
    let h = Harness::new().await;
    h.call("a", &format!("create {PODS}"), pod("pending")).await.expect(201);
    bound(&h, "done").await;
    let done = json!({"status": {"phase": "Succeeded"}});
    h.patch("a", &format!("{PODS}/done/status"), "strategic", done).await.expect(200);
    for name in ["pending", "done"] {
        h.call("a", &format!("delete {PODS}/{name}"), Value::Null).await.expect(200);
        h.call("a", &format!("get {PODS}/{name}"), Value::Null).await.refused(404, "NotFound");
    }
}

#[tokio::test]
async fn eviction() {
    let h = Harness::new().await;
    bound(&h, "x").await;
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"},
        "deleteOptions": {"gracePeriodSeconds": 3},
    });
    let status = h.call("a", &format!("create {PODS}/x/eviction"), eviction).await.expect(201);
    assert_eq!(status["status"], "Success");
    let marked = h.call("a", &format!("get {PODS}/x"), Value::Null).await.expect(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 3);
    h.call("a", &format!("create {PODS}/y/eviction"), json!({})).await.refused(404, "NotFound");
    h.call("a", &format!("get {PODS}/x/ephemeralcontainers"), Value::Null).await.refused(405, "MethodNotAllowed");
    h.call("a", &format!("get {PODS}/x/nonsense"), Value::Null).await.refused(404, "NotFound");
}
