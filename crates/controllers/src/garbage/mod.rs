//! The garbage collector: deletes what has lost its owners, holds an owner until its dependents are
//! gone (foreground), and sets dependents free (orphan).

mod decide;
mod graph;

use crate::context::Context;
use crate::meta::uid;
use apimachinery::definition::{Audience, ResourceDefinition, Scope};
use async_trait::async_trait;
use controller_runtime::{
    Action, ApiKind, BoxError, Client, ClientError, Controller, DeleteOptions, ObjectKey, Patch, Propagation,
    Reconciler,
};
use decide::{Owner, Verdict, verdict};
use graph::{Graph, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use runtime::TaskSet;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// With it an owner waits for its dependents.
const FOREGROUND: &str = "foregroundDeletion";
/// With it an owner waits until its dependents are set free.
const ORPHAN: &str = "orphan";

pub(crate) fn start(context: &Context, tasks: &mut TaskSet) {
    let controller = Controller::<Node>::new("garbage", context.options.controller);
    let owners = owner_kinds(&context.options.definitions);
    let served = |kind: &ApiKind| owners.contains_key(&(kind.group.to_string(), kind.kind.to_string()));
    let graph = Graph::new(&context.informers, controller.queue().clone(), &served);
    let controller = graph.watch(&context.informers, controller);
    let reconciler = Garbage { client: context.client.clone(), graph, owners };
    controller.spawn(tasks, Arc::new(reconciler));
}

/// Kinds by API group and kind, as owner references name them.
fn owner_kinds(definitions: &[ResourceDefinition]) -> BTreeMap<(String, String), ApiKind> {
    let mut kinds = BTreeMap::new();
    for definition in definitions.iter().filter(|definition| definition.audience == Audience::Every) {
        let kind = ApiKind {
            group: definition.gvk.group.clone().into(),
            version: definition.gvk.version.clone().into(),
            kind: definition.gvk.kind.clone().into(),
            plural: definition.names.plural.clone().into(),
            namespaced: definition.scope == Scope::Namespaced,
        };
        kinds.entry((definition.gvk.group.clone(), definition.gvk.kind.clone())).or_insert(kind);
    }
    kinds
}

struct Garbage {
    client: Client,
    graph: Arc<Graph>,
    owners: BTreeMap<(String, String), ApiKind>,
}

#[async_trait]
impl Reconciler<Node> for Garbage {
    async fn reconcile(&self, node: &Node) -> Result<Action, BoxError> {
        let Some(metadata) = self.graph.get(node) else { return Ok(Action::Done) };
        let client = self.client.cluster(node.key.cluster.clone());
        let done = if metadata.deletion_timestamp.is_some() {
            self.let_go(&client, node, &metadata).await
        } else if metadata.owner_references.iter().flatten().next().is_some() {
            self.collect(&client, node, &metadata).await
        } else {
            Ok(())
        };
        match done {
            Err(error) if error.is_not_found() => Ok(Action::Done),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(Action::Done),
        }
    }
}

impl Garbage {
    /// An object that is being deleted: does what its finalizers ask for.
    async fn let_go(&self, client: &Client, node: &Node, metadata: &ObjectMeta) -> Result<(), ClientError> {
        let has = |wanted: &str| metadata.finalizers.iter().flatten().any(|finalizer| finalizer == wanted);
        if has(ORPHAN) {
            for (dependent, of) in self.graph.dependents(&node.key.cluster, uid(metadata)) {
                let left = without(&of, &[uid(metadata)]);
                match self.set_owners(client, &dependent, &of, &left).await {
                    Err(error) if !error.is_not_found() => return Err(error),
                    _ => {}
                }
            }
            return self.remove_finalizer(client, node, metadata, ORPHAN).await;
        }
        if has(FOREGROUND) {
            let dependents = self.graph.dependents(&node.key.cluster, uid(metadata));
            let blocks = |of: &ObjectMeta| {
                let owners = of.owner_references.iter().flatten();
                owners.into_iter().any(|owner| owner.uid == uid(metadata) && owner.block_owner_deletion == Some(true))
            };
            if !dependents.iter().any(|(_, of)| blocks(of)) {
                return self.remove_finalizer(client, node, metadata, FOREGROUND).await;
            }
            // They are deleted in their own time; each that goes brings this object here again.
            for (dependent, of) in dependents {
                if of.deletion_timestamp.is_none() {
                    self.graph.enqueue(dependent);
                }
            }
        }
        Ok(())
    }

    /// An object with owners: deletes it when none is left, and drops references to those that are
    /// gone.
    async fn collect(&self, client: &Client, node: &Node, metadata: &ObjectMeta) -> Result<(), ClientError> {
        let mut owners = Vec::new();
        for reference in metadata.owner_references.iter().flatten() {
            owners.push((reference.uid.clone(), self.owner(client, node, reference).await?));
        }
        // Only whoever is awaited is asked for dependents: that takes a look at every kind.
        let awaited = owners.iter().any(|(_, owner)| *owner == Owner::Waiting);
        let has_dependents = awaited && self.graph.has_dependents(&node.key.cluster, uid(metadata));
        match verdict(metadata, &owners, has_dependents) {
            Verdict::Keep => Ok(()),
            Verdict::Drop(uids) => {
                let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
                self.set_owners(client, node, metadata, &without(metadata, &uids)).await
            }
            Verdict::Delete(propagation) => {
                let options = DeleteOptions::of_uid(uid(metadata)).with_propagation(propagation);
                let objects = client.dynamic(self.graph.kind(node).clone());
                match objects.delete(&node.key.namespace, &node.key.name, &options).await {
                    Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
                    answer => answer,
                }
            }
        }
    }

    /// What became of an owner. The API server is asked before an owner counts as gone.
    async fn owner(&self, client: &Client, node: &Node, reference: &OwnerReference) -> Result<Owner, ClientError> {
        let (group, _) = reference.api_version.rsplit_once('/').unwrap_or(("", &reference.api_version));
        let Some(kind) = self.owners.get(&(group.to_owned(), reference.kind.clone())) else {
            // Nothing is known of the kind, so nothing is concluded.
            return Ok(Owner::There);
        };
        let namespace: &str = if kind.namespaced { &node.key.namespace } else { "" };
        if kind.namespaced && namespace.is_empty() {
            // Cluster-scoped objects cannot have such owners; not ours to judge.
            return Ok(Owner::There);
        }
        let key = ObjectKey::new(node.key.cluster.clone(), namespace, &*reference.name);
        if let Some(known) = self.graph.find(kind, key).filter(|known| uid(known) == reference.uid) {
            return Ok(Owner::of(&known));
        }
        let live = client.dynamic(kind.clone()).get(namespace, &reference.name).await?;
        let live = live.and_then(|mut live| serde_json::from_value::<ObjectMeta>(live["metadata"].take()).ok());
        Ok(live.filter(|live| uid(live) == reference.uid).map_or(Owner::Gone, |live| Owner::of(&live)))
    }

    async fn remove_finalizer(
        &self,
        client: &Client,
        node: &Node,
        metadata: &ObjectMeta,
        finalizer: &str,
    ) -> Result<(), ClientError> {
        let left: Vec<&String> = metadata.finalizers.iter().flatten().filter(|known| *known != finalizer).collect();
        let patch = json!({"metadata": {
            "finalizers": left, "uid": metadata.uid, "resourceVersion": metadata.resource_version,
        }});
        self.patch(client, node, patch).await
    }

    async fn set_owners(
        &self,
        client: &Client,
        node: &Node,
        metadata: &ObjectMeta,
        owners: &[OwnerReference],
    ) -> Result<(), ClientError> {
        let owners = if owners.is_empty() { json!(null) } else { json!(owners) };
        let patch = json!({"metadata": {
            "ownerReferences": owners, "uid": metadata.uid, "resourceVersion": metadata.resource_version,
        }});
        self.patch(client, node, patch).await
    }

    async fn patch(&self, client: &Client, node: &Node, patch: serde_json::Value) -> Result<(), ClientError> {
        let objects = client.dynamic(self.graph.kind(node).clone());
        objects.patch(&node.key.namespace, &node.key.name, &Patch::Merge(patch)).await.map(drop)
    }
}

fn without(metadata: &ObjectMeta, uids: &[&str]) -> Vec<OwnerReference> {
    metadata.owner_references.iter().flatten().filter(|owner| !uids.contains(&owner.uid.as_str())).cloned().collect()
}

/// How a deletion that has finalizers for it goes on.
fn propagation(metadata: &ObjectMeta) -> Propagation {
    let has = |wanted: &str| metadata.finalizers.iter().flatten().any(|finalizer| finalizer == wanted);
    if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

#[cfg(test)]
mod tests;
