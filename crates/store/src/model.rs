//! The types that cross the [`Store`](crate::Store) seam.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use std::num::NonZeroUsize;

/// A store-wide, strictly increasing transaction number. Zero is "before everything".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A live value with the revisions that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The revision at which the key last came into being.
    pub created: Revision,
    /// The revision of its newest change.
    pub modified: Revision,
}

/// A half-open range of keys, `[start, end)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First key included.
    pub start: Bytes,
    /// First key excluded; `None` means no upper bound.
    pub end: Option<Bytes>,
}

impl KeyRange {
    /// Every key that starts with `prefix`.
    #[must_use]
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start: Bytes = prefix.into();
        let mut end = start.to_vec();
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                return Self { start, end: Some(end.into()) };
            }
        }
        Self { start, end: None }
    }

    /// Exactly one key.
    #[must_use]
    pub fn key(key: impl Into<Bytes>) -> Self {
        let start: Bytes = key.into();
        let mut end = start.to_vec();
        end.push(0);
        Self { start, end: Some(end.into()) }
    }

    /// Whether no key can lie in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// Whether `key` lies in the range.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &self.start[..] && self.end.as_ref().is_none_or(|end| key < &end[..])
    }
}

/// How to read a range.
#[derive(Clone, Copy, Debug, Default)]
pub struct RangeOptions {
    /// Read the snapshot of this revision; `None` reads the newest.
    pub at: Option<Revision>,
    /// At most this many entries.
    pub limit: Option<NonZeroUsize>,
}

/// One snapshot of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeResult {
    /// Entries in ascending key order.
    pub entries: Vec<Entry>,
    /// The revision of the snapshot.
    pub revision: Revision,
    /// Whether the limit cut off further entries.
    pub more: bool,
}

/// What must hold of a key for a transaction to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The key has no live value.
    Absent,
    /// The key has a live value, whatever its revision.
    Present,
    /// The key's newest change is at exactly this revision.
    ModifiedAt(Revision),
}

/// One change in a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets a key.
    Put {
        /// The key.
        key: Bytes,
        /// Its new value.
        value: Bytes,
    },
    /// Removes a key; removing an absent key changes nothing.
    Delete {
        /// The key.
        key: Bytes,
    },
    /// Removes every key of a range.
    DeleteRange {
        /// The range.
        range: KeyRange,
    },
}

/// Conditions and the changes that apply atomically if all of them hold. A key is changed by at
/// most one operation of a transaction.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    /// What must hold.
    pub conditions: Vec<(Bytes, Condition)>,
    /// What then changes.
    pub ops: Vec<Op>,
}

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Applied and durable at this revision (the current one if nothing changed).
    Done {
        /// The transaction's revision.
        revision: Revision,
    },
    /// A condition did not hold; nothing changed.
    Conflict {
        /// The key whose condition failed first.
        key: Bytes,
        /// Its live entry at that moment.
        current: Option<Entry>,
    },
}

/// One change as a watcher sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key was set.
    Put {
        /// The new entry.
        entry: Entry,
        /// The entry it replaced.
        previous: Option<Entry>,
    },
    /// A key was removed.
    Delete {
        /// The entry that was removed.
        previous: Entry,
    },
}

impl Change {
    /// The key that changed.
    #[must_use]
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put { entry, .. } => &entry.key,
            Self::Delete { previous } => &previous.key,
        }
    }

    /// The entry before the change.
    #[must_use]
    pub fn previous(&self) -> Option<&Entry> {
        match self {
            Self::Put { previous, .. } => previous.as_ref(),
            Self::Delete { previous } => Some(previous),
        }
    }
}

/// An item of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchItem {
    /// All changes of one transaction that fall in the watched range, in operation order.
    Changes {
        /// The transaction's revision.
        revision: Revision,
        /// At least one change.
        changes: Vec<Change>,
    },
    /// Every change up to this revision has been delivered.
    Progress(Revision),
}

/// A live watch; dropping it ends it.
pub type WatchStream = BoxStream<'static, Result<WatchItem, Error>>;

/// Why a store operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The revision is older than the kept history.
    #[error("revision {requested} has been compacted; the oldest kept is {oldest}")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// What is kept.
        oldest: Revision,
    },
    /// The revision has not happened.
    #[error("revision {requested} is in the future; the newest is {newest}")]
    Future {
        /// What was asked for.
        requested: Revision,
        /// What exists.
        newest: Revision,
    },
    /// The watcher read slower than changes arrived and was cut off.
    #[error("the watch fell behind and was cut off; list again")]
    WatchLagged,
    /// Another process has the files open.
    #[error("{path} is in use by another process")]
    Locked {
        /// The store's path.
        path: String,
    },
    /// No room is left on the device; the transaction was not applied.
    #[error("no space left for the store")]
    OutOfSpace,
    /// A transaction was malformed (empty key, key changed twice, over a size limit).
    #[error("invalid transaction: {0}")]
    Invalid(String),
    /// The driver failed; the message names the operation and the cause.
    #[error("store failure: {0}")]
    Failed(String),
    /// The store is shutting down.
    #[error("the store is closed")]
    Closed,
}
