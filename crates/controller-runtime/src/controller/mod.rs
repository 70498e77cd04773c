//! `Controller`: workers that reconcile keys, fed by informers.

use crate::{ApiResource, BoxError, Change, Informer, ObjectKey, Outcome, Queue, QueueOptions};
use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use runtime::{BackoffOptions, TaskPolicy, TaskSet, error_chain};
use std::fmt;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a reconciler wants next for its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing until something changes.
    Done,
    /// To look again after that long at the latest.
    After(Duration),
}

/// Brings what is closer to what is wanted, for one key at a time. It is told nothing but the key
/// and must be right whatever happened before.
#[async_trait]
pub trait Reconciler<K = ObjectKey>: Send + Sync + 'static {
    /// One step. No two run for the same key at once; a failed one is repeated after a backoff.
    /// Dropped when it takes longer than [`ControllerOptions::timeout`].
    async fn reconcile(&self, key: &K) -> Result<Action, BoxError>;
}

/// Limits of a controller.
#[derive(Clone, Copy, Debug)]
pub struct ControllerOptions {
    /// Keys worked on at a time.
    pub workers: usize,
    /// How long one step may take.
    pub timeout: Duration,
    /// Limits of its queue.
    pub queue: QueueOptions,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self { workers: 4, timeout: Duration::from_secs(120), queue: QueueOptions::default() }
    }
}

/// Offers keys of everything a source knows, from a cursor on, until the queue is full. Returns
/// whether the end was reached.
type Sweep = Box<dyn Fn(&mut Option<ObjectKey>) -> bool + Send + Sync>;
type Synced = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// A controller that is being put together.
pub struct Controller<K = ObjectKey> {
    name: &'static str,
    options: ControllerOptions,
    queue: Queue<K>,
    sources: Vec<Sweep>,
    synced: Vec<Synced>,
}

impl<K> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static> Controller<K> {
    /// A controller without sources.
    #[must_use]
    pub fn new(name: &'static str, options: ControllerOptions) -> Self {
        Self { name, options, queue: Queue::new(options.queue), sources: Vec::new(), synced: Vec::new() }
    }

    /// Its queue, for keys that come from elsewhere.
    #[must_use]
    pub fn queue(&self) -> &Queue<K> {
        &self.queue
    }

    /// Adds the keys that `map` makes of every change that the informer tells, and starts working
    /// only when the informer has synced.
    #[must_use]
    pub fn watch<O: ApiResource>(
        mut self,
        informer: &Informer<O>,
        map: impl Fn(&Change<O>) -> Vec<K> + Send + Sync + 'static,
    ) -> Self {
        const BATCH: usize = 256;
        let map = Arc::new(map);
        let (queue, on_change) = (self.queue.clone(), map.clone());
        informer.store().on_change(move |change| {
            for key in on_change(change) {
                queue.add(key);
            }
        });
        let (queue, store) = (self.queue.clone(), informer.store().clone());
        self.sources.push(Box::new(move |cursor| {
            loop {
                let batch = store.after(cursor.as_ref(), queue.room().min(BATCH));
                if batch.is_empty() {
                    return queue.room() > 0;
                }
                for (key, object) in batch {
                    for wanted in map(&Change { key: key.clone(), before: None, after: Some(object) }) {
                        if !queue.add(wanted) {
                            return false;
                        }
                    }
                    *cursor = Some(key);
                }
            }
        }));
        self.require(informer)
    }

    /// [`watch`](Self::watch) where each object is its own key.
    #[must_use]
    pub fn primary<O: ApiResource>(self, informer: &Informer<O>) -> Self
    where
        K: From<ObjectKey>,
    {
        self.watch(informer, |change| vec![change.key.clone().into()])
    }

    /// Starts working only when the informer has synced.
    #[must_use]
    pub fn require<O: ApiResource>(mut self, informer: &Informer<O>) -> Self {
        let informer = informer.clone();
        self.synced.push(Box::new(move || {
            let informer = informer.clone();
            Box::pin(async move { informer.synced().await })
        }));
        self
    }

    /// Starts the workers.
    pub fn spawn(self, tasks: &mut TaskSet, reconciler: Arc<dyn Reconciler<K>>) {
        let runner = Arc::new(Runner {
            name: self.name,
            timeout: self.options.timeout,
            queue: self.queue,
            sources: self.sources,
            synced: self.synced,
            sweep: Mutex::default(),
            reconciler,
        });
        let shutdown = tasks.shutdown().clone();
        for worker in 0..self.options.workers.max(1) {
            let (runner, shutdown) = (runner.clone(), shutdown.clone());
            let policy = TaskPolicy::Restart(BackoffOptions::default());
            tasks.spawn(format!("controller {} {worker}", self.name), policy, move || {
                let (runner, shutdown) = (runner.clone(), shutdown.clone());
                async move {
                    if shutdown.unless_triggered(runner.synced()).await.is_none() {
                        return Ok(());
                    }
                    while let Some(Some(key)) = shutdown.unless_triggered(runner.queue.next()).await {
                        runner.work(key).await;
                    }
                    Ok(())
                }
            });
        }
    }
}

#[derive(Default)]
struct Sweeping {
    /// The source that is being offered, and how far it is.
    at: Option<(usize, Option<ObjectKey>)>,
    /// Whether to begin again afterwards.
    again: bool,
}

struct Runner<K> {
    name: &'static str,
    timeout: Duration,
    queue: Queue<K>,
    sources: Vec<Sweep>,
    synced: Vec<Synced>,
    sweep: Mutex<Sweeping>,
    reconciler: Arc<dyn Reconciler<K>>,
}

impl<K: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static> Runner<K> {
    async fn synced(&self) {
        for synced in &self.synced {
            synced().await;
        }
    }

    async fn work(&self, key: K) {
        let step = AssertUnwindSafe(self.reconciler.reconcile(&key)).catch_unwind();
        let outcome = match tokio::time::timeout(self.timeout, step).await {
            Ok(Ok(Ok(Action::Done))) => Outcome::Done,
            Ok(Ok(Ok(Action::After(delay)))) => Outcome::After(delay),
            Ok(Ok(Err(error))) => {
                let conflict = error.downcast_ref::<crate::ClientError>().is_some_and(crate::ClientError::is_conflict);
                if conflict {
                    tracing::debug!(controller = self.name, ?key, error = error_chain(&*error), "will try again");
                } else {
                    tracing::warn!(controller = self.name, ?key, error = error_chain(&*error), "will try again");
                }
                Outcome::Failed
            }
            Ok(Err(_)) => {
                tracing::error!(controller = self.name, ?key, "the reconciler panicked");
                Outcome::Failed
            }
            Err(_) => {
                tracing::warn!(controller = self.name, ?key, timeout = ?self.timeout, "took too long; will try again");
                Outcome::Failed
            }
        };
        self.queue.done(key, outcome);
        self.offer_again();
    }

    /// After an overflow: offers what the sources know, as far as there is room.
    fn offer_again(&self) {
        let Ok(mut sweep) = self.sweep.try_lock().or_else(|error| match error {
            std::sync::TryLockError::Poisoned(poisoned) => Ok(PoisonError::into_inner(poisoned)),
            error @ std::sync::TryLockError::WouldBlock => Err(error),
        }) else {
            return;
        };
        sweep.again |= self.queue.take_overflow();
        if sweep.at.is_none() && sweep.again {
            *sweep = Sweeping { at: Some((0, None)), again: false };
        }
        while let Some((source, cursor)) = &mut sweep.at {
            let Some(offer) = self.sources.get(*source) else {
                sweep.at = None;
                return;
            };
            if !offer(cursor) {
                return;
            }
            (*source, *cursor) = (*source + 1, None);
        }
    }
}

#[cfg(test)]
mod tests;
