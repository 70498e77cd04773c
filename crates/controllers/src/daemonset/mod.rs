//! DaemonSets: one Pod on every node that fits.

mod decide;
mod revision;

use crate::context::Context;
use crate::meta::{claim, controllers, selector, uid};
use crate::pod_control::{PodControl, adopt, release};
use async_trait::async_trait;
use controller_runtime::{Action, BoxError, Client, Controller, ObjectKey, Reconciler, Store};
use decide::{Plan, plan, status};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use runtime::TaskSet;
use std::sync::Arc;

pub(crate) fn start(context: &Context, tasks: &mut TaskSet) {
    let sets = context.informers.of::<DaemonSet>();
    let pods = context.informers.of::<Pod>();
    let nodes = context.informers.of::<Node>();
    let revisions = context.informers.of::<ControllerRevision>();
    let reconciler = DaemonSets {
        client: context.client.clone(),
        sets: sets.store().clone(),
        nodes: nodes.store().clone(),
        revisions: revisions.store().clone(),
        control: PodControl {
            client: context.client.clone(),
            pods: pods.store().clone(),
            recorder: context.recorder("daemonset-controller", tasks),
        },
        max_pods: context.options.max_pods_per_step,
    };
    let known = sets.store().clone();
    Controller::new("daemonsets", context.options.controller)
        .primary(&sets)
        .watch(&pods, |change| controllers(change, "DaemonSet"))
        .watch(&revisions, |change| controllers(change, "DaemonSet"))
        .watch(&nodes, move |change| {
            // Heartbeats change nothing of what decides where Pods go.
            let same = match (&change.before, &change.after) {
                (Some(before), Some(after)) => {
                    before.metadata.labels == after.metadata.labels
                        && before.spec.as_ref().map(|spec| (&spec.taints, spec.unschedulable))
                            == after.spec.as_ref().map(|spec| (&spec.taints, spec.unschedulable))
                }
                _ => false,
            };
            if same {
                return Vec::new();
            }
            let sets = known.in_cluster(&change.key.cluster);
            sets.iter().map(|set| ObjectKey::of(change.key.cluster.clone(), &set.metadata)).collect()
        })
        .spawn(tasks, Arc::new(reconciler));
}

struct DaemonSets {
    client: Client,
    sets: Store<DaemonSet>,
    nodes: Store<Node>,
    revisions: Store<ControllerRevision>,
    control: PodControl,
    max_pods: usize,
}

#[async_trait]
impl Reconciler for DaemonSets {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, BoxError> {
        let Some(set) = self.sets.get(key) else { return Ok(Action::Done) };
        let Some(spec) = &set.spec else { return Ok(Action::Done) };
        let client = self.client.cluster(key.cluster.clone());
        let in_namespace = self.control.pods.in_namespace(&key.cluster, &key.namespace);
        let claims = claim(&set.metadata, &selector(&spec.selector), in_namespace, |pod: &Arc<Pod>| &pod.metadata);
        for pod in claims.adopt.iter().filter(|pod| crate::pods::is_active(pod)) {
            adopt(&client, &self.control.pods, &*set, &**pod).await?;
        }
        for pod in &claims.release {
            release(&client, &self.control.pods, uid(&set.metadata), &**pod).await?;
        }
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(Action::Done);
        }
        let hash = match self.ensure_revision(&client, key, &set, spec).await {
            Err(error) if error.is_gone() => return Ok(Action::Done),
            answer => answer?,
        };
        let nodes = self.nodes.in_cluster(&key.cluster);
        let now = jiff::Timestamp::now();
        let Plan { create, delete } = plan(&set, spec, &hash, &nodes, &self.owned(key, &set), now);
        let pods: Vec<Pod> =
            create.iter().take(self.max_pods).map(|node| decide::pod(&set, spec, &hash, node)).collect();
        let delete: Vec<Arc<Pod>> = delete.into_iter().take(self.max_pods).collect();
        let deleted = self.control.delete(&key.cluster, &*set, &delete).await;
        let created = self.control.create(&key.cluster, &*set, pods).await;

        let (status, look_again) = status(&set, spec, &hash, &nodes, &self.owned(key, &set), now);
        if set.status.as_ref() != Some(&status) {
            let mut updated = DaemonSet::clone(&set);
            updated.status = Some(status);
            match client.update_status(&updated).await {
                Ok(updated) => self.sets.observe(&key.cluster, &updated),
                Err(error) if error.is_not_found() => return Ok(Action::Done),
                Err(error) => return Err(error.into()),
            }
        }
        match deleted.and(created) {
            Err(error) if error.is_gone() => Ok(Action::Done),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(look_again.map_or(Action::Done, Action::After)),
        }
    }
}

impl DaemonSets {
    fn owned(&self, key: &ObjectKey, set: &DaemonSet) -> Vec<Arc<Pod>> {
        let pods = self.control.pods.owned_by(&key.cluster, uid(&set.metadata));
        pods.into_iter()
            .map(|(_, pod)| pod)
            .filter(|pod| crate::meta::is_controlled_by(&pod.metadata, uid(&set.metadata)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
