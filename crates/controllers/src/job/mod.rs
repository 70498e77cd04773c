//! Jobs: runs Pods until enough of them have succeeded, or too many have failed.

mod decide;
mod indexes;

use crate::context::Context;
use crate::meta::{controllers, name, uid};
use crate::pod_control::PodControl;
use async_trait::async_trait;
use controller_runtime::{
    Action, BoxError, Client, Controller, DeleteOptions, ObjectKey, Propagation, Reconciler, Store,
};
use decide::{Plan, plan};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use runtime::TaskSet;
use std::sync::Arc;

pub(crate) fn start(context: &Context, tasks: &mut TaskSet) {
    let jobs = context.informers.of::<Job>();
    let pods = context.informers.of::<Pod>();
    let reconciler = Jobs {
        client: context.client.clone(),
        jobs: jobs.store().clone(),
        control: PodControl {
            client: context.client.clone(),
            pods: pods.store().clone(),
            recorder: context.recorder("job-controller", tasks),
        },
        max_pods: context.options.max_pods_per_step,
    };
    Controller::new("jobs", context.options.controller)
        .primary(&jobs)
        .watch(&pods, |change| controllers(change, "Job"))
        .spawn(tasks, Arc::new(reconciler));
}

struct Jobs {
    client: Client,
    jobs: Store<Job>,
    control: PodControl,
    max_pods: usize,
}

#[async_trait]
impl Reconciler for Jobs {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, BoxError> {
        let Some(job) = self.jobs.get(key) else { return Ok(Action::Done) };
        let Some(spec) = &job.spec else { return Ok(Action::Done) };
        // Another controller's Job.
        if spec.managed_by.as_deref().is_some_and(|by| by != "kubernetes.io/job-controller") {
            return Ok(Action::Done);
        }
        if job.metadata.deletion_timestamp.is_some() {
            return Ok(Action::Done);
        }
        let client = self.client.cluster(key.cluster.clone());
        let now = jiff::Timestamp::now();
        let Plan { expire, create, delete, mut status, look_again, event } =
            plan(&job, spec, &self.owned(key, &job), now);
        if expire {
            let options = DeleteOptions::of_uid(uid(&job.metadata)).with_propagation(Propagation::Foreground);
            return match client.delete::<Job>(&key.namespace, &key.name, &options).await {
                Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
                _ => {
                    self.jobs.doom(key, uid(&job.metadata));
                    Ok(Action::Done)
                }
            };
        }
        let delete: Vec<Arc<Pod>> = delete.into_iter().take(self.max_pods).collect();
        let deleted = self.control.delete(&key.cluster, &*job, &delete).await;
        let pods: Vec<Pod> =
            create.into_iter().take(self.max_pods).map(|index| decide::pod(&job, spec, index)).collect();
        let created = self.control.create(&key.cluster, &*job, pods).await;
        if deleted.is_ok() && created.is_ok() {
            decide::count(&mut status, &self.owned(key, &job));
        }
        if job.status.as_ref() != Some(&status) {
            let mut updated = Job::clone(&job);
            updated.status = Some(status);
            match client.update_status(&updated).await {
                Ok(updated) => self.jobs.observe(&key.cluster, &updated),
                Err(error) if error.is_not_found() => return Ok(Action::Done),
                Err(error) => return Err(error.into()),
            }
            if let Some((type_, reason, message)) = event {
                match type_ {
                    controller_runtime::EventType::Normal => {
                        self.control.recorder.normal(&key.cluster, &*job, reason, message);
                    }
                    controller_runtime::EventType::Warning => {
                        self.control.recorder.warning(&key.cluster, &*job, reason, message);
                    }
                }
            }
        }
        match deleted.and(created) {
            Err(error) if error.is_gone() => Ok(Action::Done),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(look_again.map_or(Action::Done, Action::After)),
        }
    }
}

impl Jobs {
    fn owned(&self, key: &ObjectKey, job: &Job) -> Vec<Arc<Pod>> {
        let mut pods: Vec<Arc<Pod>> = self
            .control
            .pods
            .owned_by(&key.cluster, uid(&job.metadata))
            .into_iter()
            .map(|(_, pod)| pod)
            .filter(|pod| crate::meta::is_controlled_by(&pod.metadata, uid(&job.metadata)))
            .collect();
        pods.sort_by_key(|pod| name(&pod.metadata).to_owned());
        pods
    }
}

#[cfg(test)]
mod tests;
