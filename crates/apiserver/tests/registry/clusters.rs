//! Logical clusters: creation with their object, and their end.

use crate::support::*;
use apiserver::pki;
use apiserver::registry::LogicalClusterKind;
use serde_json::{Value, json};
use store::{KeyRange, RangeOptions, Store as _};

const CLUSTERS: &str = "/apis/socialweb.computer/v1alpha1/clusters";

async fn create(h: &Harness, name: &str) -> Value {
    let cluster = json!({"metadata": {"name": name}, "spec": {}, "status": {"logicalCluster": "chosen"}});
    h.call("root", &format!("create {CLUSTERS}"), cluster).await.expect(201)
}

#[tokio::test]
async fn a_cluster_object_brings_its_logical_cluster() {
    let h = Harness::new().await;
    let before = h.disk.revision().0;
    let created = create(&h, "demo").await;
    assert_eq!(h.disk.revision().0, before + 1, "one transaction");
    assert_eq!(created["metadata"]["finalizers"], json!([api::CLUSTER_FINALIZER]));
    let logical = created["status"]["logicalCluster"].as_str().unwrap().to_owned();
    let suffix = logical.strip_prefix("demo-").unwrap();
    assert!(suffix.len() == 8 && suffix.chars().all(|c| c.is_ascii_hexdigit()), "{logical}");
    let record = h.registry.logical_cluster(&logical).await.unwrap().unwrap();
    assert_eq!((record.name.as_str(), record.kind), (logical.as_str(), LogicalClusterKind::Cluster));
    let namespaces = h.call(&logical, "list /api/v1/namespaces", Value::Null).await.expect(200);
    assert_eq!(namespaces["items"].as_array().unwrap().len(), 4);
    // Nobody moves a cluster to another logical cluster.
    let status = json!({"status": {"phase": "Ready", "logicalCluster": "other"}});
    let updated = h.patch("root", &format!("{CLUSTERS}/demo/status"), "merge", status).await.expect(200);
    assert_eq!(
        (updated["status"]["logicalCluster"].as_str(), updated["status"]["phase"].as_str()),
        (Some(logical.as_str()), Some("Ready"))
    );
    let before = h.disk.revision();
    let cluster = json!({"metadata": {"name": "dry"}, "spec": {}});
    h.call("root", &format!("create {CLUSTERS}?dryRun=All"), cluster.clone()).await.expect(201);
    assert_eq!(h.disk.revision(), before);
    let mut bad = cluster;
    bad["metadata"]["name"] = "a.b".into();
    h.call("root", &format!("create {CLUSTERS}"), bad).await.refused(422, "Invalid");
}

#[tokio::test]
async fn purging_removes_all_and_refuses_for_ever() {
    let h = Harness::with(
        apiserver::registry::Options { purge_entries: 3, ..options() },
        store::memory::Options::default(),
    )
    .await;
    let logical = create(&h, "demo").await["status"]["logicalCluster"].as_str().unwrap().to_owned();
    let other = create(&h, "other").await["status"]["logicalCluster"].as_str().unwrap().to_owned();
    for cluster in [&logical, &other] {
        for n in 0..10 {
            h.call(cluster, &format!("create {MAPS}"), config_map(&format!("x{n}"))).await.expect(201);
        }
        let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
        h.call(cluster, "create /api/v1/namespaces/default/services", service).await.expect(201);
    }
    let mut watch = h.watch(&logical, &format!("{MAPS}?fieldSelector=metadata.name=x0")).await;
    assert_eq!(watch.line().await, "ADDED x0");
    for _ in 0..2 {
        h.registry.purge_logical_cluster(&logical).await.unwrap();
        assert!(h.registry.logical_cluster(&logical).await.unwrap().is_none());
        assert!(h.registry.logical_cluster_denied(&logical).await.unwrap());
    }
    assert_eq!(watch.line().await, "DELETED x0");
    h.call(&logical, &format!("get {MAPS}/x1"), Value::Null).await.refused(404, "NotFound");
    h.call(&logical, &format!("create {MAPS}"), config_map("y")).await.refused(404, "NotFound");
    let everything = h.disk.range(&KeyRange::prefix(""), RangeOptions::default()).await.unwrap();
    let left: Vec<String> = everything
        .entries
        .iter()
        .map(|entry| String::from_utf8_lossy(&entry.key).into_owned())
        .filter(|key| key.contains(&logical))
        .collect();
    assert_eq!(left, [format!("deny/{logical}")]);
    let kept = h.call(&other, &format!("list {MAPS}"), Value::Null).await.expect(200);
    assert_eq!(kept["items"].as_array().unwrap().len(), 11);
    let authority = pki::new_client_authority(&logical).unwrap();
    let again = h.registry.create_logical_cluster(&logical, LogicalClusterKind::Cluster, authority).await;
    assert_eq!(again.unwrap_err().code, 409);
    // What never was is done, and leaves nothing.
    h.registry.purge_logical_cluster("never").await.unwrap();
    assert!(!h.registry.logical_cluster_denied("never").await.unwrap());
}

#[tokio::test]
async fn creating_a_logical_cluster_twice_finds_the_first() {
    let h = Harness::new().await;
    let authority = pki::new_client_authority("a").unwrap();
    let before = h.registry.logical_cluster("a").await.unwrap().unwrap();
    let again = h.registry.create_logical_cluster("a", LogicalClusterKind::Workspace, authority).await.unwrap();
    assert_eq!(again, before);
    let all = h.registry.logical_clusters().await.unwrap();
    assert_eq!(all.iter().map(|record| record.name.as_str()).collect::<Vec<_>>(), ["a", "b", "root"]);
    let authority = pki::new_client_authority("x").unwrap();
    assert_eq!(
        h.registry.create_logical_cluster("x/y", LogicalClusterKind::Cluster, authority).await.unwrap_err().code,
        400
    );
}
