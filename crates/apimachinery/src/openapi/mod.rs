//! OpenAPI v2 and v3 documents, generated from definitions when first asked for.
//!
//! The form is that of a Kubernetes API server: shared types are named once, operations carry
//! `x-kubernetes-action` and `x-kubernetes-group-version-kind`, lists carry their merge facts.
//! `kubectl explain`, `apply` and `--validate` depend on it.

mod components;
mod meta;
mod operations;
mod paths;
mod v2;
mod v3;

#[cfg(test)]
mod tests;

use crate::definition::{GroupVersionKind, ResourceDefinition};
use crate::schema::Schema;
use components::Components;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// What documents say of themselves.
const TITLE: &str = "Kubernetes";
/// Version of the API that the definitions follow.
const API_VERSION: &str = "v1.36";

/// A generated document.
#[derive(Clone, Debug)]
pub struct Document {
    /// JSON.
    pub json: Arc<[u8]>,
    /// Hash of the content, for `ETag` and the index's `?hash=`.
    pub hash: Arc<str>,
}

impl Document {
    fn new(value: &Value) -> Self {
        let json = value.to_string().into_bytes();
        let hash =
            Uuid::new_v5(&Uuid::NAMESPACE_URL, &json).simple().encode_upper(&mut Uuid::encode_buffer()).to_owned();
        Self { json: json.into(), hash: hash.into() }
    }
}

/// One group-version: its definitions and, once asked for, its v3 document.
#[derive(Debug)]
struct GroupVersion {
    definitions: Vec<Arc<ResourceDefinition>>,
    document: OnceLock<Document>,
}

/// The OpenAPI documents of one set of definitions.
#[derive(Debug)]
pub struct OpenApi {
    /// By path in the index: `api/v1`, `apis/apps/v1`.
    group_versions: BTreeMap<String, GroupVersion>,
    /// Types given by name, which take precedence over what is found inside definitions.
    given: BTreeMap<String, Arc<Schema>>,
    components: OnceLock<Components>,
    v2: OnceLock<Document>,
}

impl OpenApi {
    /// Documents for `definitions`; nothing is generated yet.
    #[must_use]
    pub fn new(definitions: Vec<Arc<ResourceDefinition>>) -> Self {
        Self::with_components(definitions, BTreeMap::new())
    }

    /// Documents for `definitions`, whose shared types are described by `components` (by name,
    /// such as `io.k8s.api.core.v1.PodSpec`) where they are in it, and otherwise as they are found
    /// in the definitions.
    #[must_use]
    pub fn with_components(
        definitions: Vec<Arc<ResourceDefinition>>,
        components: BTreeMap<String, Arc<Schema>>,
    ) -> Self {
        let mut group_versions = BTreeMap::new();
        for definition in definitions {
            let entry = group_versions.entry(index_path(&definition.gvk));
            let group_version =
                entry.or_insert_with(|| GroupVersion { definitions: Vec::new(), document: OnceLock::new() });
            group_version.definitions.push(definition);
        }
        Self { group_versions, given: components, components: OnceLock::new(), v2: OnceLock::new() }
    }

    /// The index at `/openapi/v3`. `prefix` is put before each URL: empty, or
    /// `/clusters/<name>`.
    #[must_use]
    pub fn v3_index(&self, prefix: &str) -> Arc<[u8]> {
        let mut paths = Map::new();
        for (path, group_version) in &self.group_versions {
            let hash = self.document(group_version).hash;
            paths.insert(path.clone(), json!({"serverRelativeURL": format!("{prefix}/openapi/v3/{path}?hash={hash}")}));
        }
        json!({ "paths": paths }).to_string().into_bytes().into()
    }

    /// The document of a group-version, by the path of the index: `api/v1`, `apis/apps/v1`.
    #[must_use]
    pub fn v3(&self, path: &str) -> Option<Document> {
        self.group_versions.get(path).map(|group_version| self.document(group_version))
    }

    /// The document at `/openapi/v2`.
    #[must_use]
    pub fn v2(&self) -> Document {
        let all = || self.group_versions.values().flat_map(|group_version| &group_version.definitions);
        self.v2.get_or_init(|| Document::new(&v2::document(self.components(), all()))).clone()
    }

    fn document(&self, group_version: &GroupVersion) -> Document {
        let generate = || Document::new(&v3::document(self.components(), &group_version.definitions));
        group_version.document.get_or_init(generate).clone()
    }

    fn components(&self) -> &Components {
        let all = || self.group_versions.values().flat_map(|group_version| &group_version.definitions);
        self.components.get_or_init(|| Components::collect(&self.given, all()))
    }
}

/// `api/v1` or `apis/<group>/<version>`.
fn index_path(gvk: &GroupVersionKind) -> String {
    if gvk.group.is_empty() { format!("api/{}", gvk.version) } else { format!("apis/{}/{}", gvk.group, gvk.version) }
}

fn gvk_json(gvk: &GroupVersionKind) -> Value {
    json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind})
}
