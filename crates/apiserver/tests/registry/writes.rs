//! Create, update, patch and the status and scale subresources.

use crate::support::*;
use serde_json::{Value, json};

#[tokio::test]
async fn create_sets_what_a_client_does_not_choose() {
    let h = Harness::new().await;
    let mut sent = deployment("web");
    sent["metadata"]["uid"] = "mine".into();
    sent["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    sent["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z".into();
    sent["metadata"]["generation"] = 7.into();
    sent["status"] = json!({"replicas": 9});
    let created = h.call("a", &format!("create {DEPLOYMENTS}"), sent).await.expect(201);
    let meta = &created["metadata"];
    assert_eq!((meta["namespace"].as_str(), meta["generation"].as_i64()), (Some("default"), Some(1)));
    assert_ne!(meta["uid"], "mine");
    assert!(meta["creationTimestamp"].as_str().unwrap().ends_with('Z'));
    assert_ne!(meta["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert!(meta.get("deletionTimestamp").is_none());
    assert_ne!(created["status"]["replicas"], 9);
    assert_eq!(created["spec"]["strategy"]["type"], "RollingUpdate");
    let read = h.call("a", &format!("get {DEPLOYMENTS}/web"), Value::Null).await.expect(200);
    assert_eq!(read, created);
    let again = h.call("a", &format!("create {DEPLOYMENTS}"), deployment("web")).await;
    assert_eq!(again.refused(409, "AlreadyExists"), "deployments.apps \"web\" already exists");
}

#[tokio::test]
async fn names_are_generated() {
    let h = Harness::new().await;
    let map = json!({"metadata": {"generateName": "it-"}});
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let created = h.call("a", &format!("create {MAPS}"), map.clone()).await.expect(201);
        let name = created["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("it-") && name.len() == 8, "{name}");
        seen.insert(name);
    }
    assert_eq!(seen.len(), 20);
}

#[tokio::test]
async fn dry_runs_change_nothing() {
    let h = Harness::new().await;
    h.call("a", &format!("create {MAPS}"), config_map("kept")).await.expect(201);
    let before = h.disk_revision();
    h.call("a", &format!("create {MAPS}?dryRun=All"), config_map("x")).await.expect(201);
    let mut changed = config_map("kept");
    changed["data"]["k"] = "other".into();
    let answer = h.call("a", &format!("update {MAPS}/kept?dryRun=All"), changed).await.expect(200);
    assert_eq!(answer["data"]["k"], "other");
    h.patch("a", &format!("{MAPS}/kept?dryRun=All"), "merge", json!({"data": null})).await.expect(200);
    h.call("a", &format!("delete {MAPS}/kept?dryRun=All"), Value::Null).await.expect(200);
    let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]});
    h.call("a", &format!("delete {MAPS}/kept"), body).await.expect(200);
    assert_eq!(h.disk_revision(), before);
    h.call("a", &format!("create {MAPS}?dryRun=Some"), config_map("x")).await.refused(422, "Invalid");
}

#[tokio::test]
async fn field_validation() {
    let h = Harness::new().await;
    let body = br#"{"metadata":{"name":"x"},"data":{"k":"1","k":"2"},"nonsense":1}"#;
    for (mode, code, warnings) in [
        ("Strict", 400, vec![]),
        ("Warn", 201, vec!["299 - \"unknown field \\\"nonsense\\\"\"", "299 - \"duplicate field \\\"data.k\\\"\""]),
        ("Ignore", 201, vec![]),
        ("Other", 422, vec![]),
    ] {
        let line = format!("create {MAPS}?dryRun=All&fieldValidation={mode}");
        let answer = h.send("a", &line, &[], body.as_slice()).await;
        assert_eq!(
            (answer.code, answer.warnings.clone()),
            (code, warnings.iter().map(|w| (*w).to_owned()).collect()),
            "{mode} {}",
            answer.body
        );
        if code == 201 {
            assert!(answer.body.get("nonsense").is_none());
            assert_eq!(answer.body["data"]["k"], "2");
        }
        if mode == "Strict" {
            assert_eq!(
                answer.body["message"],
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \
                 \"nonsense\", duplicate field \"data.k\""
            );
        }
    }
}

#[tokio::test]
async fn updates_are_optimistic() {
    let h = Harness::new().await;
    let first = h.call("a", &format!("create {MAPS}"), config_map("x")).await.expect(201);
    let mut mine = first.clone();
    mine["data"]["k"] = "mine".into();
    let second = h.call("a", &format!("update {MAPS}/x"), mine.clone()).await.expect(200);
    assert_ne!(version(&second), version(&first));
    assert_eq!(
        h.call("a", &format!("update {MAPS}/x"), mine.clone()).await.refused(409, "Conflict"),
        "Operation cannot be fulfilled on configmaps \"x\": the object has been modified; please apply your changes to \
         the latest version and try again"
    );
    // Nothing changed, so nothing is written.
    let same = h.call("a", &format!("update {MAPS}/x"), second.clone()).await.expect(200);
    assert_eq!(same, second);
    // Without a resource version it is unconditional.
    mine["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    mine["data"]["k"] = "third".into();
    h.call("a", &format!("update {MAPS}/x"), mine.clone()).await.expect(200);
    mine["metadata"]["uid"] = "another".into();
    assert!(
        h.call("a", &format!("update {MAPS}/x"), mine.clone())
            .await
            .refused(409, "Conflict")
            .contains("Precondition failed: UID in precondition: another, UID in object meta: ")
    );
    let gone = h.call("a", &format!("update {MAPS}/y"), config_map("y")).await;
    assert_eq!(gone.refused(404, "NotFound"), "configmaps \"y\" not found");
    let other = h.call("a", &format!("update {MAPS}/x"), config_map("z")).await;
    assert_eq!(other.refused(400, "BadRequest"), "the name of the object (z) does not match the name on the URL (x)");
}

#[tokio::test]
async fn concurrent_updates_lose_nothing() {
    let h = std::sync::Arc::new(Harness::new().await);
    h.call("a", &format!("create {MAPS}"), config_map("x")).await.expect(201);
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let h = h.clone();
            tokio::spawn(async move {
                loop {
                    let answer =
                        h.patch("a", &format!("{MAPS}/x"), "merge", json!({"data": {format!("n{n}"): "1"}})).await;
                    if answer.code == 200 {
                        return;
                    }
                    answer.refused(409, "Conflict");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let read = h.call("a", &format!("get {MAPS}/x"), Value::Null).await.expect(200);
    assert_eq!(read["data"].as_object().unwrap().len(), 9);
}

#[tokio::test]
async fn generation_counts_changes_of_what_is_wanted() {
    let h = Harness::new().await;
    let generation = |object: &Value| object["metadata"]["generation"].as_i64().unwrap();
    let path = format!("{DEPLOYMENTS}/web");
    let created = h.call("a", &format!("create {DEPLOYMENTS}"), deployment("web")).await.expect(201);
    assert_eq!(generation(&created), 1);
    let labelled = h.patch("a", &path, "merge", json!({"metadata": {"labels": {"x": "y"}}})).await.expect(200);
    assert_eq!(generation(&labelled), 1);
    let scaled = h.patch("a", &path, "merge", json!({"spec": {"replicas": 3}})).await.expect(200);
    assert_eq!(generation(&scaled), 2);
    // The status is a subresource: neither path writes the other's part.
    let ignored = h.patch("a", &path, "merge", json!({"status": {"replicas": 3}})).await.expect(200);
    assert_ne!(ignored["status"]["replicas"], 3);
    let status = json!({"spec": {"replicas": 9}, "status": {"replicas": 3, "observedGeneration": 2}});
    let status = h.patch("a", &format!("{path}/status"), "merge", status).await.expect(200);
    assert_eq!((generation(&status), status["spec"]["replicas"].as_i64()), (2, Some(3)));
    assert_eq!(status["status"]["replicas"], 3);
    let mut put = status.clone();
    put["status"]["replicas"] = 2.into();
    let put = h.call("a", &format!("update {path}/status"), put).await.expect(200);
    assert_eq!(put["status"]["replicas"], 2);
    h.call("a", &format!("update {MAPS}/kube-root-ca.crt/status"), config_map("kube-root-ca.crt"))
        .await
        .refused(404, "NotFound");
}

#[tokio::test]
async fn patch_types() {
    let h = Harness::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    h.call("a", &format!("create {DEPLOYMENTS}"), deployment("web")).await.expect(201);
    let containers = |object: &Value| object["spec"]["template"]["spec"]["containers"].as_array().unwrap().len();
    let sidecar = json!({"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "e"}]}}}});
    let merged = h.patch("a", &path, "strategic", sidecar.clone()).await.expect(200);
    assert_eq!(containers(&merged), 2);
    let replaced = h.patch("a", &path, "merge", sidecar).await.expect(200);
    assert_eq!(containers(&replaced), 1);
    let json_patch = json!([
        {"op": "test", "path": "/spec/replicas", "value": 1},
        {"op": "replace", "path": "/spec/replicas", "value": 4},
    ]);
    let patched = h.patch("a", &path, "json", json_patch).await.expect(200);
    assert_eq!(patched["spec"]["replicas"], 4);
    let stale = json!({"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 5}});
    h.patch("a", &path, "merge", stale).await.refused(409, "Conflict");
    let renamed = json!({"metadata": {"name": "other"}});
    h.patch("a", &path, "merge", renamed).await.refused(400, "BadRequest");
    h.patch("a", &format!("{DEPLOYMENTS}/none"), "merge", json!({})).await.refused(404, "NotFound");
    let invalid = json!({"spec": {"replicas": -1}});
    h.patch("a", &path, "merge", invalid).await.refused(422, "Invalid");
}

#[tokio::test]
async fn scale() {
    let h = Harness::new().await;
    let path = format!("{DEPLOYMENTS}/web/scale");
    h.call("a", &format!("create {DEPLOYMENTS}"), deployment("web")).await.expect(201);
    let mut scale = h.call("a", &format!("get {path}"), Value::Null).await.expect(200);
    assert_eq!((scale["kind"].as_str(), scale["apiVersion"].as_str()), (Some("Scale"), Some("autoscaling/v1")));
    assert_eq!((scale["spec"]["replicas"].as_i64(), scale["status"]["selector"].as_str()), (Some(1), Some("app=x")));
    scale["spec"]["replicas"] = 5.into();
    let updated = h.call("a", &format!("update {path}"), scale.clone()).await.expect(200);
    assert_eq!(updated["spec"]["replicas"], 5);
    h.call("a", &format!("update {path}"), scale).await.refused(409, "Conflict");
    let patched = h.patch("a", &path, "merge", json!({"spec": {"replicas": 2}})).await.expect(200);
    assert_eq!(patched["spec"]["replicas"], 2);
    let read = h.call("a", &format!("get {DEPLOYMENTS}/web"), Value::Null).await.expect(200);
    assert_eq!((read["spec"]["replicas"].as_i64(), read["metadata"]["generation"].as_i64()), (Some(2), Some(3)));
    h.patch("a", &path, "merge", json!({"spec": {"replicas": -1}})).await.refused(422, "Invalid");
    h.call("a", &format!("get {MAPS}/kube-root-ca.crt/scale"), Value::Null).await.refused(404, "NotFound");
}

impl Harness {
    fn disk_revision(&self) -> u64 {
        use store::Store as _;
        self.disk.revision().0
    }
}
