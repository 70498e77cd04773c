//! Nodes: joining, renewing, and what they may do.

use crate::support::{Answer, Running, get, post, send, start};
use controller_runtime::{ClientCredential, LogicalClusters as _, Transport};
use serde_json::{Value, json};
use std::time::Duration;

/// A key with a certificate request for it, both PEM.
fn request() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
    (key.serialize_pem(), request)
}

async fn join(client: &impl Transport, cluster: &str, node: &str, request: &str) -> Answer {
    post(client, &node_api::join_path(cluster, node), json!({"certificateRequest": request})).await
}

async fn join_token(running: &Running, cluster: &str, node: &str) -> String {
    running.server.administration().issue_join_token(cluster, node, Duration::from_secs(600)).await.unwrap()
}

async fn joined(running: &Running, cluster: &str, node: &str) -> impl Transport + use<> {
    let (key, request) = request();
    let token = running.with_token(&join_token(running, cluster, node).await);
    let answer = join(&token, cluster, node, &request).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let certificate = answer.json()["certificate"].as_str().unwrap().to_owned();
    running.with_certificate(&ClientCredential { certificate, key })
}

#[tokio::test]
async fn a_join_token_is_good_for_one_node_once() {
    let running = start().await;
    running.create_cluster("a").await;
    running.create_cluster("b").await;
    let (_, request) = request();
    let token = running.with_token(&join_token(&running, "a", "n1").await);
    assert_eq!(join(&token, "a", "n2", &request).await.status, 401, "another node");
    assert_eq!(join(&token, "b", "n1", &request).await.status, 401, "another cluster");
    assert_eq!(get(&token, "/clusters/a/version").await.status, 401, "no other use");
    assert_eq!(join(&token, "a", "n1", "rubbish").await.status, 400, "which does not use it up");
    assert_eq!(join(&token, "a", "n1", &request).await.status, 201);
    assert_eq!(join(&token, "a", "n1", &request).await.status, 401, "used");
    assert_eq!(join(&running.anonymous(), "a", "n1", &request).await.status, 401);
    assert_eq!(join(&running.admin("a").await, "a", "n1", &request).await.status, 401, "not even an administrator");
}

#[tokio::test]
async fn a_node_renews_its_own_certificate() {
    let running = start().await;
    running.create_cluster("a").await;
    let node = joined(&running, "a", "n1").await;
    let (key, request) = request();
    assert_eq!(join(&node, "a", "n2", &request).await.status, 401);
    let renewed = join(&node, "a", "n1", &request).await;
    assert_eq!(renewed.status, 201, "{}", renewed.text());
    let certificate = renewed.json()["certificate"].as_str().unwrap().to_owned();
    let node = running.with_certificate(&ClientCredential { certificate, key });
    let who = post(&node, "/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await.json();
    assert_eq!(who["status"]["userInfo"]["username"], "system:node:n1");
}

#[tokio::test]
async fn a_node_writes_only_what_is_its_own() {
    let running = start().await;
    let admin = running.admin("root").await;
    let node = joined(&running, "root", "n1").await;
    let body = |name: &str| json!({"metadata": {"name": name}});
    assert_eq!(post(&node, "/api/v1/nodes", body("n2")).await.status, 403);
    let created = post(&node, "/api/v1/nodes", body("n1")).await;
    assert_eq!(created.status, 201, "{}", created.text());
    post(&admin, "/api/v1/nodes", body("n2")).await;
    let patch = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.2.15"}]}});
    assert_eq!(send(&node, "PATCH", "/api/v1/nodes/n1/status", patch.clone()).await.status, 200);
    assert_eq!(send(&node, "PATCH", "/api/v1/nodes/n2/status", patch).await.status, 403);
    assert_eq!(send(&node, "DELETE", "/api/v1/nodes/n2", Value::Null).await.status, 403);
    for (name, bound) in [("mine", "n1"), ("other", "n2")] {
        let spec = json!({"nodeName": bound, "containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        let pod = post(&admin, "/api/v1/namespaces/default/pods", pod).await;
        assert_eq!(pod.status, 201, "{}", pod.text());
    }
    let status = json!({"status": {"phase": "Running"}});
    for (name, allowed) in [("mine", true), ("other", false)] {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        let expect = |answer: &Answer| assert_eq!(answer.status, if allowed { 200 } else { 403 }, "{}", answer.text());
        expect(&get(&node, &path).await);
        expect(&send(&node, "PATCH", &format!("{path}/status"), status.clone()).await);
    }
    assert_eq!(get(&node, "/api/v1/pods").await.status, 403);
    let own = get(&node, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1").await;
    assert_eq!((own.status, own.json()["items"].as_array().map(Vec::len)), (200, Some(1)));
    assert_eq!(get(&node, "/api/v1/services").await.status, 200);
    assert_eq!(get(&node, "/apis/apps/v1/deployments").await.status, 403);
    let free = json!({"spec": {}});
    let refused = post(&node, "/api/v1/namespaces/default/serviceaccounts/default/token", free).await;
    assert_eq!(refused.status, 403, "a token that is not bound to one of its Pods");
    let uid = get(&admin, "/api/v1/namespaces/default/pods/mine").await.json()["metadata"]["uid"].clone();
    let bound = json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "mine", "uid": uid}}});
    let granted = post(&node, "/api/v1/namespaces/default/serviceaccounts/default/token", bound).await;
    assert_eq!(granted.status, 201, "{}", granted.text());
}
