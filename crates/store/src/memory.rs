//! The in-memory driver: for tests, and the model that other drivers are compared with.

use crate::validate::{Limits, validate};
use crate::watch::{ChangeLog, Chunk, Event, Hub, Watch, WatchOptions};
use crate::{
    Change, Commit, Condition, Entry, Error, KeyRange, Op, RangeOptions, RangeResult, Revision, Store, Txn, WatchStream,
};
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bounds of a [`Memory`] store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Transactions of history kept; older ones are compacted away.
    pub history_revisions: u64,
    /// Bytes of one key and its value.
    pub max_entry_bytes: usize,
    /// Bytes of one transaction.
    pub max_txn_bytes: usize,
    /// Bounds of watching.
    pub watch: WatchOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            history_revisions: 10_000,
            max_entry_bytes: 3 << 20,
            max_txn_bytes: 64 << 20,
            watch: WatchOptions::default(),
        }
    }
}

/// A store that lives and dies with the process. "Stable storage" is its own memory.
pub struct Memory {
    shared: Arc<Shared>,
    hub: Arc<Hub>,
    options: Options,
}

struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    live: BTreeMap<Bytes, Entry>,
    /// The transactions in `(compacted, revision]`, oldest first.
    log: VecDeque<Arc<Event>>,
    revision: Revision,
    compacted: Revision,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let hub = Arc::new(Hub::new(options.watch, Revision::default()));
        Self { shared: Arc::new(Shared(Mutex::default())), hub, options }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.hub.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check(&self, at: Option<Revision>) -> Result<Revision, Error> {
        let requested = at.unwrap_or(self.revision);
        if requested > self.revision {
            return Err(Error::Future { requested, newest: self.revision });
        }
        if requested < self.compacted {
            return Err(Error::Compacted { requested, oldest: self.compacted });
        }
        Ok(requested)
    }

    /// The range as it was at a kept revision: the live entries with every later change undone.
    fn snapshot(&self, range: &KeyRange, at: Revision) -> BTreeMap<Bytes, Entry> {
        let mut entries: BTreeMap<_, _> = self.within(range).map(|(key, entry)| (key.clone(), entry.clone())).collect();
        for event in self.log.iter().rev().take_while(|event| event.revision > at) {
            for change in event.changes.iter().filter(|change| range.contains(change.key())) {
                match change.previous() {
                    Some(previous) => entries.insert(previous.key.clone(), previous.clone()),
                    None => entries.remove(change.key()),
                };
            }
        }
        entries
    }

    fn within(&self, range: &KeyRange) -> impl Iterator<Item = (&Bytes, &Entry)> {
        let end = match &range.end {
            // An inverted range would panic in the map.
            Some(end) => Bound::Excluded(end.max(&range.start).clone()),
            None => Bound::Unbounded,
        };
        self.live.range((Bound::Included(range.start.clone()), end))
    }

    fn conflict(&self, txn: &Txn) -> Option<Commit> {
        for (key, condition) in &txn.conditions {
            let current = self.live.get(key);
            let holds = match condition {
                Condition::Absent => current.is_none(),
                Condition::Present => current.is_some(),
                Condition::ModifiedAt(revision) => current.is_some_and(|entry| entry.modified == *revision),
            };
            if !holds {
                return Some(Commit::Conflict { key: key.clone(), current: current.cloned() });
            }
        }
        None
    }

    fn apply(&mut self, txn: Txn) -> Vec<Change> {
        let revision = Revision(self.revision.0 + 1);
        let mut changes = Vec::new();
        for op in txn.ops {
            match op {
                Op::Put { key, value } => {
                    let previous = self.live.get(&key).cloned();
                    let created = previous.as_ref().map_or(revision, |entry| entry.created);
                    let entry = Entry { key: key.clone(), value, created, modified: revision };
                    self.live.insert(key, entry.clone());
                    changes.push(Change::Put { entry, previous });
                }
                Op::Delete { key } => {
                    changes.extend(self.live.remove(&key).map(|previous| Change::Delete { previous }));
                }
                Op::DeleteRange { range } => {
                    let keys: Vec<_> = self.within(&range).map(|(key, _)| key.clone()).collect();
                    for key in keys {
                        changes.extend(self.live.remove(&key).map(|previous| Change::Delete { previous }));
                    }
                }
            }
        }
        changes
    }

    fn compact(&mut self, revision: Revision) {
        self.compacted = self.compacted.max(revision);
        while self.log.front().is_some_and(|event| event.revision <= self.compacted) {
            self.log.pop_front();
        }
    }
}

#[async_trait]
impl Store for Memory {
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Option<Entry>, Error> {
        let state = self.shared.lock();
        let revision = state.check(at)?;
        let range = KeyRange::key(Bytes::copy_from_slice(key));
        Ok(state.snapshot(&range, revision).into_values().next())
    }

    async fn range(&self, range: &KeyRange, options: RangeOptions) -> Result<RangeResult, Error> {
        let state = self.shared.lock();
        let revision = state.check(options.at)?;
        let mut entries: Vec<_> = state.snapshot(range, revision).into_values().collect();
        let limit = options.limit.map_or(usize::MAX, usize::from);
        let more = entries.len() > limit;
        entries.truncate(limit);
        Ok(RangeResult { entries, revision, more })
    }

    async fn commit(&self, txn: Txn) -> Result<Commit, Error> {
        validate(&txn, Limits { entry_bytes: self.options.max_entry_bytes, txn_bytes: self.options.max_txn_bytes })?;
        let mut state = self.shared.lock();
        if let Some(conflict) = state.conflict(&txn) {
            return Ok(conflict);
        }
        let changes = state.apply(txn);
        if !changes.is_empty() {
            state.revision.0 += 1;
            let event = Arc::new(Event::new(state.revision, changes));
            state.log.push_back(event.clone());
            let keep_after = state.revision.0.saturating_sub(self.options.history_revisions);
            state.compact(Revision(keep_after));
            // Under the lock, so that transactions are published in order.
            self.hub.publish(vec![event]);
        }
        Ok(Commit::Done { revision: state.revision })
    }

    async fn watch(&self, range: &KeyRange, after: Revision) -> Result<WatchStream, Error> {
        self.shared.lock().check(Some(after))?;
        Ok(Box::pin(Watch::new(self.hub.clone(), self.shared.clone(), range.clone(), after)))
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        let mut state = self.shared.lock();
        if revision > state.revision {
            return Err(Error::Future { requested: revision, newest: state.revision });
        }
        state.compact(revision);
        Ok(())
    }

    fn revision(&self) -> Revision {
        self.shared.lock().revision
    }

    fn compacted(&self) -> Revision {
        self.shared.lock().compacted
    }
}

#[async_trait]
impl ChangeLog for Shared {
    async fn read_after(&self, after: Revision) -> Result<Chunk, Error> {
        let state = self.lock();
        state.check(Some(after))?;
        let first = state.log.partition_point(|event| event.revision <= after);
        Ok(Chunk { events: state.log.range(first..).cloned().collect(), through: state.revision })
    }
}
