//! Binds waiting Pods, cluster by cluster, and says why others wait.

use super::decide::decide;
use super::snapshot::{Snapshot, ended};
use crate::node_lifecycle::taints_by_state;
use async_trait::async_trait;
use controller_runtime::{
    Action, Change, Client, ClientError, Controller, ControllerOptions, EventRecorder, Informers, ObjectKey, Patch,
    Reconciler, Store,
};
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use runtime::{BoxError, Shrink, TaskSet};
use serde_json::json;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The scheduler that a Pod names when it names none.
const NAME: &str = "default-scheduler";

/// The index of Pods that wait for a node.
const WAITING: &str = "scheduler.waiting";

/// Limits of the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Of its workers and its queue. A worker serves one cluster at a time.
    pub controller: ControllerOptions,
    /// Requests of one cluster that are under way at a time.
    pub concurrent_requests: usize,
    /// Pods of one cluster that are bound in one step.
    pub max_bindings: usize,
    /// Pods of one cluster that are told in one step why they wait.
    pub max_refusals: usize,
    /// For how long a Pod counts as bound that the watch has not told of.
    pub assumed_for: Duration,
    /// After how long Pods that fit nowhere are looked at again though nothing changed.
    pub retry: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controller: ControllerOptions::default(),
            concurrent_requests: 16,
            max_bindings: 500,
            max_refusals: 500,
            assumed_for: Duration::from_secs(30),
            retry: Duration::from_secs(300),
        }
    }
}

/// Starts the scheduler.
pub fn spawn(client: &Client, informers: &Informers, events: EventRecorder, options: Options, tasks: &mut TaskSet) {
    let (pods, nodes, namespaces) = (informers.of::<Pod>(), informers.of::<Node>(), informers.of::<Namespace>());
    pods.store().add_index(WAITING, |pod| if waits(pod) { vec![String::new()] } else { Vec::new() });
    let scheduler = Scheduler {
        client: client.clone(),
        pods: pods.store().clone(),
        nodes: nodes.store().clone(),
        namespaces: namespaces.store().clone(),
        events,
        options,
        assumed: Mutex::default(),
    };
    Controller::<Arc<str>>::new("scheduler", options.controller)
        .watch(&pods, |change| cluster_if(change, pod_matters(change)))
        .watch(&nodes, |change| cluster_if(change, node_matters(change)))
        .watch(&namespaces, |change| cluster_if(change, namespace_matters(change)))
        .spawn(tasks, Arc::new(scheduler));
}

fn cluster_if<K>(change: &Change<K>, matters: bool) -> Vec<Arc<str>> {
    if matters { vec![change.key.cluster.clone()] } else { Vec::new() }
}

/// Whether a change of a Pod may change where a Pod goes.
pub(super) fn pod_matters(change: &Change<Pod>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    before.spec != after.spec
        || before.metadata.labels != after.metadata.labels
        || before.metadata.uid != after.metadata.uid
        || before.metadata.deletion_timestamp.is_some() != after.metadata.deletion_timestamp.is_some()
        || ended(before) != ended(after)
}

/// Whether a change of a node may change where a Pod goes. Heartbeats do not.
pub(super) fn node_matters(change: &Change<Node>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let allocatable = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
    let keys = |node: &Node| -> Vec<_> {
        taints_by_state(node).into_iter().map(|taint| (taint.key, taint.value, taint.effect)).collect()
    };
    before.metadata.labels != after.metadata.labels
        || before.metadata.uid != after.metadata.uid
        || before.metadata.deletion_timestamp.is_some() != after.metadata.deletion_timestamp.is_some()
        || allocatable(before) != allocatable(after)
        || keys(before) != keys(after)
}

fn namespace_matters(change: &Change<Namespace>) -> bool {
    let labels = |namespace: &Option<Arc<Namespace>>| namespace.as_ref().and_then(|one| one.metadata.labels.clone());
    labels(&change.before) != labels(&change.after)
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// Whether a Pod waits for this scheduler.
pub(super) fn waits(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name.is_empty() || name == NAME);
    ours && node_of(pod).is_empty()
        && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
        && pod.metadata.deletion_timestamp.is_none()
        && !ended(pod)
}

/// Puts Pods in the order in which they are placed: by priority, then age, then name.
pub(super) fn in_order(pods: &mut [(ObjectKey, Arc<Pod>)]) {
    pods.sort_by_cached_key(|(key, pod)| {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        (Reverse(priority), pod.metadata.creation_timestamp.as_ref().map(|created| created.0), key.clone())
    });
}

/// A Pod that was bound, or is just being bound.
struct Assumed {
    uid: String,
    node: String,
    since: Instant,
}

struct Scheduler {
    client: Client,
    pods: Store<Pod>,
    nodes: Store<Node>,
    namespaces: Store<Namespace>,
    events: EventRecorder,
    options: Options,
    /// Never more than Pods were bound within [`Options::assumed_for`].
    assumed: Mutex<HashMap<Arc<str>, HashMap<ObjectKey, Assumed>>>,
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

impl Scheduler {
    fn assumed(&self) -> MutexGuard<'_, HashMap<Arc<str>, HashMap<ObjectKey, Assumed>>> {
        self.assumed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is assumed of a cluster's Pods, without what the watch has told of since.
    fn still_assumed(&self, cluster: &Arc<str>) -> HashMap<ObjectKey, String> {
        let mut all = self.assumed();
        let Some(of_cluster) = all.get_mut(cluster) else { return HashMap::new() };
        of_cluster.retain(|key, assumed| {
            assumed.since.elapsed() < self.options.assumed_for
                && self.pods.get(key).is_some_and(|pod| uid(&pod) == assumed.uid && waits(&pod))
        });
        if of_cluster.is_empty() {
            all.remove(cluster);
            all.shrink_if_sparse();
            return HashMap::new();
        }
        of_cluster.iter().map(|(key, assumed)| (key.clone(), assumed.node.clone())).collect()
    }

    fn snapshot(&self, cluster: &Arc<str>, assumed: &HashMap<ObjectKey, String>) -> Snapshot {
        let mut snapshot = Snapshot::new(self.nodes.in_cluster(cluster));
        for namespace in self.namespaces.in_cluster(cluster) {
            let name = namespace.metadata.name.as_deref().unwrap_or_default();
            snapshot.add_namespace(name, namespace.metadata.labels.clone().unwrap_or_default());
        }
        for pod in self.pods.in_cluster(cluster) {
            let node = node_of(&pod).to_owned();
            snapshot.place(pod, &node);
        }
        for (key, node) in assumed {
            if let Some(pod) = self.pods.get(key).filter(|pod| node_of(pod).is_empty()) {
                snapshot.place(pod, node);
            }
        }
        snapshot
    }

    async fn bind(&self, key: ObjectKey, pod: Arc<Pod>, node: String) -> Result<(), ClientError> {
        let client = self.client.cluster(key.cluster.clone());
        match client.bind_pod(&key.namespace, &key.name, uid(&pod), &node).await {
            Ok(()) => {
                let message = format!("Successfully assigned {}/{} to {node}", key.namespace, key.name);
                self.events.normal(&key.cluster, &*pod, "Scheduled", message);
                Ok(())
            }
            Err(error) => {
                let mut all = self.assumed();
                if let Some(of_cluster) = all.get_mut(&key.cluster) {
                    of_cluster.remove(&key);
                    if of_cluster.is_empty() {
                        all.remove(&key.cluster);
                    }
                }
                drop(all);
                // A Pod that is gone needs no node.
                if error.is_not_found() { Ok(()) } else { Err(error) }
            }
        }
    }

    async fn refuse(&self, key: ObjectKey, pod: Arc<Pod>, why: String) -> Result<(), ClientError> {
        let known = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let known = known.iter().find(|condition| condition.type_ == "PodScheduled");
        if known.is_some_and(|known| {
            known.status == "False"
                && known.reason.as_deref() == Some("Unschedulable")
                && known.message.as_deref() == Some(why.as_str())
        }) {
            return Ok(());
        }
        let since = known
            .filter(|known| known.status == "False")
            .and_then(|known| known.last_transition_time.clone())
            .unwrap_or_else(|| Time(jiff::Timestamp::now()));
        let patch = json!({
            "metadata": {"uid": uid(&pod)},
            "status": {"conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
                "lastProbeTime": null, "lastTransitionTime": since,
            }]},
        });
        let client = self.client.cluster(key.cluster.clone());
        match client.patch_status::<Pod>(&key.namespace, &key.name, &Patch::Strategic(patch)).await {
            Ok(told) => {
                self.events.warning(&key.cluster, &*pod, "FailedScheduling", why);
                self.pods.observe(&key.cluster, &told);
                Ok(())
            }
            // It is gone, or another Pod has its name.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Reconciler<Arc<str>> for Scheduler {
    async fn reconcile(&self, cluster: &Arc<str>) -> Result<Action, BoxError> {
        let assumed = self.still_assumed(cluster);
        let mut waiting = self.pods.indexed(WAITING, cluster, "");
        let before = waiting.len();
        waiting.retain(|(key, _)| !assumed.contains_key(key));
        let underway = before > waiting.len();
        if waiting.is_empty() {
            return Ok(if underway { Action::After(self.options.assumed_for) } else { Action::Done });
        }
        in_order(&mut waiting);
        let mut snapshot = self.snapshot(cluster, &assumed);
        let (mut bindings, mut refusals, mut more) = (Vec::new(), Vec::new(), false);
        for (key, pod) in waiting {
            if bindings.len() >= self.options.max_bindings {
                more = true;
                break;
            }
            match decide(&snapshot, &pod).map(str::to_owned) {
                Ok(node) => {
                    snapshot.place(pod.clone(), &node);
                    bindings.push((key, pod, node));
                }
                Err(why) => refusals.push((key, pod, why.to_string())),
            }
            // A decision may take a while when there are many nodes and Pods.
            tokio::task::yield_now().await;
        }
        let since = Instant::now();
        if !bindings.is_empty() {
            let mut all = self.assumed();
            let of_cluster = all.entry(cluster.clone()).or_default();
            for (key, pod, node) in &bindings {
                let assumed = Assumed { uid: uid(pod).to_owned(), node: node.clone(), since };
                of_cluster.insert(key.clone(), assumed);
            }
        }
        let concurrent = self.options.concurrent_requests.max(1);
        let mut failed = None;
        let mut bound =
            stream::iter(bindings).map(|(key, pod, node)| self.bind(key, pod, node)).buffer_unordered(concurrent);
        while let Some(result) = bound.next().await {
            failed = failed.or(result.err());
        }
        let refused = !refusals.is_empty();
        let mut told = stream::iter(refusals.into_iter().take(self.options.max_refusals))
            .map(|(key, pod, why)| self.refuse(key, pod, why))
            .buffer_unordered(concurrent);
        while let Some(result) = told.next().await {
            failed = failed.or(result.err());
        }
        match failed {
            Some(error) => Err(error.into()),
            None if more => Ok(Action::After(Duration::ZERO)),
            None if refused => Ok(Action::After(self.options.retry)),
            None => Ok(Action::Done),
        }
    }
}
