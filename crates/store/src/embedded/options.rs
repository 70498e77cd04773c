//! Bounds of the embedded driver.

use crate::WatchOptions;
use std::time::Duration;

/// Bounds of an [`Embedded`](super::Embedded) store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of file pages cached in memory. The kernel caches the file too, so a small cache costs little.
    pub cache_bytes: usize,
    /// Bytes of file pages that may stay cached when nothing is written for [`quiet`](Self::quiet);
    /// if there may be more, all are dropped. The operating system still has them.
    pub quiet_cache_bytes: usize,
    /// Bytes the store file may take; `None` leaves the limit to the device. A write that needs
    /// more fails with [`Error::OutOfSpace`](crate::Error::OutOfSpace). The file grows in steps of
    /// up to its own size, so it may be full at half the limit.
    pub max_file_bytes: Option<u64>,
    /// Bytes of one key and its value.
    pub max_entry_bytes: usize,
    /// Transactions that may wait for the writer; further callers wait in turn.
    pub queue_transactions: usize,
    /// Bytes of transactions that may wait for the writer. A larger transaction is invalid.
    pub queue_bytes: usize,
    /// Transactions made durable by one synchronisation of the file.
    pub group_transactions: usize,
    /// Transactions of history kept; older ones are compacted away.
    pub history_revisions: u64,
    /// Bytes of history kept; older history is compacted away.
    pub history_bytes: u64,
    /// Changes of history removed in one step while the writer has nothing else to do.
    pub trim_step: usize,
    /// Changes of history read at once for a watch that starts in the past.
    pub replay_step: usize,
    /// How long there must be no write before memory that only serves recent writes is given back, and
    /// the file is considered for shrinking.
    pub quiet: Duration,
    /// A file that takes less than this is never shrunk.
    pub shrink_min_bytes: u64,
    /// The file is shrunk when it takes more than this many times its content.
    pub shrink_ratio: u64,
    /// How long a read waits while the file is opened again after an I/O error.
    pub reopen_wait: Duration,
    /// Bounds of watching.
    pub watch: WatchOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 8 << 20,
            quiet_cache_bytes: 2 << 20,
            max_file_bytes: None,
            max_entry_bytes: 3 << 20,
            queue_transactions: 1024,
            queue_bytes: 64 << 20,
            group_transactions: 512,
            history_revisions: 50_000,
            history_bytes: 64 << 20,
            trim_step: 1024,
            replay_step: 256,
            quiet: Duration::from_secs(2),
            shrink_min_bytes: 16 << 20,
            shrink_ratio: 2,
            reopen_wait: Duration::from_secs(5),
            watch: WatchOptions::default(),
        }
    }
}
