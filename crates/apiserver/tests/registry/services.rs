//! Addresses and node ports of Services.

use crate::support::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use store::{KeyRange, RangeOptions, Store as _};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, more: Value) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}});
    for (key, value) in more.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    service
}

async fn claims(h: &Harness) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for prefix in ["ip/a/", "port/a/"] {
        let range = h.disk.range(&KeyRange::prefix(prefix), RangeOptions::default()).await.unwrap();
        keys.extend(range.entries.iter().map(|entry| String::from_utf8_lossy(&entry.key).into_owned()));
    }
    keys
}

#[tokio::test]
async fn addresses_are_taken_and_given_back() {
    let h = Harness::new().await;
    let mut seen = BTreeSet::new();
    for n in 0..20 {
        let created =
            h.call("a", &format!("create {SERVICES}"), service(&format!("s{n}"), json!({}))).await.expect(201);
        let address: Ipv4Addr = created["spec"]["clusterIP"].as_str().unwrap().parse().unwrap();
        assert_eq!(address.octets()[..2], [10, 96]);
        assert_eq!(created["spec"]["clusterIPs"], json!([address.to_string()]));
        assert!(seen.insert(address));
    }
    assert_eq!(claims(&h).await.len(), 20);
    // Unchanged by an update that leaves it out.
    let updated =
        h.patch("a", &format!("{SERVICES}/s0"), "merge", json!({"spec": {"selector": {"app": "y"}}})).await.expect(200);
    assert!(seen.contains(&updated["spec"]["clusterIP"].as_str().unwrap().parse().unwrap()));
    for n in 0..20 {
        h.call("a", &format!("delete {SERVICES}/s{n}"), Value::Null).await.expect(200);
    }
    assert_eq!(claims(&h).await, BTreeSet::new());
}

#[tokio::test]
async fn chosen_addresses() {
    let h = Harness::new().await;
    let at = |address: &str| json!({"clusterIP": address});
    let create = format!("create {SERVICES}");
    h.call("a", &create, service("x", at("10.96.7.7"))).await.expect(201);
    // Another cluster has its own.
    h.call("b", &create, service("x", at("10.96.7.7"))).await.expect(201);
    for (address, why) in [
        ("10.96.7.7", "failed to allocate IP 10.96.7.7: provided IP is already allocated"),
        ("10.96.0.10", "failed to allocate IP 10.96.0.10: provided IP is already allocated"),
        ("10.97.0.1", "the provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/16"),
    ] {
        let message = h.call("a", &create, service("y", at(address))).await.refused(422, "Invalid");
        assert!(message.contains(why), "{message}");
    }
    let none = h.call("a", &create, service("none", at("None"))).await.expect(201);
    assert_eq!(none["spec"]["clusterIP"], "None");
    let external = json!({"type": "ExternalName", "externalName": "example.com"});
    let external = h.call("a", &create, service("external", external)).await.expect(201);
    assert!(external["spec"].get("clusterIP").is_none());
    assert_eq!(claims(&h).await, BTreeSet::from(["ip/a/10.96.7.7".to_owned()]));
    let back =
        json!({"spec": {"type": "ExternalName", "externalName": "example.com", "clusterIP": null, "clusterIPs": null}});
    h.patch("a", &format!("{SERVICES}/x"), "merge", back).await.expect(200);
    assert_eq!(claims(&h).await, BTreeSet::new());
}

#[tokio::test]
async fn node_ports() {
    let h = Harness::new().await;
    let create = format!("create {SERVICES}");
    let created = h.call("a", &create, service("x", json!({"type": "NodePort"}))).await.expect(201);
    let port = created["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((30_000..=32_767).contains(&port));
    let same = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    let message = h.call("a", &create, service("y", same)).await.refused(422, "Invalid");
    assert!(message.contains("provided port is already allocated"), "{message}");
    let low = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]});
    h.call("a", &create, service("y", low)).await.refused(422, "Invalid");
    h.call("a", &format!("delete {SERVICES}/x"), Value::Null).await.expect(200);
    assert_eq!(claims(&h).await, BTreeSet::new());
}
