//! Deployments: rolls out a Pod template by scaling one ReplicaSet up and the others down.

mod history;
mod progress;
mod rollout;

use crate::context::Context;
use crate::meta::{claim, controllers, name, selector, uid};
use crate::pod_control::{adopt, release};
use async_trait::async_trait;
use controller_runtime::{
    Action, BoxError, Client, ClientError, Controller, DeleteOptions, EventRecorder, ObjectKey, Patch, Propagation,
    Reconciler, Store,
};
use history::{MAX_REPLICAS, desired};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use rollout::Scale;
use runtime::TaskSet;
use serde_json::json;
use std::sync::Arc;

pub(crate) fn start(context: &Context, tasks: &mut TaskSet) {
    let deployments = context.informers.of::<Deployment>();
    let sets = context.informers.of::<ReplicaSet>();
    let pods = context.informers.of::<Pod>();
    let reconciler = Deployments {
        client: context.client.clone(),
        deployments: deployments.store().clone(),
        sets: sets.store().clone(),
        pods: pods.store().clone(),
        recorder: context.recorder("deployment-controller", tasks),
    };
    let known = sets.store().clone();
    Controller::new("deployments", context.options.controller)
        .primary(&deployments)
        .watch(&sets, |change| controllers(change, "Deployment"))
        // A Pod that is gone may be the last that a Recreate waits for.
        .watch(&pods, move |change| {
            let ended = match &change.after {
                None => true,
                Some(pod) => crate::pods::is_finished(pod),
            };
            if !ended {
                return Vec::new();
            }
            controllers(change, "ReplicaSet")
                .iter()
                .filter_map(|key| known.get(key))
                .filter_map(|set| Some(change.key.sibling(&crate::meta::controller_of(&set.metadata)?.name)))
                .collect()
        })
        .spawn(tasks, Arc::new(reconciler));
}

struct Deployments {
    client: Client,
    deployments: Store<Deployment>,
    sets: Store<ReplicaSet>,
    pods: Store<Pod>,
    recorder: EventRecorder,
}

/// One Deployment and its ReplicaSets, while it is worked on.
struct Work<'a> {
    of: &'a Deployments,
    client: Client,
    key: &'a ObjectKey,
    deployment: Arc<Deployment>,
}

#[async_trait]
impl Reconciler for Deployments {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, BoxError> {
        let Some(deployment) = self.deployments.get(key) else { return Ok(Action::Done) };
        let Some(spec) = deployment.spec.clone() else { return Ok(Action::Done) };
        let client = self.client.cluster(key.cluster.clone());
        let mut work = Work { of: self, client, key, deployment };
        work.claim(&spec).await?;
        let result = work.step(&spec).await;
        match result {
            Err(error) if error.is_gone() => Ok(Action::Done),
            Err(error) => Err(error.into()),
            Ok(action) => Ok(action),
        }
    }
}

impl Work<'_> {
    /// Adopts and releases ReplicaSets.
    async fn claim(&self, spec: &DeploymentSpec) -> Result<(), BoxError> {
        let in_namespace = self.of.sets.in_namespace(&self.key.cluster, &self.key.namespace);
        let claims =
            claim(&self.deployment.metadata, &selector(&spec.selector), in_namespace, |set: &Arc<ReplicaSet>| {
                &set.metadata
            });
        for set in &claims.adopt {
            adopt(&self.client, &self.of.sets, &*self.deployment, &**set).await?;
        }
        for set in &claims.release {
            release(&self.client, &self.of.sets, uid(&self.deployment.metadata), &**set).await?;
        }
        Ok(())
    }

    /// The ReplicaSets as known now, own writes included, oldest first.
    fn sets(&self) -> Vec<Arc<ReplicaSet>> {
        let uid = uid(&self.deployment.metadata);
        let mut sets: Vec<Arc<ReplicaSet>> = self
            .of
            .sets
            .owned_by(&self.key.cluster, uid)
            .into_iter()
            .map(|(_, set)| set)
            .filter(|set| {
                crate::meta::is_controlled_by(&set.metadata, uid) && set.metadata.deletion_timestamp.is_none()
            })
            .collect();
        sets.sort_by_key(|set| {
            (set.metadata.creation_timestamp.as_ref().map(|time| time.0), name(&set.metadata).to_owned())
        });
        sets
    }

    async fn step(&mut self, spec: &DeploymentSpec) -> Result<Action, ClientError> {
        if self.deployment.metadata.deletion_timestamp.is_some() {
            return self.report(spec, &[]).await;
        }
        let sets = self.sets();
        let paused = spec.paused == Some(true);
        // The number of replicas was changed: all ReplicaSets share it, before the rollout goes on.
        let rescaled = sets.iter().any(|set| {
            rollout::replicas(set) > 0 && desired(set).is_some_and(|desired| desired != rollout::wanted(spec))
        });
        if paused || rescaled {
            let scales = rollout::proportional(spec, &sets);
            self.scale(spec, &sets, &scales).await?;
            let sets = self.sets();
            if paused {
                self.clean(spec, &sets).await?;
            }
            return self.report(spec, &sets).await;
        }
        if rollout::is_recreate(spec) {
            let current = rollout::current(spec, &sets);
            let old: Vec<Scale> = sets
                .iter()
                .filter(|set| current.is_none_or(|current| uid(&current.metadata) != uid(&set.metadata)))
                .filter(|set| rollout::replicas(set) > 0)
                .map(|set| Scale { name: name(&set.metadata).to_owned(), replicas: 0 })
                .collect();
            let stopped = old.is_empty();
            self.scale(spec, &sets, &old).await?;
            if !stopped || self.old_pods_run(&sets, current) {
                return self.report(spec, &self.sets()).await;
            }
        }
        self.ensure_current(spec, &sets).await?;
        let sets = self.sets();
        let scales = if rollout::is_recreate(spec) {
            rollout::current_to(spec, &sets, rollout::wanted(spec))
        } else {
            rollout::rolling(spec, &sets)
        };
        self.scale(spec, &sets, &scales).await?;
        let sets = self.sets();
        if rollout::is_complete(spec, &sets) {
            self.clean(spec, &sets).await?;
        }
        self.report(spec, &self.sets()).await
    }

    /// Whether Pods of ReplicaSets other than the current one have not ended.
    fn old_pods_run(&self, sets: &[Arc<ReplicaSet>], current: Option<&Arc<ReplicaSet>>) -> bool {
        sets.iter().filter(|set| current.is_none_or(|current| uid(&current.metadata) != uid(&set.metadata))).any(
            |set| {
                let pods = self.of.pods.owned_by(&self.key.cluster, uid(&set.metadata));
                pods.iter().any(|(_, pod)| !crate::pods::is_finished(pod))
            },
        )
    }

    /// Makes sure that there is a ReplicaSet of the template, with the newest revision.
    async fn ensure_current(&mut self, spec: &DeploymentSpec, sets: &[Arc<ReplicaSet>]) -> Result<(), ClientError> {
        let revision = match rollout::current(spec, sets) {
            Some(current) => {
                let revision = history::next_revision(sets, Some(current));
                if let Some(annotations) = history::annotations_of(&self.deployment, current, revision, spec) {
                    let patch = json!({"metadata": {"annotations": annotations}, "spec": {"minReadySeconds": spec.min_ready_seconds}});
                    self.patch_set(name(&current.metadata), &patch).await?;
                }
                history::revision(current).max(revision)
            }
            None => {
                let revision = history::next_revision(sets, None);
                let replicas = rollout::first_replicas(spec, sets);
                let set = history::make(&self.deployment, spec, replicas, revision);
                match self.client.create(&set).await {
                    Ok(created) => {
                        self.of.sets.observe(&self.key.cluster, &created);
                        if replicas > 0 {
                            self.scaled(name(&created.metadata), 0, replicas);
                        }
                    }
                    Err(error) if error.is_already_exists() => return self.collided(&set, error).await,
                    Err(error) => {
                        if !error.is_gone() {
                            let message =
                                format!("Failed to create new replica set {:?}: {error}", name(&set.metadata));
                            self.of.recorder.warning(
                                &self.key.cluster,
                                &*self.deployment,
                                "ReplicaSetCreateError",
                                message,
                            );
                        }
                        return Err(error);
                    }
                }
                revision
            }
        };
        if history::revision_of(&self.deployment.metadata) != revision {
            let patch = json!({"metadata": {"annotations": {history::REVISION: revision.to_string()}}});
            let namespace = &self.key.namespace;
            let updated: Deployment = self.client.patch(namespace, &self.key.name, &Patch::Merge(patch)).await?;
            self.of.deployments.observe(&self.key.cluster, &updated);
            self.deployment = Arc::new(updated);
        }
        Ok(())
    }

    /// The name of the new ReplicaSet is taken: by ourselves, not yet seen, or by another.
    async fn collided(&self, wanted: &ReplicaSet, error: ClientError) -> Result<(), ClientError> {
        let taken: Option<ReplicaSet> = self.client.get(&self.key.namespace, name(&wanted.metadata)).await?;
        let Some(taken) = taken else { return Err(error) };
        let templates = (wanted.spec.as_ref(), taken.spec.as_ref());
        let same = match (templates.0.and_then(|s| s.template.as_ref()), templates.1.and_then(|s| s.template.as_ref()))
        {
            (Some(wanted), Some(taken)) => crate::template::same(wanted, taken),
            _ => false,
        };
        if same && crate::meta::is_controlled_by(&taken.metadata, uid(&self.deployment.metadata)) {
            self.of.sets.observe(&self.key.cluster, &taken);
            return Ok(());
        }
        let mut updated = Deployment::clone(&self.deployment);
        let status = updated.status.get_or_insert_default();
        status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
        let updated = self.client.update_status(&updated).await?;
        self.of.deployments.observe(&self.key.cluster, &updated);
        Err(error)
    }

    async fn scale(
        &self,
        spec: &DeploymentSpec,
        sets: &[Arc<ReplicaSet>],
        scales: &[Scale],
    ) -> Result<(), ClientError> {
        let wanted = rollout::wanted(spec);
        let most = wanted + rollout::fenceposts(spec).0;
        for set in sets {
            let name = name(&set.metadata);
            let before = rollout::replicas(set);
            let after = scales.iter().find(|scale| scale.name == name).map_or(before, |scale| scale.replicas);
            let annotated = desired(set) == Some(wanted)
                && crate::meta::annotation(&set.metadata, MAX_REPLICAS) == Some(&*most.to_string());
            if after == before && (annotated || after == 0) {
                continue;
            }
            let patch = json!({
                "metadata": {
                    "annotations": {history::DESIRED_REPLICAS: wanted.to_string(), MAX_REPLICAS: most.to_string()},
                    "resourceVersion": set.metadata.resource_version,
                },
                "spec": {"replicas": after},
            });
            self.patch_set(name, &patch).await?;
            if after != before {
                self.scaled(name, before, after);
            }
        }
        Ok(())
    }

    fn scaled(&self, name: &str, before: i32, after: i32) {
        let way = if after > before { "up" } else { "down" };
        let message = format!("Scaled {way} replica set {name} from {before} to {after}");
        self.of.recorder.normal(&self.key.cluster, &*self.deployment, "ScalingReplicaSet", message);
    }

    async fn patch_set(&self, name: &str, patch: &serde_json::Value) -> Result<(), ClientError> {
        let updated: ReplicaSet = self.client.patch(&self.key.namespace, name, &Patch::Merge(patch.clone())).await?;
        self.of.sets.observe(&self.key.cluster, &updated);
        Ok(())
    }

    /// Deletes the oldest ReplicaSets beyond the history's limit.
    async fn clean(&self, spec: &DeploymentSpec, sets: &[Arc<ReplicaSet>]) -> Result<(), ClientError> {
        for set in history::superfluous(spec, sets) {
            let options = DeleteOptions::of_uid(uid(&set.metadata)).with_propagation(Propagation::Background);
            match self.client.delete::<ReplicaSet>(&self.key.namespace, name(&set.metadata), &options).await {
                Ok(()) => {
                    self.of.sets.doom(&self.key.sibling(name(&set.metadata)), uid(&set.metadata));
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes the status, when it has changed.
    async fn report(&self, spec: &DeploymentSpec, sets: &[Arc<ReplicaSet>]) -> Result<Action, ClientError> {
        let now = jiff::Timestamp::now();
        let all;
        let sets = if sets.is_empty() {
            all = self.sets();
            &all
        } else {
            sets
        };
        let (status, look_again) = progress::status(&self.deployment, spec, sets, now);
        if self.deployment.status.as_ref() != Some(&status) {
            let mut updated = Deployment::clone(&self.deployment);
            updated.status = Some(status);
            let updated = self.client.update_status(&updated).await?;
            self.of.deployments.observe(&self.key.cluster, &updated);
        }
        Ok(look_again.map_or(Action::Done, Action::After))
    }
}

#[cfg(test)]
mod tests;
