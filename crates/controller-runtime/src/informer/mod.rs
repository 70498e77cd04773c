//! Shared informers: one list and watch per kind over every logical cluster.

mod reflector;
mod store;

pub use store::{Change, Indexer, OWNER_INDEX, Store};

use crate::{ApiResource, Client};
use runtime::{BackoffOptions, TaskPolicy, TaskSet};
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Limits of an informer.
#[derive(Clone, Copy, Debug)]
pub struct InformerOptions {
    /// How long one watch may last before it is begun anew from where it was.
    pub watch_timeout: Duration,
    /// A watch that outlives its timeout by more than this is given up.
    pub watch_grace: Duration,
    /// Largest event of a watch, bytes.
    pub max_event_bytes: usize,
    /// Delays after failures.
    pub backoff: BackoffOptions,
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self {
            watch_timeout: Duration::from_secs(480),
            watch_grace: Duration::from_secs(30),
            max_event_bytes: 8 << 20,
            backoff: BackoffOptions { max: Duration::from_secs(10), ..BackoffOptions::default() },
        }
    }
}

/// What is known of one kind, kept current by one watch. Clones share it.
#[derive(Debug)]
pub struct Informer<K> {
    store: Store<K>,
    synced: watch::Receiver<bool>,
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), synced: self.synced.clone() }
    }
}

impl<K: ApiResource> Informer<K> {
    /// What is known.
    #[must_use]
    pub fn store(&self) -> &Store<K> {
        &self.store
    }

    /// Whether the first list has been read whole.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until the first list has been read whole. Never returns when that never happens.
    pub async fn synced(&self) {
        let mut synced = self.synced.clone();
        if synced.wait_for(|synced| *synced).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

type Start = Box<dyn FnOnce(&mut TaskSet) + Send>;

/// The informers of one process: one per kind that someone asked for.
pub struct Informers {
    client: Client,
    options: InformerOptions,
    kinds: Mutex<Kinds>,
}

#[derive(Default)]
struct Kinds {
    known: HashMap<TypeId, Box<dyn Any + Send>>,
    waiting: Vec<Start>,
}

impl std::fmt::Debug for Informers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Informers").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Informers {
    /// No informers yet. `client` may be for any logical cluster.
    #[must_use]
    pub fn new(client: &Client, options: InformerOptions) -> Self {
        Self { client: client.cluster("*"), options, kinds: Mutex::default() }
    }

    /// The informer of a kind. It is started by the next [`start`](Self::start).
    pub fn of<K: ApiResource>(&self) -> Informer<K> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kinds.known.get(&TypeId::of::<K>()).and_then(|known| known.downcast_ref::<Informer<K>>()) {
            return known.clone();
        }
        let (sender, synced) = watch::channel(false);
        let informer = Informer { store: Store::new(), synced };
        kinds.known.insert(TypeId::of::<K>(), Box::new(informer.clone()));
        let (client, options, store) = (self.client.clone(), self.options, informer.store.clone());
        let sender = Arc::new(sender);
        kinds.waiting.push(Box::new(move |tasks: &mut TaskSet| {
            let shutdown = tasks.shutdown().clone();
            let name = format!("informer {}", crate::ApiKind::of::<K>().qualified());
            tasks.spawn(name, TaskPolicy::Restart(options.backoff), move || {
                let (client, store, sender, shutdown) =
                    (client.clone(), store.clone(), sender.clone(), shutdown.clone());
                async move {
                    shutdown.unless_triggered(reflector::run(&client, &options, &store, &sender)).await;
                    Ok(())
                }
            });
        }));
        informer
    }

    /// Starts the informers that were asked for since the last call.
    pub fn start(&self, tasks: &mut TaskSet) {
        let waiting = std::mem::take(&mut self.kinds.lock().unwrap_or_else(PoisonError::into_inner).waiting);
        for start in waiting {
            start(tasks);
        }
    }
}

#[cfg(test)]
mod tests;
