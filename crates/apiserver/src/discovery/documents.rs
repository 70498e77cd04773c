//! The discovery documents: `/api`, `/apis`, per group and version, and aggregated.

use apimachinery::definition::{ResourceDefinition, Scope};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// A document and the hash of its content.
#[derive(Clone, Debug)]
pub(crate) struct Discovered {
    pub(crate) json: Bytes,
    pub(crate) etag: String,
}

impl Discovered {
    fn new(value: &Value) -> Self {
        let json = Bytes::from(value.to_string());
        let etag = format!("\"{}\"", Uuid::new_v5(&Uuid::NAMESPACE_URL, &json).simple().to_string().to_uppercase());
        Self { json, etag }
    }
}

/// Discovery of one set of definitions.
#[derive(Debug)]
pub(crate) struct Documents {
    by_path: BTreeMap<String, Discovered>,
    aggregated: BTreeMap<&'static str, Discovered>,
}

/// One group: its versions with their definitions, as they were given.
struct Group<'a> {
    name: &'a str,
    versions: Vec<(&'a str, Vec<&'a ResourceDefinition>)>,
}

impl Documents {
    pub(super) fn new(definitions: &[Arc<ResourceDefinition>]) -> Self {
        let groups = groups(definitions);
        let mut by_path = BTreeMap::new();
        let core: Vec<&str> =
            groups.iter().filter(|g| g.name.is_empty()).flat_map(|g| g.versions.iter().map(|(v, _)| *v)).collect();
        let versions = json!({"kind": "APIVersions", "versions": core, "serverAddressByClientCIDRs": []});
        by_path.insert("/api".to_owned(), Discovered::new(&versions));
        let named: Vec<&Group<'_>> = groups.iter().filter(|g| !g.name.is_empty()).collect();
        let list: Vec<Value> = named.iter().map(|group| group_json(group)).collect();
        let list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list});
        by_path.insert("/apis".to_owned(), Discovered::new(&list));
        for group in &groups {
            if !group.name.is_empty() {
                let mut value = group_json(group);
                value["kind"] = "APIGroup".into();
                value["apiVersion"] = "v1".into();
                by_path.insert(format!("/apis/{}", group.name), Discovered::new(&value));
            }
            for (version, definitions) in &group.versions {
                let path = if group.name.is_empty() {
                    format!("/api/{version}")
                } else {
                    format!("/apis/{}/{version}", group.name)
                };
                by_path.insert(path, Discovered::new(&resource_list(group.name, version, definitions)));
            }
        }
        let aggregate = |core: bool| {
            let items: Vec<Value> = groups.iter().filter(|g| g.name.is_empty() == core).map(aggregated_group).collect();
            Discovered::new(&json!({
                "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
                "items": items,
            }))
        };
        let aggregated = BTreeMap::from([("/api", aggregate(true)), ("/apis", aggregate(false))]);
        Self { by_path, aggregated }
    }

    /// Every path that has a document.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.by_path.keys().map(String::as_str)
    }

    /// The document at a path.
    pub(crate) fn at(&self, path: &str) -> Option<&Discovered> {
        self.by_path.get(path)
    }

    /// The aggregated (v2) document at `/api` or `/apis`.
    pub(crate) fn aggregated(&self, path: &str) -> Option<&Discovered> {
        self.aggregated.get(path)
    }
}

fn groups(definitions: &[Arc<ResourceDefinition>]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for definition in definitions {
        let gvk = &definition.gvk;
        let at = groups.iter().position(|g| g.name == gvk.group).unwrap_or_else(|| {
            groups.push(Group { name: &gvk.group, versions: Vec::new() });
            groups.len() - 1
        });
        let Some(group) = groups.get_mut(at) else { continue };
        match group.versions.iter_mut().find(|(version, _)| *version == gvk.version) {
            Some((_, found)) => found.push(definition),
            None => group.versions.push((&gvk.version, vec![definition])),
        }
    }
    for (_, definitions) in groups.iter_mut().flat_map(|g| &mut g.versions) {
        definitions.sort_by(|a, b| a.names.plural.cmp(&b.names.plural));
    }
    groups
}

fn group_json(group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, _)| json!({"groupVersion": format!("{}/{version}", group.name), "version": version}))
        .collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": group.name, "versions": versions, "preferredVersion": preferred})
}

/// One subresource as discovery tells it: name, kind with its group and version, verbs.
struct Subresource<'a> {
    name: &'a str,
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    verbs: Vec<&'a str>,
}

fn subresources(definition: &ResourceDefinition) -> Vec<Subresource<'_>> {
    const EDIT: [&str; 3] = ["get", "patch", "update"];
    let gvk = &definition.gvk;
    let mut found: Vec<Subresource<'_>> = definition
        .subresources
        .connect
        .iter()
        .map(|connect| Subresource {
            name: &connect.name,
            group: &connect.kind.group,
            version: &connect.kind.version,
            kind: &connect.kind.kind,
            verbs: connect.verbs.iter().map(String::as_str).collect(),
        })
        .collect();
    if definition.subresources.status {
        let (group, version, kind) = (&gvk.group, &gvk.version, &gvk.kind);
        found.push(Subresource { name: "status", group, version, kind, verbs: EDIT.to_vec() });
    }
    if definition.subresources.scale.is_some() {
        found.push(Subresource {
            name: "scale",
            group: "autoscaling",
            version: "v1",
            kind: "Scale",
            verbs: EDIT.to_vec(),
        });
    }
    found.sort_by(|a, b| a.name.cmp(b.name));
    found
}

fn resource_list(group: &str, version: &str, definitions: &[&ResourceDefinition]) -> Value {
    let mut resources = Vec::new();
    for definition in definitions {
        let namespaced = definition.scope == Scope::Namespaced;
        let mut resource = json!({
            "name": definition.names.plural,
            "singularName": definition.names.singular,
            "namespaced": namespaced,
            "kind": definition.gvk.kind,
            "verbs": definition.verbs,
        });
        if !definition.names.short_names.is_empty() {
            resource["shortNames"] = json!(definition.names.short_names);
        }
        if !definition.names.categories.is_empty() {
            resource["categories"] = json!(definition.names.categories);
        }
        if definition.verbs.iter().any(|verb| verb == "list") {
            resource["storageVersionHash"] = storage_version_hash(definition).into();
        }
        resources.push(resource);
        for sub in subresources(definition) {
            let mut resource = json!({
                "name": format!("{}/{}", definition.names.plural, sub.name),
                "singularName": "",
                "namespaced": namespaced,
                "kind": sub.kind,
                "verbs": sub.verbs,
            });
            if (sub.group, sub.version) != (definition.gvk.group.as_str(), definition.gvk.version.as_str()) {
                resource["group"] = sub.group.into();
                resource["version"] = sub.version.into();
            }
            resources.push(resource);
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
}

fn aggregated_group(group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, definitions)| {
            let resources: Vec<Value> = definitions.iter().map(|definition| aggregated_resource(definition)).collect();
            json!({"version": version, "freshness": "Current", "resources": resources})
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(definition: &ResourceDefinition) -> Value {
    let gvk = &definition.gvk;
    let mut resource = Map::new();
    resource.insert("resource".into(), definition.names.plural.clone().into());
    resource.insert("responseKind".into(), json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind}));
    let scope = if definition.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" };
    resource.insert("scope".into(), scope.into());
    resource.insert("singularResource".into(), definition.names.singular.clone().into());
    resource.insert("verbs".into(), json!(definition.verbs));
    if !definition.names.short_names.is_empty() {
        resource.insert("shortNames".into(), json!(definition.names.short_names));
    }
    if !definition.names.categories.is_empty() {
        resource.insert("categories".into(), json!(definition.names.categories));
    }
    let subresources: Vec<Value> = subresources(definition)
        .iter()
        .map(|sub| {
            json!({
                "subresource": sub.name,
                "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
                "verbs": sub.verbs,
            })
        })
        .collect();
    if !subresources.is_empty() {
        resource.insert("subresources".into(), subresources.into());
    }
    Value::Object(resource)
}

/// Eight bytes of a digest over what is stored, as Kubernetes makes it.
fn storage_version_hash(definition: &ResourceDefinition) -> String {
    use base64::Engine as _;
    let gvk = &definition.gvk;
    let text = format!("{}/{}/{}", gvk.group, gvk.version, gvk.kind);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(digest.as_ref().get(..8).unwrap_or_default())
}
