//! What is wrong is told, and harms nothing.

use crate::support::*;
use serde_json::{Value, json};
use store::Store as _;

#[tokio::test]
async fn malformed_bodies() {
    let h = Harness::new().await;
    let before = h.disk.revision();
    let json_type = "application/json";
    let deep = format!("{{\"metadata\":{}1{}}}", "[".repeat(400), "]".repeat(400));
    let deep_yaml = format!("metadata: {}1{}", "[".repeat(400), "]".repeat(400));
    for (media_type, body, code, reason, message) in [
        (json_type, "", 400, "BadRequest", "(must be of type ConfigMap): couldn't get version/kind; json parse error"),
        (json_type, "{", 400, "BadRequest", "unexpected end of JSON input"),
        (json_type, "{]", 400, "BadRequest", "invalid character ']'"),
        (json_type, "[]", 400, "BadRequest", "unrecognized"),
        (json_type, "null", 400, "BadRequest", "unrecognized"),
        (json_type, "\"x\"", 400, "BadRequest", "unrecognized"),
        (json_type, "{} {}", 400, "BadRequest", "after top-level value"),
        (json_type, "{\"metadata\":[]}", 400, "BadRequest", ""),
        (json_type, "{\"metadata\":{\"name\":1}}", 400, "BadRequest", "cannot unmarshal number into Go struct field"),
        (json_type, "{\"data\":{\"k\":{}}}", 400, "BadRequest", "cannot unmarshal object into Go struct field"),
        (json_type, "{\"metadata\":{\"labels\":{\"a b\":\"c\"},\"name\":\"x\"}}", 422, "Invalid", "metadata.labels"),
        (json_type, "{}", 422, "Invalid", "name or generateName is required"),
        (json_type, "{\"metadata\":{\"name\":\"A_\"}}", 422, "Invalid", "metadata.name"),
        (json_type, deep.as_str(), 400, "BadRequest", "exceeded max depth"),
        ("application/yaml", "a: [", 400, "BadRequest", "yaml"),
        ("application/yaml", "a: *x", 400, "BadRequest", "yaml"),
        ("application/yaml", deep_yaml.as_str(), 400, "BadRequest", "yaml"),
        ("application/x-www-form-urlencoded", "a=b", 415, "UnsupportedMediaType", "application/json"),
        ("application/vnd.kubernetes.protobuf", "k8s\0", 415, "UnsupportedMediaType", "application/json"),
    ] {
        let answer = h.send("a", &format!("create {MAPS}"), &[("content-type", media_type)], body.to_owned()).await;
        let said = answer.refused(code, reason);
        assert!(said.contains(message), "{body:.40}: {said}");
    }
    // A body that is no text at all.
    let binary = h.send("a", &format!("create {MAPS}"), &[], vec![0xff_u8, 0xfe, 0x00]).await;
    binary.refused(400, "BadRequest");
    assert_eq!(h.disk.revision(), before);
}

#[tokio::test]
async fn wrong_kinds_and_places() {
    let h = Harness::new().await;
    let mut elsewhere = config_map("x");
    elsewhere["metadata"]["namespace"] = "kube-system".into();
    let mut with_version = config_map("x");
    with_version["metadata"]["resourceVersion"] = "5".into();
    for (line, body, code, reason, message) in [
        (
            format!("create {MAPS}"),
            pod("x"),
            400,
            "BadRequest",
            "Pod in version \"v1\" cannot be handled as a ConfigMap",
        ),
        (
            format!("create {MAPS}"),
            deployment("x"),
            400,
            "BadRequest",
            "the API version in the data (apps/v1) does not match the expected API version (v1)",
        ),
        (
            format!("create {MAPS}"),
            elsewhere,
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (format!("create {MAPS}"), with_version, 400, "BadRequest", "resourceVersion should not be set"),
        (
            "create /api/v1/namespaces/none/configmaps".into(),
            config_map("x"),
            404,
            "NotFound",
            "namespaces \"none\" not found",
        ),
        ("create /api/v1/configmaps".into(), config_map("x"), 405, "MethodNotAllowed", ""),
        ("create /api/v1/namespaces/default/nodes".into(), json!({}), 404, "NotFound", ""),
        ("create /api/v1/namespaces/default/nonsense".into(), json!({}), 404, "NotFound", ""),
        ("create /apis/apps/v9/namespaces/default/deployments".into(), json!({}), 404, "NotFound", ""),
        (
            "update /api/v1/namespaces/default/configmaps/kube-root-ca.crt".into(),
            json!({}),
            400,
            "BadRequest",
            "name must be provided",
        ),
        (
            "create /api/v1/namespaces".into(),
            json!({"metadata": {"name": "x", "namespace": "y"}}),
            422,
            "Invalid",
            "metadata.namespace",
        ),
    ] {
        let said = h.call("a", &line, body).await.refused(code, reason);
        assert!(said.contains(message), "{line}: {said}");
    }
}

#[tokio::test]
async fn oversized_bodies() {
    let options = apiserver::registry::Options { max_body_bytes: 1000, ..options() };
    let h = Harness::with(options, store::memory::Options::default()).await;
    let mut big = config_map("x");
    big["data"]["k"] = "x".repeat(1000).into();
    for line in [format!("create {MAPS}"), format!("update {MAPS}/x")] {
        assert_eq!(
            h.call("a", &line, big.clone()).await.refused(413, "RequestEntityTooLarge"),
            "Request entity too large: limit is 1000"
        );
    }
    h.patch("a", &format!("{MAPS}/kube-root-ca.crt"), "merge", big).await.refused(413, "RequestEntityTooLarge");
}

#[tokio::test]
async fn bad_patches() {
    let h = Harness::new().await;
    h.call("a", &format!("create {MAPS}"), config_map("x")).await.expect(201);
    let before = h.disk.revision();
    for (media_type, body, code, reason) in [
        ("application/apply-patch+yaml", "{}", 415, "UnsupportedMediaType"),
        ("application/json", "{}", 415, "UnsupportedMediaType"),
        ("", "{}", 415, "UnsupportedMediaType"),
        ("application/merge-patch+json", "{", 400, "BadRequest"),
        ("application/merge-patch+json", "[]", 400, "BadRequest"),
        ("application/merge-patch+json", "{\"data\":{\"k\":1}}", 400, "BadRequest"),
        ("application/json-patch+json", "{}", 400, "BadRequest"),
        ("application/json-patch+json", "[{\"op\":\"test\",\"path\":\"/data/k\",\"value\":\"no\"}]", 422, "Invalid"),
        ("application/strategic-merge-patch+json", "[]", 400, "BadRequest"),
    ] {
        let line = format!("patch {MAPS}/x");
        let answer = h.send("a", &line, &[("content-type", media_type)], body).await;
        assert_eq!(
            (answer.code, answer.body["reason"].as_str()),
            (code, Some(reason)),
            "{media_type} {body}: {}",
            answer.body
        );
    }
    let custom = "/apis/socialweb.computer/v1alpha1/clusters";
    h.call("root", &format!("create {custom}"), json!({"metadata": {"name": "x"}, "spec": {}})).await.expect(201);
    let strategic = h.patch("root", &format!("{custom}/x"), "strategic", json!({})).await;
    strategic.refused(415, "UnsupportedMediaType");
    let line = format!("patch {MAPS}/x?fieldValidation=Strict");
    let strict = h.send("a", &line, &[("content-type", "application/merge-patch+json")], "{\"nonsense\":1}").await;
    strict.refused(400, "BadRequest");
    let read = h.call("a", &format!("get {MAPS}/x"), Value::Null).await.expect(200);
    assert_eq!(read["data"], json!({"k": "v"}));
    assert!(version(&read).parse::<u64>().unwrap() <= before.0);
}

#[tokio::test]
async fn a_full_disk_loses_nothing() {
    let h = Harness::new().await;
    let created = h.call("a", &format!("create {MAPS}"), config_map("x")).await.expect(201);
    let mut watch = h.watch("a", &format!("{MAPS}?fieldSelector=metadata.name=x")).await;
    assert_eq!(watch.line().await, "ADDED x");
    h.disk.set_full(true);
    h.call("a", &format!("create {MAPS}"), config_map("y")).await.refused(507, "InsufficientStorage");
    h.patch("a", &format!("{MAPS}/x"), "merge", json!({"data": {"k": "2"}})).await.refused(507, "InsufficientStorage");
    h.call("a", &format!("delete {MAPS}/x"), Value::Null).await.refused(507, "InsufficientStorage");
    let cluster = json!({"metadata": {"name": "demo"}, "spec": {}});
    let cluster = h.call("root", "create /apis/socialweb.computer/v1alpha1/clusters", cluster).await;
    cluster.refused(507, "InsufficientStorage");
    assert_eq!(h.call("a", &format!("get {MAPS}/x"), Value::Null).await.expect(200), created);
    h.disk.set_full(false);
    h.patch("a", &format!("{MAPS}/x"), "merge", json!({"data": {"k": "2"}})).await.expect(200);
    assert_eq!(watch.line().await, "MODIFIED x");
}
