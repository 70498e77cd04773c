//! Namespaces: removes everything in one that is being deleted, then lets it go.

use crate::context::Context;
use apimachinery::definition::{Audience, ResourceDefinition, Scope};
use async_trait::async_trait;
use controller_runtime::{
    Action, ApiKind, BoxError, Client, ClientError, Controller, DeleteOptions, ListOptions, ObjectKey, Propagation,
    Reconciler, Store,
};
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use runtime::TaskSet;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The finalizer that this controller takes off.
const FINALIZER: &str = "kubernetes";
/// How soon to look again at what has finalizers or a grace period.
const REMAINING: Duration = Duration::from_secs(1);

pub(crate) fn start(context: &Context, tasks: &mut TaskSet) {
    let namespaces = context.informers.of::<Namespace>();
    let reconciler = Namespaces {
        client: context.client.clone(),
        namespaces: namespaces.store().clone(),
        kinds: deletable(&context.options.definitions),
    };
    Controller::new("namespaces", context.options.controller)
        .watch(&namespaces, |change| {
            let deleted = change.after.as_ref().is_some_and(|now| now.metadata.deletion_timestamp.is_some());
            if deleted { vec![change.key.clone()] } else { Vec::new() }
        })
        .spawn(tasks, Arc::new(reconciler));
}

/// A kind whose objects go with their namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Deletable {
    kind: ApiKind,
    /// Whether they can be deleted all at once.
    collection: bool,
}

/// Every namespaced kind that can be listed and deleted, once, whatever its versions.
fn deletable(definitions: &[ResourceDefinition]) -> Vec<Deletable> {
    let mut kinds = BTreeMap::new();
    for definition in definitions {
        let has = |verb: &str| definition.verbs.iter().any(|known| known == verb);
        if definition.scope != Scope::Namespaced
            || definition.audience != Audience::Every
            || !has("list")
            || !has("delete")
        {
            continue;
        }
        let kind = ApiKind {
            group: definition.gvk.group.clone().into(),
            version: definition.gvk.version.clone().into(),
            kind: definition.gvk.kind.clone().into(),
            plural: definition.names.plural.clone().into(),
            namespaced: true,
        };
        kinds.entry(definition.group_resource()).or_insert(Deletable { kind, collection: has("deletecollection") });
    }
    kinds.into_values().collect()
}

struct Namespaces {
    client: Client,
    namespaces: Store<Namespace>,
    kinds: Vec<Deletable>,
}

#[async_trait]
impl Reconciler for Namespaces {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, BoxError> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(Action::Done) };
        if namespace.metadata.deletion_timestamp.is_none() {
            return Ok(Action::Done);
        }
        let held = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
        if !held.is_some_and(|held| held.iter().any(|finalizer| finalizer == FINALIZER)) {
            return Ok(Action::Done);
        }
        let client = self.client.cluster(key.cluster.clone());
        let mut remaining = Remaining::default();
        for kind in &self.kinds {
            if let Err(error) = empty(&client, &key.name, kind, &mut remaining).await {
                remaining.failures.push(format!("{}: {error}", kind.kind.qualified()));
            }
        }
        if remaining.is_empty() {
            return match finalize(&client, &key.name).await {
                Err(error) if error.is_not_found() => Ok(Action::Done),
                Err(error) => Err(error.into()),
                Ok(()) => Ok(Action::Done),
            };
        }
        let status = remaining.status(namespace.status.clone().unwrap_or_default(), jiff::Timestamp::now());
        if namespace.status.as_ref() != Some(&status) {
            let mut updated = Namespace::clone(&namespace);
            updated.status = Some(status);
            match client.update_status(&updated).await {
                Ok(updated) => self.namespaces.observe(&key.cluster, &updated),
                Err(error) if error.is_not_found() => return Ok(Action::Done),
                Err(error) => return Err(error.into()),
            }
        }
        if remaining.failures.is_empty() {
            Ok(Action::After(REMAINING))
        } else {
            Err(remaining.failures.join("; ").into())
        }
    }
}

/// Deletes the objects of one kind and notes what stays.
async fn empty(
    client: &Client,
    namespace: &str,
    deletable: &Deletable,
    remaining: &mut Remaining,
) -> Result<(), ClientError> {
    let objects = client.dynamic(deletable.kind.clone());
    let everything = ListOptions::default();
    let options = DeleteOptions::default().with_propagation(Propagation::Background);
    let mut left = objects.list(namespace, &everything).await?;
    if left.iter().any(|object| object["metadata"]["deletionTimestamp"].is_null()) {
        if deletable.collection {
            objects.delete_collection(namespace, &everything, &options).await?;
        } else {
            for object in &left {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                match objects.delete(namespace, name, &options).await {
                    Err(error) if !error.is_not_found() => return Err(error),
                    _ => {}
                }
            }
        }
        left = objects.list(namespace, &everything).await?;
    }
    remaining.note(&deletable.kind, &left);
    Ok(())
}

/// Takes the finalizer off the namespace as it is now.
async fn finalize(client: &Client, name: &str) -> Result<(), ClientError> {
    let namespaces = client.resource::<Namespace>();
    let Some(mut namespace) = namespaces.get("", name).await? else { return Ok(()) };
    if namespace.metadata.deletion_timestamp.is_none() {
        return Ok(());
    }
    if let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    namespaces.update_subresource("", name, "finalize", &namespace).await.map(drop)
}

/// What still is in a namespace that is being deleted.
#[derive(Debug, Default)]
struct Remaining {
    /// Kinds and how many objects of each.
    kinds: Vec<(String, usize)>,
    /// Finalizers and how many objects have each.
    finalizers: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Remaining {
    fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.failures.is_empty()
    }

    fn note(&mut self, kind: &ApiKind, objects: &[Value]) {
        if objects.is_empty() {
            return;
        }
        self.kinds.push((format!("{}.{}", kind.plural, kind.group), objects.len()));
        for object in objects {
            for finalizer in object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
            {
                *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }

    fn status(&self, mut status: NamespaceStatus, now: jiff::Timestamp) -> NamespaceStatus {
        let kinds: Vec<String> =
            self.kinds.iter().map(|(kind, n)| format!("{kind} has {n} resource instances")).collect();
        let finalizers: Vec<String> =
            self.finalizers.iter().map(|(name, n)| format!("{name} in {n} resource instances")).collect();
        let conditions = status.conditions.get_or_insert_default();
        set(
            conditions,
            "NamespaceDeletionContentFailure",
            self.failures
                .is_empty()
                .then_some(("ContentDeleted", "All content successfully deleted, may be waiting on finalization")),
            "ContentDeletionFailed",
            format!(
                "Failed to delete all resource types, {} remaining: {}",
                self.failures.len(),
                self.failures.join(", ")
            ),
            now,
        );
        set(
            conditions,
            "NamespaceContentRemaining",
            kinds.is_empty().then_some(("ContentRemoved", "All content successfully removed")),
            "SomeResourcesRemain",
            format!("Some resources are remaining: {}", kinds.join(", ")),
            now,
        );
        set(
            conditions,
            "NamespaceFinalizersRemaining",
            finalizers.is_empty().then_some(("ContentHasNoFinalizers", "All content-preserving finalizers finished")),
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {}", finalizers.join(", ")),
            now,
        );
        status
    }
}

/// Sets a condition: False with `fine`, or else True with a reason and a message.
fn set(
    conditions: &mut Vec<NamespaceCondition>,
    type_: &str,
    fine: Option<(&str, &str)>,
    reason: &str,
    message: String,
    now: jiff::Timestamp,
) {
    let (status, reason, message) = match fine {
        Some((reason, message)) => ("False", reason, message.to_owned()),
        None => ("True", reason, message),
    };
    let known = conditions.iter().position(|condition| condition.type_ == type_);
    let since = known.and_then(|at| conditions.get(at)).filter(|known| known.status == status);
    let condition = NamespaceCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: since.map_or(Some(Time(now)), |known| known.last_transition_time.clone()),
    };
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests;
