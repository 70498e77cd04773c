//! Lists: selectors, parts, and resource versions.

use crate::support::*;
use serde_json::Value;
use store::Store as _;

#[tokio::test]
async fn selectors() {
    let h = Harness::new().await;
    h.call("a", "create /api/v1/namespaces", serde_json::json!({"metadata": {"name": "team"}})).await.expect(201);
    for (name, app) in [("m1", "a"), ("m2", "b"), ("m3", "a")] {
        h.call("a", &format!("create {MAPS}"), labelled(name, app)).await.expect(201);
    }
    h.call("a", "create /api/v1/namespaces/team/configmaps", labelled("m1", "a")).await.expect(201);
    for (query, expected) in [
        ("labelSelector=app=a", vec!["m1", "m3"]),
        ("labelSelector=app in (a,b)", vec!["m1", "m2", "m3"]),
        ("labelSelector=!app", vec!["kube-root-ca.crt"]),
        ("labelSelector=app!=a", vec!["kube-root-ca.crt", "m2"]),
        ("fieldSelector=metadata.name=m2", vec!["m2"]),
        ("fieldSelector=metadata.name!=m2,metadata.namespace=default", vec!["kube-root-ca.crt", "m1", "m3"]),
        ("fieldSelector=metadata.name=m2&labelSelector=app=a", vec![]),
    ] {
        let list = h.call("a", &format!("list {MAPS}?{query}"), Value::Null).await.expect(200);
        assert_eq!(names(&list), expected, "{query}");
        assert_eq!((list["kind"].as_str(), list["apiVersion"].as_str()), (Some("ConfigMapList"), Some("v1")));
    }
    let all = h.call("a", "list /api/v1/configmaps?labelSelector=app=a", Value::Null).await.expect(200);
    assert_eq!(names(&all), ["m1", "m3", "m1"]);
    let one = h.call("a", "list /api/v1/configmaps?fieldSelector=metadata.namespace=team", Value::Null).await;
    assert_eq!(names(&one.expect(200)), ["m1"]);
    let unknown = h.call("a", &format!("list {MAPS}?fieldSelector=data.k=v"), Value::Null).await;
    assert_eq!(unknown.refused(400, "BadRequest"), "field label not supported: data.k");
    h.call("a", &format!("list {MAPS}?labelSelector=a b"), Value::Null).await.refused(400, "BadRequest");
    h.call("a", &format!("list {MAPS}?limit=x"), Value::Null).await.refused(400, "BadRequest");
}

#[tokio::test]
async fn selectable_fields() {
    let h = Harness::new().await;
    for name in ["p1", "p2"] {
        h.call("a", &format!("create {PODS}"), pod(name)).await.expect(201);
    }
    let binding = serde_json::json!({"target": {"kind": "Node", "name": "n1"}});
    h.call("a", &format!("create {PODS}/p1/binding"), binding).await.expect(201);
    for (selector, expected) in [
        ("spec.nodeName=n1", vec!["p1"]),
        ("spec.nodeName=", vec!["p2"]),
        ("spec.nodeName!=n1", vec!["p2"]),
        ("status.phase=Pending", vec!["p1", "p2"]),
        ("spec.hostNetwork=false", vec!["p1", "p2"]),
        ("spec.restartPolicy=Never", vec![]),
    ] {
        let list = h.call("a", &format!("list /api/v1/pods?fieldSelector={selector}"), Value::Null).await.expect(200);
        assert_eq!(names(&list), expected, "{selector}");
    }
}

/// Follows the parts of a list.
async fn parts(h: &Harness, cluster: &str, path: &str, limit: usize) -> (Vec<String>, Vec<String>) {
    let (mut all, mut versions, mut token) = (Vec::new(), Vec::new(), String::new());
    loop {
        let list =
            h.call(cluster, &format!("list {path}?limit={limit}&continue={token}"), Value::Null).await.expect(200);
        let part = names(&list);
        assert!(part.len() <= limit);
        all.extend(part);
        versions.push(version(&list));
        match list["metadata"]["continue"].as_str() {
            Some(next) => token = next.to_owned(),
            None => return (all, versions),
        }
        // What is written meanwhile belongs to no part.
        h.call(cluster, &format!("create {path}"), config_map(&format!("late{}", all.len()))).await.expect(201);
    }
}

#[tokio::test]
async fn parts_are_of_one_revision() {
    for page_entries in [1, 2, 1000] {
        let options = apiserver::registry::Options { page_entries, ..options() };
        let h = Harness::with(options, store::memory::Options::default()).await;
        // Among stored objects, around the one of the base layer.
        for name in ["b", "c", "kube", "kube-root-ca.crt2", "z"] {
            h.call("a", &format!("create {MAPS}"), config_map(name)).await.expect(201);
        }
        let expected = ["b", "c", "kube", "kube-root-ca.crt", "kube-root-ca.crt2", "z"];
        for limit in [1, 2, 3, 5] {
            let cluster = if limit == 1 { "a" } else { "b" };
            if cluster == "b" {
                for name in ["b", "c", "kube", "kube-root-ca.crt2", "z"] {
                    h.call("b", &format!("create {MAPS}"), config_map(name)).await.expect(201);
                }
            }
            let (found, versions) = parts(&h, cluster, MAPS, limit).await;
            assert_eq!(found, expected, "page {page_entries} limit {limit}");
            assert!(versions.iter().all(|version| *version == versions[0]), "{versions:?}");
            let wipe = format!("deletecollection {MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt");
            h.call(cluster, &wipe, Value::Null).await.expect(200);
        }
    }
}

#[tokio::test]
async fn a_part_of_a_forgotten_revision_is_gone() {
    let h = Harness::new().await;
    for name in ["x", "y", "z"] {
        h.call("a", &format!("create {MAPS}"), config_map(name)).await.expect(201);
    }
    let list = h.call("a", &format!("list {MAPS}?limit=1"), Value::Null).await.expect(200);
    let token = list["metadata"]["continue"].as_str().unwrap().to_owned();
    h.call("a", &format!("create {MAPS}"), config_map("w")).await.expect(201);
    h.disk.compact(h.disk.revision()).await.unwrap();
    h.call("a", &format!("list {MAPS}?limit=1&continue={token}"), Value::Null).await.refused(410, "Expired");
    h.call("a", &format!("list {MAPS}?limit=1&continue=nonsense"), Value::Null).await.refused(400, "BadRequest");
    let other = h.call("b", &format!("list {MAPS}?limit=1&continue={token}"), Value::Null).await;
    other.refused(400, "BadRequest");
    let old = version(&list);
    let exact = format!("list {MAPS}?resourceVersion={old}&resourceVersionMatch=Exact");
    h.call("a", &exact, Value::Null).await.refused(410, "Expired");
}

#[tokio::test]
async fn resource_versions() {
    let h = Harness::new().await;
    let first = version(&h.call("a", &format!("create {MAPS}"), config_map("x")).await.expect(201));
    h.call("a", &format!("create {MAPS}"), config_map("y")).await.expect(201);
    let select = "labelSelector=!kubernetes.io/none&fieldSelector=metadata.name!=kube-root-ca.crt";
    for (query, expected) in [
        (format!("resourceVersion={first}&resourceVersionMatch=Exact"), vec!["x"]),
        (format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan"), vec!["x", "y"]),
        (format!("resourceVersion={first}"), vec!["x", "y"]),
        (format!("resourceVersion={first}&limit=5"), vec!["x"]),
        ("resourceVersion=0".into(), vec!["x", "y"]),
    ] {
        let list = h.call("a", &format!("list {MAPS}?{select}&{query}"), Value::Null).await.expect(200);
        assert_eq!(names(&list), expected, "{query}");
    }
    for (query, code, reason) in [
        ("resourceVersionMatch=Exact", 422, "Invalid"),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422, "Invalid"),
        ("resourceVersion=1&resourceVersionMatch=Sometimes", 422, "Invalid"),
        ("resourceVersion=abc", 422, "Invalid"),
        ("resourceVersion=99999999", 504, "Timeout"),
    ] {
        h.call("a", &format!("list {MAPS}?{query}"), Value::Null).await.refused(code, reason);
    }
    h.call("a", &format!("get {MAPS}/x?resourceVersion=99999999"), Value::Null).await.refused(504, "Timeout");
    h.call("a", &format!("get {MAPS}/x?resourceVersion={first}"), Value::Null).await.expect(200);
}
