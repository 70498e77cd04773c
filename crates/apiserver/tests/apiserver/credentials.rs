//! Who a credential makes somebody, and where.

use crate::support::{get, post, send, start};
use apimachinery::auth::GROUP_MASTERS;
use controller_runtime::LogicalClusters as _;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/pods";

async fn token(admin: &impl controller_runtime::Transport, cluster: &str, spec: Value) -> String {
    let path = format!("/clusters/{cluster}/api/v1/namespaces/default/serviceaccounts/default/token");
    let answer = post(admin, &path, json!({"spec": spec})).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_certificate_is_valid_in_its_cluster_only() {
    let running = start().await;
    running.create_cluster("a").await;
    running.create_cluster("b").await;
    let admin = running.admin("a").await;
    assert_eq!(get(&admin, &format!("/clusters/a{PODS}")).await.status, 200);
    assert_eq!(get(&admin, PODS).await.status, 200, "without prefix it is the credential's cluster");
    for elsewhere in ["b", "root", "none"] {
        assert_eq!(get(&admin, &format!("/clusters/{elsewhere}{PODS}")).await.status, 401, "{elsewhere}");
    }
    assert_eq!(get(&admin, &format!("/clusters/*{PODS}")).await.status, 403);
    post(&admin, "/api/v1/namespaces", json!({"metadata": {"name": "only-in-a"}})).await;
    assert_eq!(get(&admin, "/api/v1/namespaces/only-in-a").await.status, 200);
    assert_eq!(get(&running.admin("b").await, "/api/v1/namespaces/only-in-a").await.status, 404);
}

#[tokio::test]
async fn another_servers_certificate_is_refused() {
    let (running, other) = (start().await, start().await);
    let foreign = other.credential("root", "admin", &[GROUP_MASTERS]).await;
    let client = running.with_certificate(&foreign);
    let answer = get(&client, PODS).await;
    assert_eq!((answer.status, answer.json()["reason"].as_str()), (401, Some("Unauthorized")));
}

#[tokio::test]
async fn nobody_is_a_controller_by_certificate() {
    let running = start().await;
    let client = running.user("root", "eve", &[apiserver::GROUP_CONTROLLERS, GROUP_MASTERS]).await;
    assert_eq!(get(&client, &format!("/clusters/*{PODS}")).await.status, 403);
    let local = running.local(&[apiserver::GROUP_CONTROLLERS, GROUP_MASTERS]);
    assert_eq!(get(&local, &format!("/clusters/*{PODS}")).await.status, 200);
    let plain = running.local(&[GROUP_MASTERS]);
    assert_eq!(get(&plain, &format!("/clusters/*{PODS}")).await.status, 403);
}

#[tokio::test]
async fn anonymous() {
    let running = start().await;
    let anonymous = running.anonymous();
    for open in ["/healthz", "/livez", "/readyz?verbose", "/version", "/api", "/apis", "/api/v1", "/apis/apps/v1"] {
        assert_eq!(get(&anonymous, open).await.status, 200, "{open}");
    }
    for closed in [PODS, "/", "/openapi/v2", "/openapi/v3", "/metrics", "/apis/apps/v1/deployments"] {
        let answer = get(&anonymous, closed).await;
        assert_eq!((answer.status, answer.json()["kind"].as_str()), (403, Some("Status")), "{closed}");
        assert!(answer.json()["message"].as_str().unwrap().contains("system:anonymous"), "{}", answer.text());
    }
    assert_eq!(get(&anonymous, &format!("/clusters/*{PODS}")).await.status, 401);
    assert_eq!(get(&running.with_token("rubbish"), "/version").await.status, 401);
}

#[tokio::test]
async fn service_account_tokens() {
    let running = start().await;
    running.create_cluster("a").await;
    running.create_cluster("b").await;
    let admin = running.admin("a").await;
    let bearer = token(&admin, "a", json!({"expirationSeconds": 600})).await;
    let client = running.with_token(&bearer);
    let review = post(&client, "/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await.json();
    assert_eq!(review["status"]["userInfo"]["username"], "system:serviceaccount:default:default");
    assert_eq!(get(&client, "/api/v1/namespaces/default/pods").await.status, 403, "it has no rights of its own");
    for elsewhere in ["b", "root"] {
        assert_eq!(get(&client, &format!("/clusters/{elsewhere}/version")).await.status, 401);
    }
    let other = token(&admin, "a", json!({"audiences": ["vault"]})).await;
    assert_eq!(get(&running.with_token(&other), "/version").await.status, 401, "for another audience");
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = post(&admin, reviews, json!({"spec": {"token": other, "audiences": ["vault", "x"]}})).await.json();
    assert_eq!((&review["status"]["authenticated"], &review["status"]["audiences"]), (&json!(true), &json!(["vault"])));
    let review = post(&running.admin("b").await, reviews, json!({"spec": {"token": bearer}})).await.json();
    assert_eq!(review["status"]["authenticated"], json!(false), "of another cluster");
    let short = json!({"spec": {"expirationSeconds": 5}});
    let refused = post(&admin, "/api/v1/namespaces/default/serviceaccounts/default/token", short).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
}

#[tokio::test]
async fn tokens_end_with_what_they_are_bound_to() {
    let running = start().await;
    let admin = running.admin("root").await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod = post(&admin, "/api/v1/namespaces/default/pods", pod).await;
    assert_eq!(pod.status, 201, "{}", pod.text());
    let uid = pod.json()["metadata"]["uid"].clone();
    let reference = json!({"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": uid});
    let bound = running.with_token(&token(&admin, "root", json!({"boundObjectRef": reference})).await);
    let free = running.with_token(&token(&admin, "root", json!({})).await);
    assert_eq!((get(&bound, "/version").await.status, get(&free, "/version").await.status), (200, 200));
    let gone = send(&admin, "DELETE", "/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0", Value::Null).await;
    assert_eq!(gone.status, 200, "{}", gone.text());
    assert_eq!((get(&bound, "/version").await.status, get(&free, "/version").await.status), (401, 200));
    let gone = send(&admin, "DELETE", "/api/v1/namespaces/default/serviceaccounts/default", Value::Null).await;
    assert_eq!(gone.status, 200, "{}", gone.text());
    assert_eq!(get(&free, "/version").await.status, 401);
}

#[tokio::test]
async fn a_purged_clusters_credentials_are_refused() {
    let running = start().await;
    running.create_cluster("a").await;
    let admin = running.admin("a").await;
    let bearer = running.with_token(&token(&admin, "a", json!({})).await);
    assert_eq!((get(&admin, PODS).await.status, get(&bearer, "/version").await.status), (200, 200));
    let administration = running.server.administration();
    administration.purge("a").await.unwrap();
    assert_eq!((get(&admin, PODS).await.status, get(&bearer, "/version").await.status), (401, 401));
    assert_eq!(get(&running.anonymous(), "/clusters/a/version").await.status, 404);
    assert!(administration.ready("a").await.is_err());
    administration.purge("a").await.unwrap();
    administration.purge("never-was").await.unwrap();
    assert_eq!(get(&running.admin("root").await, PODS).await.status, 200);
}
