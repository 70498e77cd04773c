//! Watches, shared by the drivers that run in this process.
//!
//! A driver publishes each committed transaction once, to the [`Hub`]. The hub keeps a bounded
//! ring of recent transactions and hands each one to the watchers whose range it touches, found
//! through an index, so a watcher of other keys costs nothing. A watch that starts before the
//! ring reads the driver's own log ([`ChangeLog`]) at the pace of its consumer until it meets the
//! ring. A watch is a plain stream: it owns no task.

mod hub;
mod index;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use hub::Hub;
pub(crate) use stream::{ChangeLog, Chunk, Watch};

use crate::{Change, Revision};
use std::time::Duration;

/// Bounds of watching.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// Recent transactions kept in memory for watches that start slightly in the past.
    pub ring_transactions: usize,
    /// Bytes of keys and values that the kept transactions may hold.
    pub ring_bytes: usize,
    /// Transactions that may wait for one slow consumer before it is cut off.
    pub buffer_transactions: usize,
    /// Bytes of keys and values that may wait for one slow consumer. A single larger transaction
    /// is still delivered.
    pub buffer_bytes: usize,
    /// Longest silence of a watch before it reports progress.
    pub progress_interval: Duration,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            ring_transactions: 8192,
            ring_bytes: 16 << 20,
            buffer_transactions: 1024,
            buffer_bytes: 16 << 20,
            progress_interval: Duration::from_secs(5),
        }
    }
}

/// All changes of one committed transaction, in operation order.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) revision: Revision,
    pub(crate) changes: Vec<Change>,
    bytes: usize,
}

impl Event {
    pub(crate) fn new(revision: Revision, changes: Vec<Change>) -> Self {
        let bytes = changes.iter().map(change_bytes).sum();
        Self { revision, changes, bytes }
    }
}

fn change_bytes(change: &Change) -> usize {
    let value = match change {
        Change::Put { entry, .. } => entry.value.len(),
        Change::Delete { .. } => 0,
    };
    size_of::<Change>() + change.key().len() + value + change.previous().map_or(0, |entry| entry.value.len())
}
