//! What the server serves: discovery in its three forms, and the OpenAPI documents.
//!
//! Two sets of documents exist, one for workspaces and one for the clusters in them. They are made
//! from the definitions when first asked for and shared by every logical cluster of their kind.

mod documents;
#[cfg(test)]
mod tests;

use apimachinery::definition::{Audience, ConnectSubresource, GroupResource, ResourceDefinition};
use apimachinery::openapi::OpenApi;
use documents::Documents;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Connect subresources that the registry itself serves.
const REGISTRY_SUBRESOURCES: [&str; 3] = ["binding", "eviction", "finalize"];

/// The documents of one kind of logical cluster.
#[derive(Debug)]
pub(crate) struct Served {
    /// Discovery.
    pub(crate) documents: Documents,
    /// OpenAPI.
    pub(crate) openapi: OpenApi,
    definitions: Vec<Arc<ResourceDefinition>>,
}

impl Served {
    fn new(definitions: Vec<Arc<ResourceDefinition>>) -> Self {
        let components = apimachinery::builtin::components();
        let components: BTreeMap<_, _> =
            components.iter().map(|(name, schema)| (name.clone(), Arc::clone(schema))).collect();
        Self {
            documents: Documents::new(&definitions),
            openapi: OpenApi::with_components(definitions.clone(), components),
            definitions,
        }
    }

    /// The definition that a path names.
    pub(crate) fn definition(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<ResourceDefinition>> {
        self.definitions.iter().find(|d| d.gvk.group == group && d.gvk.version == version && d.names.plural == resource)
    }
}

/// Everything that is served, by who sees it.
#[derive(Debug)]
pub(crate) struct Catalog {
    workspaces: Served,
    clusters: Served,
}

impl Catalog {
    /// Documents of `definitions`, without the connect subresources that nothing handles.
    pub(crate) fn new(definitions: &[ResourceDefinition], handled: &HashSet<(GroupResource, String)>) -> Self {
        let visible: Vec<Arc<ResourceDefinition>> =
            definitions.iter().map(|definition| Arc::new(without_unhandled(definition, handled))).collect();
        let clusters = visible.iter().filter(|d| d.audience == Audience::Every).cloned().collect();
        Self { workspaces: Served::new(visible), clusters: Served::new(clusters) }
    }

    /// What a logical cluster serves.
    pub(crate) fn served(&self, workspace: bool) -> &Served {
        if workspace { &self.workspaces } else { &self.clusters }
    }
}

fn without_unhandled(
    definition: &ResourceDefinition,
    handled: &HashSet<(GroupResource, String)>,
) -> ResourceDefinition {
    let mut visible = definition.clone();
    let resource = definition.group_resource();
    visible.subresources.connect.retain(|ConnectSubresource { name, .. }| {
        REGISTRY_SUBRESOURCES.contains(&name.as_str()) || handled.contains(&(resource.clone(), name.clone()))
    });
    visible
}
