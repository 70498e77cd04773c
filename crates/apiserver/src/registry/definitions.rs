//! The kinds that are served, and how to find them.

use super::OpenError;
use super::expire;
use super::logical::LogicalClusterKind;
use super::value::Object;
use apimachinery::definition::{Audience, GroupResource, ResourceDefinition, Scope};
use apimachinery::schema::Schema;
use apimachinery::validation::NameRule;
use serde_json::Value;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

/// A kind as the registry serves it; derefs to its definition.
#[derive(Debug)]
pub struct Kind {
    definition: ResourceDefinition,
    resource: GroupResource,
    prefix: String,
    name_rule: NameRule,
    expires: bool,
    /// Selectable fields with what an absent one reads as.
    fields: Vec<(String, &'static str)>,
}

impl Deref for Kind {
    type Target = ResourceDefinition;

    fn deref(&self) -> &ResourceDefinition {
        &self.definition
    }
}

impl Kind {
    pub(super) fn new(definition: ResourceDefinition) -> Self {
        let resource = definition.group_resource();
        let fields =
            definition.selectable_fields.iter().map(|path| (path.clone(), absent(&definition.schema, path))).collect();
        let name_rule = apimachinery::builtin::name_rule(&resource);
        Self {
            prefix: super::keys::kind(&resource),
            definition,
            expires: expire::expires(&resource),
            resource,
            name_rule,
            fields,
        }
    }

    /// Group and plural.
    #[must_use]
    pub fn resource(&self) -> &GroupResource {
        &self.resource
    }

    /// Whether its objects live in namespaces.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.definition.scope == Scope::Namespaced
    }

    /// Whether it is served in clusters of this kind.
    #[must_use]
    pub fn is_served_in(&self, cluster: LogicalClusterKind) -> bool {
        self.definition.audience == Audience::Every || cluster == LogicalClusterKind::Workspace
    }

    /// Whether its objects are kept: reviews are answered and forgotten.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.definition.verbs.iter().any(|verb| verb == "get")
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn name_rule(&self) -> NameRule {
        self.name_rule
    }

    /// The stored form of an object.
    pub(super) fn encode(&self, object: &Value) -> Object {
        let fields = self.fields.iter().map(|(path, absent)| (path.as_str(), field(object, path, absent)));
        Object::encode(object, fields.chain(self.expires.then(expire::written_now)))
    }
}

/// What an absent field of its type reads as in a field selector, as in Go.
fn absent(schema: &Schema, path: &str) -> &'static str {
    let node = path.split('.').try_fold(schema, |schema, name| schema.field(name));
    match node.map(|node| node.type_.as_str()) {
        Some("boolean") => "false",
        Some("integer" | "number") => "0",
        _ => "",
    }
}

fn field(object: &Value, path: &str, absent: &str) -> String {
    match path.split('.').try_fold(object, |value, name| value.get(name)) {
        None | Some(Value::Null) => absent.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Every kind, by group, version and resource.
#[derive(Debug)]
pub struct Definitions {
    kinds: Vec<Arc<Kind>>,
    by_resource: HashMap<GroupResource, usize>,
}

impl Definitions {
    pub(super) fn new(definitions: Vec<ResourceDefinition>) -> Result<Self, OpenError> {
        let kinds: Vec<_> = definitions.into_iter().map(|definition| Arc::new(Kind::new(definition))).collect();
        let mut by_resource = HashMap::new();
        for (index, kind) in kinds.iter().enumerate() {
            if by_resource.insert(kind.resource.clone(), index).is_some() {
                return Err(OpenError::DuplicateDefinition(kind.resource.to_string()));
            }
        }
        Ok(Self { kinds, by_resource })
    }

    /// Every kind, in the order of discovery.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter()
    }

    /// The kinds that clusters of one kind serve, in the order of discovery.
    pub fn served_in(&self, cluster: LogicalClusterKind) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter().filter(move |kind| kind.is_served_in(cluster))
    }

    /// A kind by its storage.
    #[must_use]
    pub fn resource(&self, resource: &GroupResource) -> Option<&Arc<Kind>> {
        self.by_resource.get(resource).and_then(|index| self.kinds.get(*index))
    }

    /// A kind by the path it is served at.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Kind>> {
        let resource = GroupResource { group: group.to_owned(), resource: resource.to_owned() };
        self.resource(&resource).filter(|kind| kind.gvk.version == version)
    }
}
