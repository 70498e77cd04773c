//! `EventRecorder`: Kubernetes Events about objects, counted instead of repeated.

mod correlate;

pub use correlate::EventOptions;

use crate::{ApiResource, Client, ClientError, Patch};
use correlate::{Correlator, Decision};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use runtime::{Backoff, TaskPolicy, TaskSet, error_chain};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, timeout};

/// Whether an event is good or bad news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// As expected.
    Normal,
    /// Something that someone should look at.
    Warning,
}

impl EventType {
    fn word(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What an event says.
#[derive(Clone, Debug)]
pub struct Note {
    /// Logical cluster.
    pub cluster: Arc<str>,
    /// The object it is about.
    pub about: ObjectReference,
    /// Good or bad.
    pub type_: EventType,
    /// CamelCase, for machines.
    pub reason: String,
    /// For people.
    pub message: String,
    /// When it happened.
    pub at: jiff::Timestamp,
}

/// Records events from any thread, without waiting. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    notes: mpsc::Sender<Note>,
}

impl EventRecorder {
    /// A recorder that writes to the API server from a task of its own, as `component`.
    #[must_use]
    pub fn start(client: &Client, component: &str, options: EventOptions, tasks: &mut TaskSet) -> Self {
        let (recorder, notes) = Self::channel(options.max_pending);
        let writer = Arc::new(Mutex::new(Writer {
            client: client.clone(),
            component: component.to_owned(),
            options,
            correlator: Correlator::new(options),
            notes,
        }));
        let shutdown = tasks.shutdown().clone();
        tasks.spawn(format!("events of {component}"), TaskPolicy::Restart(options.backoff), move || {
            let (writer, shutdown) = (writer.clone(), shutdown.clone());
            async move {
                let mut writer = writer.lock().await;
                shutdown.unless_triggered(writer.run()).await;
                Ok(())
            }
        });
        recorder
    }

    /// A recorder whose notes the caller takes, at most `max_pending` at a time.
    #[must_use]
    pub fn channel(max_pending: usize) -> (Self, mpsc::Receiver<Note>) {
        let (notes, receiver) = mpsc::channel(max_pending.max(1));
        (Self { notes }, receiver)
    }

    /// Records an event. Dropped when too many are pending: events are a courtesy.
    pub fn record(&self, note: Note) {
        if let Err(error) = self.notes.try_send(note) {
            tracing::debug!(error = error_chain(&error), "an event was dropped");
        }
    }

    /// Records good news about an object.
    pub fn normal<K: ApiResource>(&self, cluster: &Arc<str>, about: &K, reason: &str, message: impl Into<String>) {
        self.about(cluster, about, EventType::Normal, reason, message.into());
    }

    /// Records bad news about an object.
    pub fn warning<K: ApiResource>(&self, cluster: &Arc<str>, about: &K, reason: &str, message: impl Into<String>) {
        self.about(cluster, about, EventType::Warning, reason, message.into());
    }

    fn about<K: ApiResource>(&self, cluster: &Arc<str>, about: &K, type_: EventType, reason: &str, message: String) {
        self.record(Note {
            cluster: cluster.clone(),
            about: reference(about),
            type_,
            reason: reason.to_owned(),
            message,
            at: jiff::Timestamp::now(),
        });
    }
}

/// The reference to an object that events carry.
#[must_use]
pub fn reference<K: ApiResource>(object: &K) -> ObjectReference {
    let metadata = object.metadata();
    ObjectReference {
        api_version: Some(K::API_VERSION.to_owned()),
        kind: Some(K::KIND.to_owned()),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        field_path: None,
    }
}

struct Writer {
    client: Client,
    component: String,
    options: EventOptions,
    correlator: Correlator,
    notes: mpsc::Receiver<Note>,
}

impl Writer {
    /// Writes notes until nobody is left to record any. In silence, forgets what is too old to count.
    async fn run(&mut self) {
        loop {
            // Who remembers nothing has no timer running.
            let silence = if self.correlator.is_empty() { Duration::MAX } else { self.options.remembered_for };
            match timeout(silence, self.notes.recv()).await {
                Ok(Some(note)) => self.write(note).await,
                Ok(None) => return,
                Err(_) => self.correlator.sweep(Instant::now()),
            }
        }
    }

    async fn write(&mut self, mut note: Note) {
        truncate(&mut note.message, self.options.max_message_bytes);
        let decision = self.correlator.decide(&note, Instant::now());
        let mut backoff = Backoff::new(self.options.backoff);
        while backoff.attempts() < self.options.max_attempts {
            match self.send(&note, &decision).await {
                Ok(()) => return,
                Err(error) if error.api().is_some_and(|error| error.code < 500 && error.code != 429) => {
                    // The namespace is gone, or the object's own words make no valid event.
                    tracing::debug!(error = error_chain(&error), "an event was refused");
                    self.correlator.forget(&note);
                    return;
                }
                Err(error) => {
                    tracing::debug!(error = error_chain(&error), "an event was not written");
                    tokio::time::sleep(backoff.next_delay()).await;
                }
            }
        }
        self.correlator.forget(&note);
    }

    async fn send(&self, note: &Note, decision: &Decision) -> Result<(), ClientError> {
        let client = self.client.cluster(note.cluster.clone());
        let namespace = namespace_of(note);
        match decision {
            Decision::Drop => Ok(()),
            Decision::Create { name } => {
                client.create(&self.event(note, name, 1, note.at)).await.map(drop).or_else(already_there)
            }
            Decision::Count { name, count, first } => {
                let patch = json!({"count": count, "lastTimestamp": Time(note.at), "message": note.message});
                match client.patch::<Event>(namespace, name, &Patch::Merge(patch)).await {
                    // It has expired meanwhile.
                    Err(error) if error.is_not_found() => {
                        client.create(&self.event(note, name, *count, *first)).await.map(drop).or_else(already_there)
                    }
                    answer => answer.map(drop),
                }
            }
        }
    }

    fn event(&self, note: &Note, name: &str, count: i32, first: jiff::Timestamp) -> Event {
        Event {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace_of(note).to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: note.about.clone(),
            reason: Some(note.reason.clone()),
            message: Some(note.message.clone()),
            source: Some(EventSource { component: Some(self.component.clone()), host: None }),
            reporting_component: Some(self.component.clone()),
            first_timestamp: Some(Time(first)),
            last_timestamp: Some(Time(note.at)),
            count: Some(count),
            type_: Some(note.type_.word().to_owned()),
            ..Event::default()
        }
    }
}

fn already_there(error: ClientError) -> Result<(), ClientError> {
    if error.is_already_exists() { Ok(()) } else { Err(error) }
}

/// Events about cluster-scoped objects live in `default`.
fn namespace_of(note: &Note) -> &str {
    note.about.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

fn truncate(text: &mut String, max_bytes: usize) {
    if text.len() > max_bytes {
        let end = (0..=max_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests;
