//! The product's kinds as the API server serves them: schemas from the Rust types, columns, rules.

use crate::{Cluster, GROUP, NodeClaim, VERSION, rules};
use apimachinery::builtin::schemas::{Components, Converter};
use apimachinery::definition::{
    Audience, Cell, ConnectSubresource, GroupVersionKind, Names, PrinterColumn, ResourceDefinition, Rules, Scope,
    Subresources,
};
use apimachinery::schema::{ListType, Schema};
use std::sync::{Arc, OnceLock};

/// Subresource of a Cluster whose creation answers with a kubeconfig.
pub const KUBECONFIG: &str = "kubeconfig";

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The product's kinds. Built on first use; cloning shares the schemas.
#[must_use]
pub fn definitions() -> Vec<ResourceDefinition> {
    static DEFINITIONS: OnceLock<Vec<ResourceDefinition>> = OnceLock::new();
    DEFINITIONS.get_or_init(build).clone()
}

fn build() -> Vec<ResourceDefinition> {
    let mut converter = Converter::default();
    converter.add::<Cluster>();
    converter.add::<NodeClaim>();
    let components = converter.finish();
    let mut cluster = definition(&components, "Cluster", "clusters", rules::CLUSTER);
    cluster.names.short_names = vec!["vc".into()];
    cluster.subresources.connect = vec![ConnectSubresource {
        name: KUBECONFIG.into(),
        kind: GroupVersionKind { group: GROUP.into(), version: VERSION.into(), kind: "Kubeconfig".into() },
        verbs: vec!["create".into()],
    }];
    cluster.columns = vec![
        column("Phase", "string", ".status.phase", 0, "Where the cluster is in its life."),
        column("Nodes", "integer", ".status.nodes", 0, "Nodes that the cluster has."),
        column("Logical cluster", "string", ".status.logicalCluster", 1, "Name of the cluster on the server."),
        age(),
    ];
    let mut claim = definition(&components, "NodeClaim", "nodeclaims", rules::NODE_CLAIM);
    claim.columns = vec![
        column("Cluster", "string", ".spec.clusterName", 0, "The cluster that the node is for."),
        column("Node", "string", ".spec.nodeName", 0, "Name of the Node."),
        column("Phase", "string", ".status.phase", 0, "Where the claim is in its life."),
        age(),
    ];
    vec![cluster, claim]
}

fn definition(components: &Components, kind: &str, plural: &str, rules: Rules) -> ResourceDefinition {
    let mut schema = components.get(kind).map(|schema| (**schema).clone()).unwrap_or_default();
    conditions_are_a_map(&mut schema);
    ResourceDefinition {
        gvk: GroupVersionKind { group: GROUP.into(), version: VERSION.into(), kind: kind.into() },
        names: Names {
            plural: plural.into(),
            singular: kind.to_lowercase(),
            kind: kind.into(),
            short_names: Vec::new(),
            categories: Vec::new(),
        },
        scope: Scope::Cluster,
        verbs: VERBS.map(String::from).into(),
        schema: Arc::new(schema),
        columns: Vec::new(),
        subresources: Subresources { status: true, ..Subresources::default() },
        audience: Audience::Workspaces,
        selectable_fields: Vec::new(),
        rules,
    }
}

/// Conditions merge by their type, as everywhere.
fn conditions_are_a_map(schema: &mut Schema) {
    let status = schema.properties.get_mut("status").map(Arc::make_mut);
    if let Some(conditions) = status.and_then(|status| status.properties.get_mut("conditions")) {
        let conditions = Arc::make_mut(conditions);
        conditions.list_type = Some(ListType::Map);
        conditions.list_map_keys = vec!["type".into()];
    }
}

fn column(name: &str, type_: &str, path: &str, priority: i32, description: &str) -> PrinterColumn {
    PrinterColumn {
        name: name.into(),
        type_: type_.into(),
        format: String::new(),
        description: description.into(),
        priority,
        cell: Cell::Path(path.into()),
    }
}

fn age() -> PrinterColumn {
    column("Age", "date", ".metadata.creationTimestamp", 0, "Time since the object was created.")
}

#[cfg(test)]
mod tests;
