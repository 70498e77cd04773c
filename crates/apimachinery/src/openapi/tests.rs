//! Tests of `openapi`.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::definition::{Audience, ConnectSubresource, Names, Rules, Scale, Scope, Subresources};
use crate::schema::{ListType, PatchStrategy};

fn text() -> Arc<Schema> {
    Arc::new(Schema { type_: "string".into(), ..Schema::default() })
}

fn object(component: Option<&str>, description: &str, fields: Vec<(&str, Arc<Schema>)>) -> Schema {
    Schema {
        type_: "object".into(),
        component: component.map(str::to_owned),
        description: description.into(),
        properties: fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect(),
        ..Schema::default()
    }
}

fn gvk(group: &str, version: &str, kind: &str) -> GroupVersionKind {
    GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() }
}

fn definition(gvk: GroupVersionKind, plural: &str, schema: Schema) -> ResourceDefinition {
    ResourceDefinition {
        names: Names {
            plural: plural.into(),
            singular: String::new(),
            kind: gvk.kind.clone(),
            short_names: vec![],
            categories: vec![],
        },
        gvk,
        scope: Scope::Namespaced,
        verbs: ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
            .map(str::to_owned)
            .to_vec(),
        schema: Arc::new(schema),
        columns: vec![],
        subresources: Subresources::default(),
        audience: Audience::Every,
        selectable_fields: vec![],
        rules: Rules::default(),
    }
}

fn documents() -> OpenApi {
    let meta =
        Arc::new(object(Some("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"), "Metadata.", vec![("name", text())]));
    let container = object(Some("io.k8s.api.core.v1.Container"), "A container.", vec![("name", text())]);
    let containers = Schema {
        type_: "array".into(),
        items: Some(Arc::new(container)),
        list_type: Some(ListType::Map),
        list_map_keys: vec!["name".into()],
        patch_strategy: PatchStrategy { merge: true, retain_keys: false },
        patch_merge_key: Some("name".into()),
        ..Schema::default()
    };
    let quantity =
        Schema { type_: "string".into(), component: Some(crate::schema::QUANTITY.into()), ..Schema::default() };
    let mut spec = object(
        Some("io.k8s.api.core.v1.PodSpec"),
        "What the Pod should be.",
        vec![("containers", Arc::new(containers)), ("cpu", Arc::new(quantity))],
    );
    spec.default = Some(json!({}));
    let pod =
        object(Some("io.k8s.api.core.v1.Pod"), "A Pod.", vec![("metadata", meta.clone()), ("spec", Arc::new(spec))]);
    let mut pods = definition(gvk("", "v1", "Pod"), "pods", pod);
    pods.subresources.status = true;
    let connect = |name: &str, kind: GroupVersionKind, verbs: &[&str]| ConnectSubresource {
        name: name.into(),
        kind,
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
    };
    pods.subresources.connect = vec![
        connect("exec", gvk("", "v1", "PodExecOptions"), &["create", "get"]),
        connect("log", gvk("", "v1", "Pod"), &["get"]),
        connect("eviction", gvk("policy", "v1", "Eviction"), &["create"]),
    ];
    let replicas = object(Some("io.k8s.api.apps.v1.ReplicaSet"), "A ReplicaSet.", vec![("metadata", meta)]);
    let mut replicas = definition(gvk("apps", "v1", "ReplicaSet"), "replicasets", replicas);
    replicas.subresources.scale = Some(Scale {
        spec_replicas: ".spec.replicas".into(),
        status_replicas: ".status.replicas".into(),
        selector: None,
    });
    let mut custom =
        definition(gvk("example.com", "v1", "Widget"), "widgets", object(None, "A widget.", vec![("spec", text())]));
    custom.scope = Scope::Cluster;
    OpenApi::new(vec![Arc::new(pods), Arc::new(replicas), Arc::new(custom)])
}

fn v3(path: &str) -> Value {
    serde_json::from_slice(&documents().v3(path).unwrap().json).unwrap()
}

/// Every reference must lead to a type.
fn check_references(value: &Value, root: &Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get("$ref") {
                let pointer = target.strip_prefix('#').unwrap();
                assert!(root.pointer(pointer).is_some(), "{target} leads nowhere");
            }
            fields.values().for_each(|value| check_references(value, root));
        }
        Value::Array(items) => items.iter().for_each(|item| check_references(item, root)),
        _ => {}
    }
}

#[test]
fn the_index_names_each_group_version_by_its_content() {
    let documents = documents();
    let index: Value = serde_json::from_slice(&documents.v3_index("/clusters/a")).unwrap();
    let urls: Vec<_> = index["paths"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(path, entry)| (path.clone(), entry["serverRelativeURL"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(
        urls.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
        ["api/v1", "apis/apps/v1", "apis/example.com/v1"]
    );
    let hash = documents.v3("api/v1").unwrap().hash;
    assert_eq!(urls[0].1, format!("/clusters/a/openapi/v3/api/v1?hash={hash}"));
    assert_eq!(hash, self::documents().v3("api/v1").unwrap().hash);
    assert_ne!(hash, documents.v3("apis/apps/v1").unwrap().hash);
    assert!(documents.v3("apis/none/v1").is_none());
}

#[test]
fn shared_types_are_named_once() {
    let document = v3("api/v1");
    check_references(&document, &document);
    let schemas = &document["components"]["schemas"];
    let pod = &schemas["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["description"], "A Pod.");
    assert_eq!(pod["x-kubernetes-group-version-kind"], json!([{"group": "", "version": "v1", "kind": "Pod"}]));
    assert_eq!(pod["properties"]["apiVersion"]["type"], "string");
    assert_eq!(pod["properties"]["spec"]["allOf"][0]["$ref"], "#/components/schemas/io.k8s.api.core.v1.PodSpec");
    assert_eq!(pod["properties"]["spec"]["default"], json!({}));
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["items"], json!({"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}));
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert!(schemas["io.k8s.api.core.v1.PodSpec"].get("default").is_none());
    assert_eq!(schemas[crate::schema::QUANTITY]["oneOf"][1]["type"], "number");
    assert_eq!(
        schemas["io.k8s.api.core.v1.PodList"]["properties"]["items"]["items"]["$ref"],
        "#/components/schemas/io.k8s.api.core.v1.Pod"
    );
    assert!(schemas.get("io.k8s.api.apps.v1.ReplicaSet").is_none());
    for name in ["DeleteOptions", "Status", "WatchEvent", "ListMeta"] {
        assert!(schemas.get(format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")).is_some(), "{name}");
    }
}

/// What kubectl looks for: the kind of a GET, patch media types, and `fieldValidation`.
#[test]
fn operations_tell_clients_what_is_supported() {
    let document = v3("api/v1");
    let item = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"];
    assert_eq!(item["get"]["x-kubernetes-group-version-kind"], json!({"group": "", "version": "v1", "kind": "Pod"}));
    assert_eq!(item["get"]["operationId"], "readCoreV1NamespacedPod");
    let patch = &item["patch"];
    assert_eq!(patch["x-kubernetes-action"], "patch");
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some());
    let names: Vec<_> = patch["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let collection = &document["paths"]["/api/v1/namespaces/{namespace}/pods"];
    assert_eq!(collection["delete"]["operationId"], "deleteCoreV1CollectionNamespacedPod");
    assert_eq!(collection["get"]["x-kubernetes-action"], "list");
    assert_eq!(document["paths"]["/api/v1/pods"]["get"]["operationId"], "listCoreV1PodForAllNamespaces");
    let exec = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/exec"];
    assert_eq!(exec["post"]["operationId"], "connectCoreV1PostNamespacedPodExec");
    assert_eq!(exec["get"]["x-kubernetes-group-version-kind"]["kind"], "PodExecOptions");
    let log = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/log"]["get"];
    assert_eq!(log["responses"]["200"]["content"]["text/plain"]["schema"], json!({"type": "string"}));
    assert_eq!(
        document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/status"]["put"]["operationId"],
        "replaceCoreV1NamespacedPodStatus"
    );

    let document = v3("apis/apps/v1");
    check_references(&document, &document);
    let scale = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/replicasets/{name}/scale"];
    assert_eq!(
        scale["get"]["x-kubernetes-group-version-kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    assert!(document["components"]["schemas"].get("io.k8s.api.autoscaling.v1.ScaleSpec").is_some());
}

#[test]
fn custom_kinds_are_named_by_their_group() {
    let document = v3("apis/example.com/v1");
    check_references(&document, &document);
    let widget = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(widget["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    assert_eq!(
        widget["properties"]["metadata"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    let patch = &document["paths"]["/apis/example.com/v1/widgets/{name}"]["patch"];
    assert_eq!(patch["operationId"], "patchExampleComV1Widget");
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
}

#[test]
fn version_2_says_the_same() {
    let document: Value = serde_json::from_slice(&documents().v2().json).unwrap();
    check_references(&document, &document);
    assert_eq!(document["swagger"], "2.0");
    let pod = &document["definitions"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["properties"]["spec"]["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    assert_eq!(document["definitions"][crate::schema::QUANTITY]["type"], "string");
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert!(patch["consumes"].as_array().unwrap().contains(&json!("application/strategic-merge-patch+json")));
    assert_eq!(patch["parameters"][0]["in"], "body");
    assert!(
        patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation" && p["type"] == "string")
    );
    assert!(document["paths"].get("/apis/example.com/v1/widgets").is_some());
    assert!(!String::from_utf8_lossy(&documents().v2().json).contains("#/components/"));
}

#[test]
fn given_types_take_precedence() {
    let definition = definition(
        gvk("", "v1", "Pod"),
        "pods",
        object(
            Some("io.k8s.api.core.v1.Pod"),
            "",
            vec![("spec", Arc::new(object(Some("x.Spec"), "how a field is used", vec![])))],
        ),
    );
    let given = BTreeMap::from([("x.Spec".to_owned(), Arc::new(object(Some("x.Spec"), "what the type is", vec![])))]);
    let document: Value =
        serde_json::from_slice(&OpenApi::with_components(vec![Arc::new(definition)], given).v3("api/v1").unwrap().json)
            .unwrap();
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["x.Spec"]["description"], "what the type is");
    assert_eq!(schemas["io.k8s.api.core.v1.Pod"]["properties"]["spec"]["description"], "how a field is used");
}
