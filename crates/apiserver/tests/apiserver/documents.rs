//! Discovery, OpenAPI, version and health.

use crate::support::{get, send_with, start};
use bytes::Bytes;
use serde_json::Value;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

#[tokio::test]
async fn discovery() {
    let running = start().await;
    let admin = running.admin("root").await;
    let core = get(&admin, "/api/v1").await.json();
    let find = |name: &str| core["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).cloned();
    let pods = find("pods").unwrap();
    assert_eq!(
        (&pods["kind"], &pods["namespaced"], &pods["shortNames"][0]),
        (&"Pod".into(), &true.into(), &"po".into())
    );
    assert_eq!(find("serviceaccounts/token").unwrap()["kind"], "TokenRequest");
    for unhandled in ["pods/exec", "pods/log", "pods/proxy"] {
        assert!(find(unhandled).is_none(), "{unhandled}");
        let path = unhandled.replace('/', "/x/");
        assert_eq!(get(&admin, &format!("/api/v1/namespaces/default/{path}")).await.status, 404, "{unhandled}");
    }
    let aggregated = send_with(&admin, "GET", "/apis", &[("accept", AGGREGATED)], Bytes::new()).await;
    assert_eq!(aggregated.json()["kind"], "APIGroupDiscoveryList");
    assert_eq!(
        aggregated.headers["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    let tag = aggregated.headers["etag"].to_str().unwrap().to_owned();
    let again =
        send_with(&admin, "GET", "/apis", &[("accept", AGGREGATED), ("if-none-match", &tag)], Bytes::new()).await;
    assert_eq!((again.status, again.bytes.len()), (304, 0));
    let groups = get(&admin, "/apis").await.json();
    assert_eq!(groups["kind"], "APIGroupList");
    for group in groups["groups"].as_array().unwrap() {
        let version = group["preferredVersion"]["groupVersion"].as_str().unwrap();
        assert_eq!(get(&admin, &format!("/apis/{version}")).await.json()["groupVersion"], version);
    }
    for missing in ["/apis/none", "/apis/apps/v9", "/api/v2", "/nothing", "/apis/apps/v9/deployments"] {
        let answer = get(&admin, missing).await;
        assert_eq!((answer.status, answer.json()["reason"].as_str()), (404, Some("NotFound")), "{missing}");
    }
}

#[tokio::test]
async fn openapi() {
    let running = start().await;
    let admin = running.admin("root").await;
    let two = get(&admin, "/openapi/v2").await.json();
    assert_eq!(two["swagger"], "2.0");
    let index = get(&admin, "/clusters/root/openapi/v3").await.json();
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    assert!(url.starts_with("/clusters/root/openapi/v3/apis/apps/v1?hash="), "{url}");
    let document = get(&admin, url).await;
    assert!(document.headers["cache-control"].to_str().unwrap().contains("immutable"));
    assert!(document.json()["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"].is_object());
    let protobuf = [("accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")];
    assert_eq!(send_with(&admin, "GET", "/openapi/v2", &protobuf, Bytes::new()).await.status, 406);
}

#[tokio::test]
async fn version_and_health() {
    let running = start().await;
    let anonymous = running.anonymous();
    let version: Value = get(&anonymous, "/version").await.json();
    assert_eq!((&version["major"], &version["minor"]), (&"1".into(), &"36".into()));
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping"] {
        let answer = get(&anonymous, path).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"), "{path}");
    }
    let verbose = get(&anonymous, "/readyz?verbose").await.text();
    assert!(verbose.contains("[+]store ok\n") && verbose.ends_with("readyz check passed\n"), "{verbose}");
    assert_eq!(get(&anonymous, "/livez/none").await.status, 404);
}

#[tokio::test]
async fn metrics_are_of_the_process_and_so_only_in_root() {
    let running = start().await;
    running.create_cluster("a").await;
    let answer = get(&running.admin("root").await, "/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4"));
    for name in ["process_resident_memory_bytes", "process_open_fds", "process_threads", "tokio_alive_tasks"] {
        let text = answer.text();
        let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
        let figure: u64 = line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect(name);
        assert!(figure > 0, "{name}");
    }
    assert_eq!(get(&running.admin("a").await, "/clusters/a/metrics").await.status, 404);
    assert_eq!(get(&running.user("root", "bob", &[]).await, "/metrics").await.status, 403);
}
