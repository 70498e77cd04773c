//! The default driver: one durable file in a directory, written by one thread.
//!
//! **Writing.** Transactions wait in a bounded queue. A dedicated thread takes all that wait,
//! applies them in order to one redb transaction, makes that durable, tells the watchers and only
//! then answers. So the cost of synchronising the file is shared, and a killed process loses
//! nothing that was answered.
//!
//! **Reading.** Reads use redb's snapshots and never wait for the writer. A read of a key takes a
//! few microseconds, less than handing it to another thread, so it is done in place; a range is
//! read in place up to `INLINE_ENTRIES` entries, and the rest on a blocking thread.
//!
//! **Space.** History is trimmed in each write, a little more than the write adds. redb reuses
//! freed pages; if the file is still much larger than its content when nothing is written for a
//! while, the content is copied to a new file that replaces it (`shrink`).
//!
//! **Memory.** Pages are cached, and recent transactions are kept for watches that start slightly in
//! the past. Both go when nothing is written for a while: the cache by closing the file and opening it
//! again while nobody reads, the transactions because the log has them too.
//!
//! **Failures.** redb refuses everything after an I/O error, such as a full disk. The file is then
//! opened again at once, which takes about a millisecond: reads go on, and the outcome of the
//! failed transactions is what is on disk. Without room, history goes first, then what still
//! does not fit is refused; deleting leaves no history then, so it needs next to no room.

mod file;
mod options;
mod read;
mod schema;
mod shared;
mod shrink;
#[cfg(test)]
mod tests;
mod write;
mod writer;

pub use options::Options;

use crate::validate::{Limits, validate};
use crate::watch::{Hub, Watch};
use crate::{Commit, Entry, Error, KeyRange, RangeOptions, RangeResult, Revision, Store, Txn, WatchStream};
use async_trait::async_trait;
use file::Directory;
use shared::Shared;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{Semaphore, mpsc, oneshot};
use writer::{Request, Writer};

/// Entries of a range that are read without handing it to a blocking thread: well under a
/// millisecond of work.
const INLINE_ENTRIES: usize = 256;

/// A store in a directory. Dropping it finishes the waiting transactions and releases the files.
pub struct Embedded {
    shared: Arc<Shared>,
    queue: Option<mpsc::Sender<Request>>,
    /// One permit for each byte that may wait.
    queue_bytes: Arc<Semaphore>,
    writer: Option<JoinHandle<()>>,
    limits: Limits,
}

impl Embedded {
    /// Opens the store in `directory`, creating both if they do not exist. Blocks for a few
    /// milliseconds, whatever the size of the store.
    ///
    /// # Errors
    /// [`Error::Locked`] when another process, or another value in this one, has it open.
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let directory = Directory::lock(directory.as_ref())?;
        directory.clean()?;
        let file = directory.open_data(&options)?;
        let state = writer::prepare(&file)?;
        let hub = Arc::new(Hub::new(options.watch, Revision(state.revision)));
        let shared = Arc::new(Shared::new(options, hub, file, state));
        let (queue, requests) = mpsc::channel(options.queue_transactions.max(1));
        let writer = Writer::new(shared.clone(), directory, requests);
        let writer = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || writer.run())
            .map_err(|cause| Error::Failed(format!("cannot start the store's writer thread: {cause}")))?;
        let txn_bytes = options.queue_bytes.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        Ok(Self {
            shared,
            queue: Some(queue),
            queue_bytes: Arc::new(Semaphore::new(txn_bytes)),
            writer: Some(writer),
            limits: Limits { entry_bytes: options.max_entry_bytes, txn_bytes },
        })
    }

    /// Bytes the data file takes on the device.
    ///
    /// # Errors
    /// [`Error::Failed`] when the file cannot be examined.
    pub fn disk_bytes(&self) -> Result<u64, Error> {
        let file = self.shared.file()?;
        file.disk_bytes().map_err(|cause| Error::Failed(format!("cannot examine the data file: {cause}")))
    }

    /// Bytes of live keys and values, and of kept history.
    ///
    /// # Errors
    /// [`Error::Failed`] when the file cannot be read.
    pub async fn content_bytes(&self) -> Result<ContentBytes, Error> {
        let state = self.shared.read(|snapshot| Ok(snapshot.state)).await?;
        Ok(ContentBytes { live: state.live_bytes, history: state.history_bytes })
    }

    async fn submit<T>(&self, request: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Request) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or(Error::Closed)?;
        queue.send(request(answer)).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }
}

/// What a store's file holds, see [`Embedded::content_bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentBytes {
    /// Bytes of live keys and values.
    pub live: u64,
    /// Bytes of kept history.
    pub history: u64,
}

impl Drop for Embedded {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the store's writer thread panicked");
        }
    }
}

#[async_trait]
impl Store for Embedded {
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Option<Entry>, Error> {
        self.shared.read(|snapshot| snapshot.get(key, at)).await
    }

    async fn range(&self, range: &KeyRange, options: RangeOptions) -> Result<RangeResult, Error> {
        self.shared.range(range, options).await
    }

    async fn commit(&self, txn: Txn) -> Result<Commit, Error> {
        let bytes = validate(&txn, self.limits)?;
        // `validate` keeps a transaction below the semaphore's size, which fits in a u32.
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let room = self.queue_bytes.clone().acquire_many_owned(permits).await.map_err(|_| Error::Closed)?;
        self.submit(|answer| Request::Commit { txn, answer, _room: room }).await
    }

    async fn watch(&self, range: &KeyRange, after: Revision) -> Result<WatchStream, Error> {
        self.shared.read(|snapshot| snapshot.check(Some(after))).await?;
        Ok(Box::pin(Watch::new(self.shared.hub.clone(), self.shared.clone(), range.clone(), after)))
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.submit(|answer| Request::Compact { revision, answer }).await
    }

    fn revision(&self) -> Revision {
        self.shared.hub.revision()
    }

    fn compacted(&self) -> Revision {
        self.shared.compacted()
    }
}
