//! RBAC through the API: who may do what, from when, until when.

use crate::support::{PATIENCE, get, post, send, send_with, start};
use bytes::Bytes;
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn role(name: &str, verbs: &[&str], resources: &[&str]) -> Value {
    json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "verbs": verbs, "resources": resources}]})
}

fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": user}],
    })
}

#[tokio::test]
async fn bindings_grant_and_their_end_takes_away() {
    let running = start().await;
    running.create_cluster("a").await;
    let admin = running.admin("a").await;
    let ann = running.user("a", "ann", &[]).await;
    let pods = "/api/v1/namespaces/default/pods";
    let refused = get(&ann, pods).await;
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.json()["message"],
        r#"pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default""#
    );
    let created =
        post(&admin, &format!("{RBAC}/namespaces/default/rolebindings"), binding("b", "ClusterRole", "view", "ann"))
            .await;
    assert_eq!(created.status, 201, "{}", created.text());
    let until = async |status: u16| {
        tokio::time::timeout(PATIENCE, async {
            while get(&ann, pods).await.status != status {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
    };
    until(200).await;
    assert_eq!(get(&ann, "/api/v1/namespaces/kube-system/pods").await.status, 403);
    assert_eq!(get(&ann, "/api/v1/namespaces/default/secrets").await.status, 403);
    assert_eq!(send(&ann, "DELETE", &format!("{pods}/x"), Value::Null).await.status, 403);
    let deleted = send(&admin, "DELETE", &format!("{RBAC}/namespaces/default/rolebindings/b"), Value::Null).await;
    assert_eq!(deleted.status, 200);
    until(403).await;
}

#[tokio::test]
async fn reviews() {
    let running = start().await;
    let admin = running.admin("root").await;
    let ann = running.user("root", "ann", &["team"]).await;
    post(&admin, &format!("{RBAC}/namespaces/default/rolebindings"), binding("b", "ClusterRole", "edit", "ann")).await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let table = [
        (json!({"verb": "create", "resource": "pods", "namespace": "default"}), true),
        (json!({"verb": "create", "resource": "pods", "namespace": "other"}), false),
        (
            json!({"verb": "update", "group": "apps", "resource": "deployments", "subresource": "scale", "namespace": "default"}),
            true,
        ),
        (json!({"verb": "get", "resource": "nodes"}), false),
    ];
    for (asked, allowed) in table {
        let answer = post(&ann, path, json!({"spec": {"resourceAttributes": asked}})).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(answer.json()["status"]["allowed"], allowed, "{asked}");
        let spec = json!({"resourceAttributes": asked, "user": "ann"});
        let answer = post(&admin, "/apis/authorization.k8s.io/v1/subjectaccessreviews", json!({"spec": spec})).await;
        assert_eq!(answer.json()["status"]["allowed"], allowed, "{asked}");
    }
    let path_review = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/healthz"}}});
    assert_eq!(post(&ann, path, path_review).await.json()["status"]["allowed"], true);
    assert_eq!(post(&ann, path, json!({"spec": {}})).await.status, 400);
    let subject = json!({"spec": {"user": "x", "nonResourceAttributes": {"verb": "get", "path": "/"}}});
    assert_eq!(post(&ann, "/apis/authorization.k8s.io/v1/subjectaccessreviews", subject).await.status, 403);
    let rules =
        post(&ann, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", json!({"spec": {"namespace": "default"}}))
            .await
            .json();
    let covers = |resource: &str| {
        let rules = rules["status"]["resourceRules"].as_array().unwrap().iter();
        rules.flat_map(|r| r["resources"].as_array().unwrap()).any(|r| r == resource)
    };
    assert!(covers("pods") && covers("selfsubjectaccessreviews") && !covers("nodes"));
    let who = post(&ann, "/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await.json();
    assert_eq!(who["status"]["userInfo"], json!({"username": "ann", "groups": ["team", "system:authenticated"]}));
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_have() {
    let running = start().await;
    let admin = running.admin("root").await;
    let ann = running.user("root", "ann", &[]).await;
    post(&admin, &format!("{RBAC}/namespaces/default/rolebindings"), binding("b", "ClusterRole", "admin", "ann")).await;
    let (roles, bindings) =
        (format!("{RBAC}/namespaces/default/roles"), format!("{RBAC}/namespaces/default/rolebindings"));
    let refused = post(&ann, &roles, role("all", &["*"], &["*"])).await;
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("attempting to grant RBAC permissions not currently held"), "{}", refused.text());
    assert_eq!(get(&admin, &format!("{roles}/all")).await.status, 404, "nothing was written");
    let created = post(&ann, &roles, role("pods", &["get"], &["pods"])).await;
    assert_eq!(created.status, 201, "{}", created.text());
    let wider = json!({"rules": [{"apiGroups": ["*"], "verbs": ["*"], "resources": ["*"]}]});
    assert_eq!(send(&ann, "PATCH", &format!("{roles}/pods"), wider).await.status, 403);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(send(&ann, "PATCH", &format!("{roles}/pods"), labels).await.status, 200);
    assert_eq!(post(&ann, &bindings, binding("c", "ClusterRole", "cluster-admin", "ann")).await.status, 403);
    assert_eq!(post(&ann, &bindings, binding("c", "Role", "pods", "bob")).await.status, 201);
    assert_eq!(post(&admin, &roles, role("all", &["*"], &["*"])).await.status, 201);
}

#[tokio::test]
async fn acting_as_somebody_else() {
    let running = start().await;
    let admin = running.admin("root").await;
    let ann = running.user("root", "ann", &[]).await;
    let account = "system:serviceaccount:default:default";
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let body = || Bytes::from_static(b"{}");
    let who = send_with(&admin, "POST", reviews, &[("impersonate-user", account)], body()).await;
    assert_eq!(who.json()["status"]["userInfo"]["username"], account, "{}", who.text());
    let pods = "/api/v1/namespaces/default/pods";
    let refused = send_with(&admin, "GET", pods, &[("impersonate-user", account)], Bytes::new()).await;
    assert_eq!(refused.status, 403, "it has only the rights of whom it acts as");
    for headers in [
        &[("impersonate-user", account)][..],
        &[("impersonate-user", "admin"), ("impersonate-group", "system:masters")],
    ] {
        let refused = send_with(&ann, "GET", "/version", headers, Bytes::new()).await;
        assert_eq!(refused.status, 403, "{}", refused.text());
        let anonymous = send_with(&running.anonymous(), "GET", "/version", headers, Bytes::new()).await;
        assert_eq!(anonymous.status, 403, "{}", anonymous.text());
    }
    let nobody = send_with(&admin, "GET", "/version", &[("impersonate-group", "g")], Bytes::new()).await;
    assert_eq!(nobody.status, 400);
    post(&admin, &format!("{RBAC}/namespaces/default/rolebindings"), binding("b", "ClusterRole", "edit", "ann")).await;
    let allowed = async || send_with(&ann, "POST", reviews, &[("impersonate-user", account)], body()).await.status;
    tokio::time::timeout(PATIENCE, async {
        while allowed().await != 201 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}
