//! `Queue`: keys that wait for work, each once, with a backoff per key.
//!
//! A key is with one worker at a time; one that is added meanwhile comes again afterwards. The queue
//! is bounded: what does not fit is counted as [`overflowed`](Queue::take_overflow), and whoever
//! fills the queue then offers everything again.

use runtime::{BackoffOptions, Shrink};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Limits of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Keys that wait or are worked on at a time.
    pub max_keys: usize,
    /// Delays of a key that failed.
    pub backoff: BackoffOptions,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            max_keys: 100_000,
            backoff: BackoffOptions {
                initial: Duration::from_millis(20),
                max: Duration::from_secs(300),
                ..BackoffOptions::default()
            },
        }
    }
}

/// How the work on a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do until it is added again.
    Done,
    /// It comes again after a while, or earlier when it is added.
    After(Duration),
    /// It comes again after its backoff, or earlier when it is added.
    Failed,
}

enum State {
    Ready,
    Delayed(Instant, u64),
    Working { again: bool },
}

struct Entry {
    state: State,
    failures: u32,
}

struct Inner<K> {
    entries: HashMap<K, Entry>,
    ready: VecDeque<K>,
    delayed: BTreeMap<(Instant, u64), K>,
    sequence: u64,
    overflowed: bool,
    closed: bool,
}

/// A queue of keys. Clones share it.
pub struct Queue<K> {
    inner: Arc<Mutex<Inner<K>>>,
    changed: Arc<Notify>,
    options: QueueOptions,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), changed: self.changed.clone(), options: self.options }
    }
}

impl<K> std::fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(options: QueueOptions) -> Self {
        let inner = Inner {
            entries: HashMap::new(),
            ready: VecDeque::new(),
            delayed: BTreeMap::new(),
            sequence: 0,
            overflowed: false,
            closed: false,
        };
        Self { inner: Arc::new(Mutex::new(inner)), changed: Arc::new(Notify::new()), options }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a key; one that waits already stays where it is, one that waits for its time is due at
    /// once. Returns whether there was room.
    pub fn add(&self, key: K) -> bool {
        let mut guard = self.lock();
        let inner = &mut *guard;
        let known = inner.entries.len();
        match inner.entries.get_mut(&key) {
            Some(Entry { state: State::Ready, .. }) => return true,
            Some(Entry { state: State::Working { again }, .. }) => {
                *again = true;
                return true;
            }
            Some(entry) => {
                if let State::Delayed(at, sequence) = std::mem::replace(&mut entry.state, State::Ready) {
                    inner.delayed.remove(&(at, sequence));
                }
            }
            None if known >= self.options.max_keys => {
                inner.overflowed = true;
                return false;
            }
            None => {
                inner.entries.insert(key.clone(), Entry { state: State::Ready, failures: 0 });
            }
        }
        inner.ready.push_back(key);
        drop(guard);
        self.changed.notify_one();
        true
    }

    /// Adds a key that is due after `delay`, unless it waits already. Returns whether there was room.
    pub fn add_after(&self, key: K, delay: Duration) -> bool {
        let mut inner = self.lock();
        if inner.entries.contains_key(&key) {
            return true;
        }
        if inner.entries.len() >= self.options.max_keys {
            inner.overflowed = true;
            return false;
        }
        inner.delay(key, 0, delay);
        drop(inner);
        self.changed.notify_one();
        true
    }

    /// The next key that is due; it is the caller's until [`done`](Self::done). `None` when the
    /// queue is closed. Cancel safe.
    pub async fn next(&self) -> Option<K> {
        loop {
            let changed = self.changed.notified();
            let due = {
                let mut inner = self.lock();
                if inner.closed {
                    return None;
                }
                inner.promote(Instant::now());
                if let Some(key) = inner.ready.pop_front() {
                    inner.ready.shrink_if_sparse();
                    if let Some(entry) = inner.entries.get_mut(&key) {
                        entry.state = State::Working { again: false };
                    }
                    let more = !inner.ready.is_empty() || !inner.delayed.is_empty();
                    drop(inner);
                    if more {
                        // Someone else takes the next key, or waits for the next that is due.
                        self.changed.notify_one();
                    }
                    return Some(key);
                }
                inner.delayed.first_key_value().map(|((at, _), _)| *at)
            };
            match due {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, changed).await;
                }
                None => changed.await,
            }
        }
    }

    /// Gives a key back.
    pub fn done(&self, key: K, outcome: Outcome) {
        let mut inner = self.lock();
        let Some(entry) = inner.entries.get_mut(&key) else { return };
        let State::Working { again } = entry.state else { return };
        let failures = if outcome == Outcome::Failed { entry.failures.saturating_add(1) } else { 0 };
        if again {
            entry.failures = failures;
            // A key that fails and is added over and over still backs off.
            if outcome == Outcome::Failed {
                let delay = self.options.backoff.delay(failures - 1, rand::random());
                inner.delay(key, failures, delay);
            } else {
                entry.state = State::Ready;
                inner.ready.push_back(key);
            }
        } else {
            match outcome {
                Outcome::Done => {
                    inner.entries.remove(&key);
                    inner.entries.shrink_if_sparse();
                }
                Outcome::After(delay) => inner.delay(key, 0, delay),
                Outcome::Failed => {
                    let delay = self.options.backoff.delay(failures - 1, rand::random());
                    inner.delay(key, failures, delay);
                }
            }
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// Whether a key did not fit since the last call.
    pub fn take_overflow(&self) -> bool {
        std::mem::take(&mut self.lock().overflowed)
    }

    /// Keys that wait or are worked on.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether nothing waits and nothing is worked on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many more keys fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.options.max_keys.saturating_sub(self.len())
    }

    /// Lets every [`next`](Self::next) end.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
        self.changed.notify_one();
    }
}

impl<K: Clone + Eq + Hash> Inner<K> {
    fn delay(&mut self, key: K, failures: u32, delay: Duration) {
        self.sequence += 1;
        let at = Instant::now() + delay;
        self.delayed.insert((at, self.sequence), key.clone());
        self.entries.insert(key, Entry { state: State::Delayed(at, self.sequence), failures });
    }

    fn promote(&mut self, now: Instant) {
        while let Some(first) = self.delayed.first_entry() {
            if first.key().0 > now {
                return;
            }
            let key = first.remove();
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.state = State::Ready;
            }
            self.ready.push_back(key);
        }
    }
}

#[cfg(test)]
mod tests;
