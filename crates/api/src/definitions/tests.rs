use super::*;
use crate::MAX_CLUSTER_NAME;
use apimachinery::table::{IncludeObject, render};
use serde_json::{Value, json};

fn named(plural: &str) -> ResourceDefinition {
    definitions().into_iter().find(|definition| definition.names.plural == plural).unwrap()
}

/// Runs what the generic path runs on a create.
fn create(definition: &ResourceDefinition, mut object: Value) -> Result<Value, Vec<String>> {
    definition.rules.prepare.unwrap()(&mut object, None);
    definition.schema.apply_defaults(&mut object);
    let mut errors = definition.schema.validate(&object);
    errors.extend(definition.rules.validate.unwrap()(&object, None));
    if errors.is_empty() { Ok(object) } else { Err(errors.iter().map(ToString::to_string).collect()) }
}

fn cluster(name: &str, nodes: Value) -> Value {
    json!({"apiVersion": crate::API_VERSION, "kind": "Cluster", "metadata": {"name": name}, "spec": {"nodes": nodes}})
}

fn claim() -> Value {
    json!({
        "apiVersion": crate::API_VERSION, "kind": "NodeClaim", "metadata": {"name": "n"},
        "spec": {
            "clusterName": "demo", "logicalCluster": "demo-01234567", "nodeName": "n", "podCidr": "10.244.1.0/24",
            "cpus": 1, "memoryMiB": 512,
        },
    })
}

#[test]
fn clusters_need_a_name_only() {
    let definition = named("clusters");
    let bare = json!({"apiVersion": crate::API_VERSION, "kind": "Cluster", "metadata": {"name": "demo"}});
    let created = create(&definition, bare).unwrap();
    let cluster: Cluster = serde_json::from_value(created).unwrap();
    assert_eq!(cluster.spec, crate::ClusterSpec::default());
    assert_eq!(cluster.status, crate::ClusterStatus::default());
}

#[test]
fn clusters_are_checked() {
    let definition = named("clusters");
    for (object, field) in [
        (cluster("demo", json!({"max": 0})), "spec.nodes.max"),
        (cluster("demo", json!({"podsPerNode": 0})), "spec.nodes.podsPerNode"),
        (cluster("demo", json!({"holdSeconds": -1})), "spec.nodes.holdSeconds"),
        (cluster("demo", json!({"cpus": 0})), "spec.nodes.cpus"),
        (cluster("demo", json!({"memoryMiB": 127})), "spec.nodes.memoryMiB"),
        (cluster("demo", json!({"max": "one"})), "spec.nodes.max"),
        (cluster("a.b", json!({})), "metadata.name"),
        (cluster(&"x".repeat(MAX_CLUSTER_NAME + 1), json!({})), "metadata.name"),
    ] {
        let errors = create(&definition, object).unwrap_err();
        assert!(errors.len() == 1 && errors[0].starts_with(&format!("{field}: ")), "{field}: {errors:?}");
    }
    let most = cluster(&"x".repeat(MAX_CLUSTER_NAME), json!({"max": 1, "holdSeconds": 0, "memoryMiB": 128}));
    create(&definition, most).unwrap();
}

#[test]
fn a_creator_does_not_choose_the_status() {
    let mut object = cluster("demo", json!({}));
    object["status"] = json!({"phase": "Ready", "logicalCluster": "another"});
    assert_eq!(create(&named("clusters"), object).unwrap()["status"], json!({"phase": "Initializing"}));
}

#[test]
fn a_cluster_keeps_its_logical_cluster() {
    let rules = named("clusters").rules;
    let old = json!({"metadata": {"name": "demo"}, "status": {"logicalCluster": "demo-1"}});
    let mut new = json!({"metadata": {"name": "demo"}, "status": {"phase": "Ready"}});
    rules.prepare.unwrap()(&mut new, Some(&old));
    assert_eq!(new["status"]["logicalCluster"], "demo-1");
    assert!(rules.validate.unwrap()(&new, Some(&old)).is_empty());
    new["status"]["logicalCluster"] = "other".into();
    assert_eq!(rules.validate.unwrap()(&new, Some(&old))[0].field, "status.logicalCluster");
}

#[test]
fn claims_are_checked_once_and_stay() {
    let definition = named("nodeclaims");
    let created = create(&definition, claim()).unwrap();
    serde_json::from_value::<NodeClaim>(created.clone()).unwrap();
    let validate = definition.rules.validate.unwrap();
    assert!(validate(&created, Some(&created)).is_empty());
    let mut changed = created.clone();
    changed["spec"]["cpus"] = 2.into();
    assert_eq!(validate(&changed, Some(&created))[0].field, "spec");
    for (field, value) in [
        ("podCidr", json!("10.244.1.7/24")),
        ("podCidr", json!("10.244.1.0")),
        ("podCidr", json!("10.244.1.0/33")),
        ("nodeName", json!("")),
        ("cpus", json!(0)),
        ("memoryMiB", json!(1)),
    ] {
        let mut wrong = claim();
        wrong["spec"][field] = value;
        let errors = create(&definition, wrong).unwrap_err();
        assert!(errors[0].starts_with(&format!("spec.{field}: ")), "{errors:?}");
    }
    let mut incomplete = claim();
    incomplete["spec"].as_object_mut().unwrap().remove("nodeName");
    assert!(create(&definition, incomplete).unwrap_err().contains(&"spec.nodeName: Required value".to_owned()));
}

/// Everything that the Rust types write is in the schema: nothing of it would be pruned.
#[test]
fn schemas_know_every_field() {
    fn unknown(schema: &Schema, value: &Value, path: &str, found: &mut Vec<String>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            match schema.field(name) {
                Some(schema) => unknown(schema, value, &path, found),
                None => found.push(path),
            }
        }
        for item in value.as_array().into_iter().flatten() {
            unknown(schema.items.as_ref().unwrap(), item, path, found);
        }
    }
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let mut full = cluster("demo", json!({"max": 1, "podsPerNode": 1, "holdSeconds": 1, "cpus": 1, "memoryMiB": 512}));
    full["status"] = json!({
        "phase": "Ready", "logicalCluster": "l", "url": "u", "nodes": 1, "nodeExpiry": 1, "conditions": [condition],
    });
    let mut claimed = claim();
    claimed["status"] = json!({
        "phase": "Joined", "provider": "p", "declined": true, "message": "m", "nodeExpiry": 0,
        "conditions": [condition],
    });
    let written = [
        ("clusters", serde_json::to_value(serde_json::from_value::<Cluster>(full.clone()).unwrap()).unwrap(), full),
        (
            "nodeclaims",
            serde_json::to_value(serde_json::from_value::<NodeClaim>(claimed.clone()).unwrap()).unwrap(),
            claimed,
        ),
    ];
    for (plural, value, read) in written {
        assert_eq!(value, read);
        let definition = named(plural);
        let mut found = Vec::new();
        unknown(&definition.schema, &value, "", &mut found);
        assert!(found.is_empty(), "{plural}: {found:?}");
        assert!(definition.schema.validate(&value).is_empty(), "{:?}", definition.schema.validate(&value));
    }
    let mut twice = cluster("demo", json!({}));
    twice["status"] = json!({"conditions": [condition, condition]});
    assert_eq!(named("clusters").schema.validate(&twice).len(), 1, "conditions are a map by type");
}

#[test]
fn tables_show_what_matters() {
    let now = "2026-01-01T01:00:00Z".parse().unwrap();
    let mut object = cluster("demo", json!({}));
    object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    object["status"] = json!({"phase": "Ready", "nodes": 2, "logicalCluster": "demo-1"});
    let table = render(&named("clusters"), [&object], now, IncludeObject::None);
    let headings: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(headings, ["Name", "Phase", "Nodes", "Logical cluster", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["demo", "Ready", 2, "demo-1", "60m"]));
    let table = render(&named("nodeclaims"), [&claim()], now, IncludeObject::None);
    assert_eq!(table["rows"][0]["cells"], json!(["n", "demo", "n", null, null]));
}

#[test]
fn kinds_are_served_in_workspaces_only() {
    for definition in definitions() {
        assert_eq!(definition.audience, Audience::Workspaces);
        assert!(!definition.is_built_in() && definition.subresources.status);
    }
    assert_eq!(named("clusters").names.short_names, ["vc"]);
    assert_eq!(named("clusters").subresources.connect[0].name, KUBECONFIG);
}
