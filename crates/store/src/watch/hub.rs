//! The one place that committed transactions pass on their way to watchers.

use super::index::Index;
use super::{Event, WatchOptions};
use crate::{Error, KeyRange, Revision};
use futures_util::task::AtomicWaker;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Distributes transactions in revision order and remembers the recent ones.
///
/// Lock order: the hub, then a watcher's queue.
pub(crate) struct Hub {
    pub(super) options: WatchOptions,
    state: Mutex<State>,
    /// Copy of [`State::last`] that is read without the lock.
    revision: AtomicU64,
}

struct State {
    /// The transactions in `(ring_start, last]` that changed something, oldest first.
    ring: VecDeque<Arc<Event>>,
    ring_bytes: usize,
    ring_start: Revision,
    last: Revision,
    index: Index,
    next_id: u64,
    closed: bool,
}

/// A watch that has caught up with the ring.
pub(super) struct Subscriber {
    pub(super) id: u64,
    pub(super) range: KeyRange,
    queue: Mutex<Queue>,
    pub(super) waker: AtomicWaker,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    ended: Option<Error>,
}

/// What [`Hub::attach`] found.
pub(super) enum Attach {
    /// The watch now receives everything after its start; the first part is here.
    Attached { subscriber: Arc<Subscriber>, backlog: VecDeque<Arc<Event>> },
    /// The start is older than the ring.
    Behind,
}

impl Hub {
    pub(crate) fn new(options: WatchOptions, revision: Revision) -> Self {
        Self {
            options,
            state: Mutex::new(State {
                ring: VecDeque::new(),
                ring_bytes: 0,
                ring_start: revision,
                last: revision,
                index: Index::default(),
                next_id: 0,
                closed: false,
            }),
            revision: AtomicU64::new(revision.0),
        }
    }

    /// The newest published revision.
    pub(crate) fn revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Acquire))
    }

    /// Hands transactions, in revision order, to everyone concerned.
    pub(crate) fn publish(&self, events: Vec<Arc<Event>>) {
        if events.is_empty() {
            return;
        }
        let mut state = self.lock();
        for event in events {
            state.deliver(&event, self.options);
            state.last = event.revision;
            state.ring_bytes += event.bytes;
            state.ring.push_back(event);
        }
        while state.ring.len() > self.options.ring_transactions || state.ring_bytes > self.options.ring_bytes {
            let Some(oldest) = state.ring.pop_front() else { break };
            state.ring_bytes -= oldest.bytes;
            state.ring_start = oldest.revision;
        }
        self.revision.store(state.last.0, Ordering::Release);
    }

    /// Forgets the recent transactions: a watch that starts in the past reads them from the change log.
    pub(crate) fn release(&self) {
        let mut state = self.lock();
        state.ring = VecDeque::new();
        state.ring_bytes = 0;
        state.ring_start = state.last;
    }

    /// How many transactions are remembered, and their bytes.
    #[cfg(test)]
    pub(crate) fn recent(&self) -> (usize, usize) {
        let state = self.lock();
        (state.ring.len(), state.ring_bytes)
    }

    /// Ends every watch, now and later.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.ring.clear();
        for subscriber in state.index.drain() {
            subscriber.end(Error::Closed);
        }
    }

    /// Subscribes from `after` on, atomically with respect to [`Hub::publish`]: nothing is missed
    /// and nothing comes twice.
    pub(super) fn attach(&self, range: &KeyRange, after: Revision) -> Result<Attach, Error> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        if after < state.ring_start {
            return Ok(Attach::Behind);
        }
        let first = state.ring.partition_point(|event| event.revision <= after);
        let concerns = |event: &&Arc<Event>| event.changes.iter().any(|change| range.contains(change.key()));
        let backlog = state.ring.range(first..).filter(concerns).cloned().collect();
        let subscriber = Arc::new(Subscriber {
            id: state.next_id,
            range: range.clone(),
            queue: Mutex::default(),
            waker: AtomicWaker::new(),
        });
        state.next_id += 1;
        state.index.insert(subscriber.clone());
        Ok(Attach::Attached { subscriber, backlog })
    }

    pub(super) fn detach(&self, subscriber: &Subscriber) {
        self.lock().index.remove(subscriber);
    }

    /// The revision up to which `subscriber` has taken everything, if its queue is empty.
    pub(super) fn progress(&self, subscriber: &Subscriber) -> Option<Revision> {
        let state = self.lock();
        let queue = subscriber.lock();
        (queue.events.is_empty() && queue.ended.is_none()).then_some(state.last)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn watcher_room(&self) -> usize {
        self.lock().index.room()
    }

    #[cfg(test)]
    pub(super) fn has_no_watchers(&self) -> bool {
        self.lock().index.is_empty()
    }
}

impl State {
    fn deliver(&mut self, event: &Arc<Event>, options: WatchOptions) {
        let mut concerned: HashMap<u64, Arc<Subscriber>> = HashMap::new();
        for change in &event.changes {
            self.index.each(change.key(), |watcher| {
                concerned.entry(watcher.id).or_insert_with(|| watcher.clone());
            });
        }
        for subscriber in concerned.into_values() {
            if !subscriber.push(event, options) {
                self.index.remove(&subscriber);
            }
        }
    }
}

impl Subscriber {
    /// Queues a transaction; `false` means that the consumer was too slow and is now cut off.
    fn push(&self, event: &Arc<Event>, options: WatchOptions) -> bool {
        let mut queue = self.lock();
        let full = queue.events.len() >= options.buffer_transactions
            || (!queue.events.is_empty() && queue.bytes + event.bytes > options.buffer_bytes);
        if full {
            drop(queue);
            self.end(Error::WatchLagged);
            return false;
        }
        queue.bytes += event.bytes;
        queue.events.push_back(event.clone());
        drop(queue);
        self.waker.wake();
        true
    }

    fn end(&self, why: Error) {
        let mut queue = self.lock();
        *queue = Queue { ended: Some(why), ..Queue::default() };
        drop(queue);
        self.waker.wake();
    }

    /// The next transaction, or why there will be none.
    pub(super) fn pop(&self) -> Result<Option<Arc<Event>>, Error> {
        let mut queue = self.lock();
        if let Some(why) = &queue.ended {
            return Err(why.clone());
        }
        let event = queue.events.pop_front();
        if let Some(event) = &event {
            queue.bytes -= event.bytes;
        }
        Ok(event)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
