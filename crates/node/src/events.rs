//! Events about Pods and the node: written in the background, repeats are counted.

use controller_runtime::{ApiKind, Client, Patch};
use k8s_openapi::api::core::v1::{Event, Pod};
use serde_json::{Value, json};
use std::collections::HashMap;
use tokio::sync::mpsc;

/// Limits of the recorder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventOptions {
    /// Events that wait to be written; more are dropped.
    pub(crate) queue: usize,
    /// Events that are remembered so that repeats are counted.
    pub(crate) remembered: usize,
}

impl Default for EventOptions {
    fn default() -> Self {
        Self { queue: 256, remembered: 512 }
    }
}

/// An event to write.
#[derive(Clone, Debug)]
struct Occurrence {
    involved: Value,
    namespace: String,
    warning: bool,
    reason: &'static str,
    message: String,
}

/// Takes events. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Recorder(mpsc::Sender<Occurrence>);

/// A recorder, and the future that writes what it takes.
pub(crate) fn recorder(client: Client, node: String, options: EventOptions) -> (Recorder, impl Future<Output = ()>) {
    let (sender, receiver) = mpsc::channel(options.queue);
    (Recorder(sender), write(client, node, options, receiver))
}

impl Recorder {
    /// Something happened to a Pod, or to one of its containers.
    pub(crate) fn pod(
        &self,
        pod: &Pod,
        container: Option<(bool, &str)>,
        warning: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let metadata = &pod.metadata;
        let mut involved = json!({
            "apiVersion": "v1", "kind": "Pod", "name": metadata.name, "namespace": metadata.namespace,
            "uid": metadata.uid, "resourceVersion": metadata.resource_version,
        });
        if let Some((init, name)) = container {
            let list = if init { "initContainers" } else { "containers" };
            involved["fieldPath"] = format!("spec.{list}{{{name}}}").into();
        }
        self.send(Occurrence {
            involved,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            warning,
            reason,
            message: message.into(),
        });
    }

    /// Something happened to the node.
    pub(crate) fn node(&self, name: &str, uid: &str, reason: &'static str, message: impl Into<String>) {
        let involved = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid});
        let namespace = "default".to_owned();
        self.send(Occurrence { involved, namespace, warning: false, reason, message: message.into() });
    }

    fn send(&self, occurrence: Occurrence) {
        if self.0.try_send(occurrence).is_err() {
            tracing::debug!("dropped an event");
        }
    }
}

async fn write(client: Client, node: String, options: EventOptions, mut occurrences: mpsc::Receiver<Occurrence>) {
    let events = client.dynamic(ApiKind::of::<Event>());
    let mut written: HashMap<String, (String, u64)> = HashMap::new();
    while let Some(occurrence) = occurrences.recv().await {
        let key = format!(
            "{}/{}/{}/{}",
            occurrence.involved["uid"], occurrence.involved["fieldPath"], occurrence.reason, occurrence.message
        );
        let now = crate::node_object::now();
        let outcome = match written.get_mut(&key) {
            Some((name, count)) => {
                *count += 1;
                let patch = Patch::Merge(json!({"count": *count, "lastTimestamp": now}));
                events.patch(&occurrence.namespace, name, &patch).await.map(drop)
            }
            None => {
                let event = event(&occurrence, &node, &now);
                if written.len() >= options.remembered {
                    written.clear();
                }
                let name = event["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                written.insert(key.clone(), (name, 1));
                events.create(&occurrence.namespace, &event).await.map(drop)
            }
        };
        if let Err(error) = outcome {
            written.remove(&key);
            tracing::debug!(error = runtime::error_chain(&error), "cannot write an event");
        }
    }
}

fn event(occurrence: &Occurrence, node: &str, now: &str) -> Value {
    let nanos = jiff::Timestamp::now().as_nanosecond();
    let name = occurrence.involved["name"].as_str().unwrap_or_default();
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}.{nanos:x}"), "namespace": occurrence.namespace},
        "involvedObject": occurrence.involved,
        "type": if occurrence.warning { "Warning" } else { "Normal" },
        "reason": occurrence.reason, "message": occurrence.message,
        "source": {"component": "kubelet", "host": node},
        "reportingComponent": "kubelet", "reportingInstance": node,
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    })
}
