//! ReplicaSets: keeps the wanted number of Pods.

mod decide;

use crate::context::Context;
use crate::meta::{claim, controllers, selector, uid};
use crate::pod_control::{PodControl, adopt, release};
use crate::template;
use async_trait::async_trait;
use controller_runtime::{Action, BoxError, Client, Controller, ObjectKey, Reconciler, Store};
use decide::{Observed, Step, decide, status};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use runtime::TaskSet;
use std::sync::Arc;

pub(crate) fn start(context: &Context, tasks: &mut TaskSet) {
    let sets = context.informers.of::<ReplicaSet>();
    let pods = context.informers.of::<Pod>();
    let reconciler = ReplicaSets {
        client: context.client.clone(),
        sets: sets.store().clone(),
        control: PodControl {
            client: context.client.clone(),
            pods: pods.store().clone(),
            recorder: context.recorder("replicaset-controller", tasks),
        },
        max_pods: context.options.max_pods_per_step,
    };
    let known = sets.store().clone();
    Controller::new("replicasets", context.options.controller)
        .primary(&sets)
        .watch(&pods, move |change| {
            let mut keys = controllers(change, "ReplicaSet");
            // A Pod that nothing controls may be for any of them.
            if let Some(pod) = &change.after
                && crate::meta::controller_of(&pod.metadata).is_none()
                && pod.metadata.labels.is_some()
            {
                keys.extend(selecting(&known, &change.key, pod));
            }
            keys
        })
        .spawn(tasks, Arc::new(reconciler));
}

/// The ReplicaSets of a Pod's namespace that select it.
fn selecting(sets: &Store<ReplicaSet>, pod_key: &ObjectKey, pod: &Pod) -> Vec<ObjectKey> {
    sets.in_namespace(&pod_key.cluster, &pod_key.namespace)
        .into_iter()
        .filter(|set| {
            let spec = set.spec.as_ref();
            spec.is_some_and(|spec| selector(&spec.selector).matches(crate::meta::labels(&pod.metadata)))
        })
        .map(|set| pod_key.sibling(crate::meta::name(&set.metadata)))
        .collect()
}

struct ReplicaSets {
    client: Client,
    sets: Store<ReplicaSet>,
    control: PodControl,
    max_pods: usize,
}

#[async_trait]
impl Reconciler for ReplicaSets {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, BoxError> {
        let Some(set) = self.sets.get(key) else { return Ok(Action::Done) };
        let Some(spec) = &set.spec else { return Ok(Action::Done) };
        let client = self.client.cluster(key.cluster.clone());
        let in_namespace = self.control.pods.in_namespace(&key.cluster, &key.namespace);
        let mut claims = claim(&set.metadata, &selector(&spec.selector), in_namespace, |pod: &Arc<Pod>| &pod.metadata);
        for pod in claims.adopt.extract_if(.., |pod| crate::pods::is_active(pod)) {
            adopt(&client, &self.control.pods, &*set, &*pod).await?;
            claims.owned.push(pod);
        }
        for pod in &claims.release {
            release(&client, &self.control.pods, uid(&set.metadata), &**pod).await?;
        }

        let now = jiff::Timestamp::now();
        let mut outcome = Ok(());
        if set.metadata.deletion_timestamp.is_none() {
            outcome = match decide(&set, &claims.owned, self.max_pods) {
                Step::Nothing => Ok(()),
                Step::Create(count) => {
                    let template = spec.template.clone().unwrap_or_default();
                    let pods = (0..count).map(|_| template::pod(&*set, &template)).collect();
                    self.control.create(&key.cluster, &*set, pods).await.map_err(|error| ("FailedCreate", error))
                }
                Step::Delete(pods) => {
                    self.control.delete(&key.cluster, &*set, &pods).await.map_err(|error| ("FailedDelete", error))
                }
            };
        }
        // What the step made of it: its own writes are in the store.
        let owned = self.control.pods.owned_by(&key.cluster, uid(&set.metadata));
        let owned: Vec<Arc<Pod>> = owned
            .into_iter()
            .map(|(_, pod)| pod)
            .filter(|pod| crate::meta::is_controlled_by(&pod.metadata, uid(&set.metadata)))
            .collect();
        let failure = outcome.as_ref().err().map(|(reason, error)| (*reason, error.to_string()));
        let Observed { status, look_again } = status(&set, &owned, failure, now);
        if set.status.as_ref() != Some(&status) {
            let mut updated = ReplicaSet::clone(&set);
            updated.status = Some(status);
            match client.update_status(&updated).await {
                Ok(updated) => self.sets.observe(&key.cluster, &updated),
                Err(error) if error.is_not_found() => return Ok(Action::Done),
                Err(error) => return Err(error.into()),
            }
        }
        match outcome {
            Err((_, error)) if error.is_gone() => Ok(Action::Done),
            Err((_, error)) => Err(error.into()),
            Ok(()) => Ok(look_again.map_or(Action::Done, Action::After)),
        }
    }
}

#[cfg(test)]
mod tests;
