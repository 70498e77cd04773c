//! `PodControl`: creates, deletes, adopts and releases the Pods of a workload, with its events.

use crate::meta::{controller_reference, name, uid};
use controller_runtime::{
    ApiResource, BoxError, Client, ClientError, DeleteOptions, EventRecorder, ObjectKey, Patch, Store,
};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;
use std::sync::Arc;

/// Requests for one workload that are under way at a time.
const CONCURRENT: usize = 16;

/// The effects on Pods that workload controllers share. They are seen in the store at once.
#[derive(Clone, Debug)]
pub(crate) struct PodControl {
    pub(crate) client: Client,
    pub(crate) pods: Store<Pod>,
    pub(crate) recorder: EventRecorder,
}

impl PodControl {
    /// Creates Pods, ever more at a time as long as that works. The first failure ends it.
    pub(crate) async fn create<K: ApiResource>(
        &self,
        cluster: &Arc<str>,
        owner: &K,
        pods: Vec<Pod>,
    ) -> Result<(), ClientError> {
        let client = self.client.cluster(cluster.clone());
        let mut rest = pods.into_iter();
        let mut batch = 1;
        loop {
            let some: Vec<Pod> = rest.by_ref().take(batch).collect();
            if some.is_empty() {
                return Ok(());
            }
            let requests = some.into_iter().map(|pod| {
                let client = client.clone();
                async move { client.create(&pod).await }
            });
            let answers: Vec<Result<Pod, ClientError>> =
                futures_util::stream::iter(requests).buffer_unordered(CONCURRENT).collect().await;
            let mut first = Ok(());
            for answer in answers {
                match answer {
                    Ok(pod) => {
                        self.pods.observe(cluster, &pod);
                        let message = format!("Created pod: {}", name(&pod.metadata));
                        self.recorder.normal(cluster, owner, "SuccessfulCreate", message);
                    }
                    Err(error) => {
                        if !error.is_gone() {
                            let message = format!("Error creating: {error}");
                            self.recorder.warning(cluster, owner, "FailedCreate", message);
                        }
                        first = first.and(Err(error));
                    }
                }
            }
            first?;
            batch = (batch * 2).min(CONCURRENT);
        }
    }

    /// Deletes Pods. One that is gone already is done.
    pub(crate) async fn delete<K: ApiResource>(
        &self,
        cluster: &Arc<str>,
        owner: &K,
        pods: &[Arc<Pod>],
    ) -> Result<(), ClientError> {
        let client = self.client.cluster(cluster.clone());
        let requests = pods.iter().cloned().map(|pod| {
            let client = client.clone();
            async move {
                let options = DeleteOptions::of_uid(uid(&pod.metadata));
                let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
                let answer = client.delete::<Pod>(namespace, name(&pod.metadata), &options).await;
                (pod, answer)
            }
        });
        let answers: Vec<_> = futures_util::stream::iter(requests).buffer_unordered(CONCURRENT).collect().await;
        let mut first = Ok(());
        for (pod, answer) in answers {
            match answer {
                Ok(()) => {
                    self.pods.doom(&ObjectKey::of(cluster.clone(), &pod.metadata), uid(&pod.metadata));
                    let message = format!("Deleted pod: {}", name(&pod.metadata));
                    self.recorder.normal(cluster, owner, "SuccessfulDelete", message);
                }
                Err(error) if error.is_not_found() => {
                    self.pods.doom(&ObjectKey::of(cluster.clone(), &pod.metadata), uid(&pod.metadata));
                }
                Err(error) => {
                    self.recorder.warning(cluster, owner, "FailedDelete", format!("Error deleting: {error}"));
                    first = first.and(Err(error));
                }
            }
        }
        first
    }
}

/// Makes `owner` the controller of an object that has none, if both are still what they were.
pub(crate) async fn adopt<O: ApiResource, K: ApiResource>(
    client: &Client,
    store: &Store<K>,
    owner: &O,
    object: &K,
) -> Result<(), BoxError> {
    // Only an owner that is there and not being deleted may adopt; the cache may be behind.
    let of = owner.metadata();
    let live: Option<O> = client.get(of.namespace.as_deref().unwrap_or_default(), name(of)).await?;
    if live.is_none_or(|live| uid(live.metadata()) != uid(of) || live.metadata().deletion_timestamp.is_some()) {
        return Err("the owner has changed".into());
    }
    let mut owners = object.metadata().owner_references.clone().unwrap_or_default();
    owners.push(controller_reference(owner));
    set_owners(client, store, object, &owners).await.map_err(Into::into)
}

/// Takes the owner with that uid off an object.
pub(crate) async fn release<K: ApiResource>(
    client: &Client,
    store: &Store<K>,
    owner_uid: &str,
    object: &K,
) -> Result<(), ClientError> {
    let mut owners = object.metadata().owner_references.clone().unwrap_or_default();
    owners.retain(|owner| owner.uid != owner_uid);
    set_owners(client, store, object, &owners).await
}

async fn set_owners<K: ApiResource>(
    client: &Client,
    store: &Store<K>,
    object: &K,
    owners: &[OwnerReference],
) -> Result<(), ClientError> {
    let metadata = object.metadata();
    let owners = if owners.is_empty() { json!(null) } else { json!(owners) };
    let patch = json!({"metadata": {
        "ownerReferences": owners, "uid": metadata.uid, "resourceVersion": metadata.resource_version,
    }});
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    match client.patch::<K>(namespace, name(metadata), &Patch::Merge(patch)).await {
        Ok(object) => {
            store.observe(client.cluster_name(), &object);
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}
