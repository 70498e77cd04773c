//! The history of a DaemonSet's template, as ControllerRevisions, which `kubectl rollout` reads.

use super::DaemonSets;
use crate::meta::{controller_reference, is_controlled_by, name, uid};
use crate::template;
use controller_runtime::{Client, ClientError, DeleteOptions, ObjectKey, Patch};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The label that names the revision of a Pod's template.
pub(super) const HASH_LABEL: &str = "controller-revision-hash";

/// What a revision holds: a strategic merge patch that brings the template back.
fn data(spec: &DaemonSetSpec) -> Value {
    let mut template = serde_json::to_value(&spec.template).unwrap_or_default();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// The revision numbers to change: the current one becomes the newest.
fn newest(revisions: &[Arc<ControllerRevision>], current: &str) -> Option<i64> {
    let others = revisions.iter().filter(|revision| name(&revision.metadata) != current);
    let newest = others.map(|revision| revision.revision).max().unwrap_or(0) + 1;
    let own = revisions.iter().find(|revision| name(&revision.metadata) == current).map_or(0, |own| own.revision);
    (own < newest).then_some(newest)
}

impl DaemonSets {
    /// Makes sure that the template has the newest revision, and returns its hash.
    pub(super) async fn ensure_revision(
        &self,
        client: &Client,
        key: &ObjectKey,
        set: &DaemonSet,
        spec: &DaemonSetSpec,
    ) -> Result<String, ClientError> {
        let owned: Vec<Arc<ControllerRevision>> = self
            .revisions
            .owned_by(&key.cluster, uid(&set.metadata))
            .into_iter()
            .map(|(_, revision)| revision)
            .filter(|revision| is_controlled_by(&revision.metadata, uid(&set.metadata)))
            .collect();
        let wanted = data(spec);
        let hash_of = |revision: &ControllerRevision| crate::meta::labels(&revision.metadata).get(HASH_LABEL).cloned();
        let same = owned.iter().find(|known| known.data.as_ref().is_some_and(|data| data.0 == wanted));
        if let Some((known, hash)) = same.and_then(|known| Some((known, hash_of(known)?))) {
            if let Some(number) = newest(&owned, name(&known.metadata)) {
                let patch = Patch::Merge(json!({"revision": number}));
                let patched = client.patch(&key.namespace, name(&known.metadata), &patch).await?;
                self.revisions.observe(&key.cluster, &patched);
            }
            self.clean(client, key, spec, &owned, &hash).await?;
            return Ok(hash);
        }
        let mut collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
        loop {
            let hash = template::hash(&spec.template, collisions);
            let mut labels = spec.template.metadata.clone().and_then(|metadata| metadata.labels).unwrap_or_default();
            labels.insert(HASH_LABEL.to_owned(), hash.clone());
            let revision = ControllerRevision {
                metadata: ObjectMeta {
                    name: Some(format!("{}-{hash}", name(&set.metadata))),
                    namespace: set.metadata.namespace.clone(),
                    labels: Some(labels),
                    annotations: set.metadata.annotations.clone().map(|annotations| {
                        let own = "kubectl.kubernetes.io/last-applied-configuration";
                        annotations.into_iter().filter(|(key, _)| key != own).collect::<BTreeMap<_, _>>()
                    }),
                    owner_references: Some(vec![controller_reference(set)]),
                    ..ObjectMeta::default()
                },
                data: Some(RawExtension(wanted.clone())),
                revision: newest(&owned, "").unwrap_or(1),
            };
            match client.create(&revision).await {
                Ok(created) => {
                    self.revisions.observe(&key.cluster, &created);
                    return Ok(hash);
                }
                Err(error) if error.is_already_exists() => {
                    let taken: Option<ControllerRevision> =
                        client.get(&key.namespace, name(&revision.metadata)).await?;
                    match taken {
                        Some(taken) if taken.data.as_ref().is_some_and(|data| data.0 == wanted) => return Ok(hash),
                        // Another template of the same hash: a few more are tried.
                        Some(_) if collisions < 100 => collisions += 1,
                        _ => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Deletes the oldest revisions beyond the limit, except those that Pods still have.
    async fn clean(
        &self,
        client: &Client,
        key: &ObjectKey,
        spec: &DaemonSetSpec,
        owned: &[Arc<ControllerRevision>],
        current: &str,
    ) -> Result<(), ClientError> {
        let limit = usize::try_from(spec.revision_history_limit.unwrap_or(10)).unwrap_or(0);
        let Some(owner) = owned.first().and_then(|revision| crate::meta::controller_of(&revision.metadata)) else {
            return Ok(());
        };
        let pods = self.control.pods.owned_by(&key.cluster, &owner.uid);
        let in_use = |hash: &str| {
            hash == current
                || pods.iter().any(|(_, pod)| {
                    crate::meta::labels(&pod.metadata).get(HASH_LABEL).is_some_and(|label| label == hash)
                })
        };
        let mut old: Vec<&Arc<ControllerRevision>> = owned
            .iter()
            .filter(|revision| {
                crate::meta::labels(&revision.metadata).get(HASH_LABEL).is_some_and(|hash| !in_use(hash))
            })
            .collect();
        old.sort_by_key(|revision| revision.revision);
        let excess = old.len().saturating_sub(limit);
        for revision in old.into_iter().take(excess) {
            let options = DeleteOptions::of_uid(uid(&revision.metadata));
            match client.delete::<ControllerRevision>(&key.namespace, name(&revision.metadata), &options).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => self.revisions.doom(&key.sibling(name(&revision.metadata)), uid(&revision.metadata)),
            }
        }
        Ok(())
    }
}
