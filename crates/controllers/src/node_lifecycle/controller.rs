//! Keeps the conditions and taints of nodes right, evicts Pods, and removes those whose node is gone.

use super::condition;
use super::evict::{Eviction, eviction};
use super::health::health;
use super::taints::taints_to_write;
use async_trait::async_trait;
use controller_runtime::{
    Action, Change, Client, ClientError, Controller, ControllerOptions, DeleteOptions, EventRecorder, Informers,
    ObjectKey, Patch, Reconciler, Store,
};
use futures_util::{StreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use runtime::{BoxError, Shrink, TaskSet};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where nodes renew their leases.
const LEASES: &str = "kube-node-lease";

/// The index of Pods by the node that they are on; empty when on none.
const BY_NODE: &str = "node_lifecycle.node";

/// Limits and delays.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Of the workers and the queue.
    pub controller: ControllerOptions,
    /// For how long a node may be silent.
    pub grace: Duration,
    /// For how long a node may be silent that has never said how it is.
    pub startup_grace: Duration,
    /// For how long a Pod that says nothing about it stays on a node that is not ready or not reachable.
    pub presumed_toleration: Duration,
    /// Requests for one node that are under way at a time.
    pub concurrent_requests: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controller: ControllerOptions::default(),
            grace: Duration::from_secs(40),
            startup_grace: Duration::from_secs(60),
            presumed_toleration: Duration::from_secs(300),
            concurrent_requests: 16,
        }
    }
}

/// Starts the controller.
pub fn spawn(client: &Client, informers: &Informers, events: EventRecorder, options: Options, tasks: &mut TaskSet) {
    let (nodes, pods, leases) = (informers.of::<Node>(), informers.of::<Pod>(), informers.of::<Lease>());
    pods.store().add_index(BY_NODE, |pod| vec![node_of(pod).to_owned()]);
    let lifecycle = Lifecycle {
        client: client.clone(),
        nodes: nodes.store().clone(),
        pods: pods.store().clone(),
        leases: leases.store().clone(),
        events,
        options,
        signs: Mutex::default(),
    };
    Controller::new("node-lifecycle", options.controller)
        .primary(&nodes)
        .watch(&leases, |change| {
            let key = &change.key;
            let ours = &*key.namespace == LEASES && change.after.is_some();
            if ours { vec![ObjectKey::new(key.cluster.clone(), "", key.name.clone())] } else { Vec::new() }
        })
        .watch(&pods, |change| node_to_look_at(change).into_iter().collect())
        .spawn(tasks, Arc::new(lifecycle));
}

/// The node that a change of a Pod concerns: its node when it came there or tolerates something else,
/// the empty name when it is leaving without ever having had one.
pub(super) fn node_to_look_at(change: &Change<Pod>) -> Option<ObjectKey> {
    let after = change.after.as_ref()?;
    let tolerations = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.tolerations.clone());
    let node = node_of(after);
    let news = change
        .before
        .as_ref()
        .is_none_or(|before| node_of(before) != node || tolerations(before) != tolerations(after));
    let wanted = if node.is_empty() { after.metadata.deletion_timestamp.is_some() } else { news };
    wanted.then(|| ObjectKey::new(change.key.cluster.clone(), "", node))
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

fn ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// What a node last said, by its own clock, and when that was noticed, by ours. A clock that differs,
/// or a restart of this process, then looks like no silence.
struct Sign {
    renewed: Option<jiff::Timestamp>,
    heartbeat: Option<jiff::Timestamp>,
    noticed: jiff::Timestamp,
}

struct Lifecycle {
    client: Client,
    nodes: Store<Node>,
    pods: Store<Pod>,
    leases: Store<Lease>,
    events: EventRecorder,
    options: Options,
    /// One for each node that there is.
    signs: Mutex<HashMap<ObjectKey, Sign>>,
}

impl Lifecycle {
    /// When the last sign of life of a node was noticed.
    fn alive(&self, key: &ObjectKey, node: &Node, now: jiff::Timestamp) -> jiff::Timestamp {
        let lease = self.leases.get(&ObjectKey::new(key.cluster.clone(), LEASES, key.name.clone()));
        let renewed = lease.and_then(|lease| Some(lease.spec.as_ref()?.renew_time.as_ref()?.0));
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
        let heartbeat = ready.and_then(|ready| ready.last_heartbeat_time.as_ref()).map(|time| time.0);
        let mut signs = self.signs.lock().unwrap_or_else(PoisonError::into_inner);
        let sign = signs.entry(key.clone()).or_insert(Sign { renewed, heartbeat, noticed: now });
        if sign.renewed != renewed || sign.heartbeat != heartbeat {
            *sign = Sign { renewed, heartbeat, noticed: now };
        }
        sign.noticed
    }

    fn forget(&self, key: &ObjectKey) {
        let mut signs = self.signs.lock().unwrap_or_else(PoisonError::into_inner);
        signs.remove(key);
        signs.shrink_if_sparse();
    }

    fn on_node(&self, key: &ObjectKey) -> Vec<(ObjectKey, Arc<Pod>)> {
        self.pods.indexed(BY_NODE, &key.cluster, &key.name)
    }

    /// Does the same for many Pods; the first error, after all were tried.
    async fn each<F>(
        &self,
        pods: Vec<(ObjectKey, Arc<Pod>)>,
        work: impl Fn(ObjectKey, Arc<Pod>) -> F,
    ) -> Result<(), ClientError>
    where
        F: Future<Output = Result<(), ClientError>>,
    {
        let mut results = stream::iter(pods)
            .map(|(key, pod)| work(key, pod))
            .buffer_unordered(self.options.concurrent_requests.max(1));
        let mut failed = Ok(());
        while let Some(result) = results.next().await {
            failed = failed.and(result);
        }
        failed
    }

    async fn patch_status(&self, key: &ObjectKey, pod: &Pod, status: Value) -> Result<(), ClientError> {
        let patch = Patch::Strategic(json!({"metadata": {"uid": uid(pod)}, "status": status}));
        let client = self.client.cluster(key.cluster.clone());
        match client.patch_status::<Pod>(&key.namespace, &key.name, &patch).await {
            Ok(patched) => {
                self.pods.observe(&key.cluster, &patched);
                Ok(())
            }
            Err(error) => gone(error),
        }
    }

    async fn delete(&self, key: &ObjectKey, pod: &Pod, options: &DeleteOptions) -> Result<(), ClientError> {
        let client = self.client.cluster(key.cluster.clone());
        match client.delete::<Pod>(&key.namespace, &key.name, options).await {
            Ok(()) => {
                self.pods.doom(key, uid(pod));
                Ok(())
            }
            Err(error) => gone(error),
        }
    }

    /// Removes a Pod that no node can ever say is gone.
    async fn remove(&self, key: ObjectKey, pod: Arc<Pod>) -> Result<(), ClientError> {
        if !ended(&pod) && !node_of(&pod).is_empty() {
            let why = disruption("DeletionByPodGC", "PodGC: node no longer exists");
            self.patch_status(&key, &pod, json!({"phase": "Failed", "conditions": [why]})).await?;
        }
        self.delete(&key, &pod, &DeleteOptions::of_uid(uid(&pod)).with_grace_period(0)).await
    }

    async fn evict(&self, key: ObjectKey, pod: Arc<Pod>) -> Result<(), ClientError> {
        let message = format!("Marking for deletion Pod {}/{}", key.namespace, key.name);
        self.events.normal(&key.cluster, &*pod, "TaintManagerEviction", message);
        let why = disruption("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
        self.patch_status(&key, &pod, json!({"conditions": [why]})).await?;
        self.delete(&key, &pod, &DeleteOptions::of_uid(uid(&pod))).await
    }

    /// Says that a Pod is not ready whose node can no longer say so.
    async fn unready(&self, key: ObjectKey, pod: Arc<Pod>) -> Result<(), ClientError> {
        self.events.warning(&key.cluster, &*pod, "NodeNotReady", "Node is not ready");
        let now = Time(jiff::Timestamp::now());
        let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": now});
        self.patch_status(&key, &pod, json!({"conditions": [condition]})).await
    }

    async fn without_node(&self, key: &ObjectKey) -> Result<Action, BoxError> {
        let mut pods = self.on_node(key);
        if key.name.is_empty() {
            pods.retain(|(_, pod)| pod.metadata.deletion_timestamp.is_some());
        }
        if pods.is_empty() {
            return Ok(Action::Done);
        }
        // What the informer knows may be old; then the node's own change brings us back.
        let client = self.client.cluster(key.cluster.clone());
        if !key.name.is_empty() && client.get::<Node>("", &key.name).await?.is_some() {
            return Ok(Action::Done);
        }
        self.each(pods, |key, pod| self.remove(key, pod)).await?;
        Ok(Action::Done)
    }

    async fn judge(
        &self,
        key: &ObjectKey,
        node: Arc<Node>,
        now: jiff::Timestamp,
    ) -> Result<(Arc<Node>, Option<Duration>), BoxError> {
        let alive = self.alive(key, &node, now);
        let health = health(&node, alive, now, self.options.grace, self.options.startup_grace);
        let client = self.client.cluster(key.cluster.clone());
        let mut node = node;
        if !health.conditions.is_empty() {
            let was_ready = condition(&node, "Ready") == Some("True");
            let version = node.metadata.resource_version.clone();
            let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": health.conditions}});
            let patched = client.patch_status::<Node>("", &key.name, &Patch::Strategic(patch)).await?;
            self.nodes.observe(&key.cluster, &patched);
            if was_ready {
                let message = format!("Node {} status is now: NodeNotReady", key.name);
                self.events.normal(&key.cluster, &patched, "NodeNotReady", message);
            }
            node = Arc::new(patched);
        }
        if let Some(taints) = taints_to_write(&node, now) {
            let version = node.metadata.resource_version.clone();
            let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
            let patched = client.patch::<Node>("", &key.name, &Patch::Merge(patch)).await?;
            self.nodes.observe(&key.cluster, &patched);
            node = Arc::new(patched);
        }
        Ok((node, health.look_again))
    }
}

/// A Pod that is gone, or whose name another Pod has by now, needs nothing.
fn gone(error: ClientError) -> Result<(), ClientError> {
    if error.is_not_found() || error.is_conflict() { Ok(()) } else { Err(error) }
}

fn disruption(reason: &str, message: &str) -> Value {
    let now = Time(jiff::Timestamp::now());
    json!({
        "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": now,
    })
}

fn says_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[async_trait]
impl Reconciler for Lifecycle {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, BoxError> {
        let Some(node) = self.nodes.get(key) else {
            self.forget(key);
            return self.without_node(key).await;
        };
        let now = jiff::Timestamp::now();
        let (node, mut next) = self.judge(key, node, now).await?;
        if condition(&node, "Ready") == Some("Unknown") {
            let mut ready = self.on_node(key);
            ready.retain(|(_, pod)| says_ready(pod));
            self.each(ready, |key, pod| self.unready(key, pod)).await?;
        }
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        if taints.iter().any(|taint| taint.effect == "NoExecute") {
            let mut leaving = self.on_node(key);
            leaving.retain(|(_, pod)| match eviction(pod, taints, now, self.options.presumed_toleration) {
                Eviction::Stays => false,
                Eviction::After(left) => {
                    next = Some(next.map_or(left, |next| next.min(left)));
                    false
                }
                Eviction::Now => true,
            });
            self.each(leaving, |key, pod| self.evict(key, pod)).await?;
        }
        Ok(next.map_or(Action::Done, Action::After))
    }
}
