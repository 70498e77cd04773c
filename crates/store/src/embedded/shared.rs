//! What readers, watches and the writer share: the open file, and the way to read it.

use super::file::{OpenFile, store_error};
use super::read::{Failure, Scan, Snapshot};
use super::schema::State;
use super::{INLINE_ENTRIES, Options};
use crate::watch::{ChangeLog, Chunk, Hub};
use crate::{Entry, Error, KeyRange, RangeOptions, RangeResult, Revision};
use async_trait::async_trait;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) hub: Arc<Hub>,
    slot: RwLock<Slot>,
    compacted: AtomicU64,
    /// Counts the changes of `slot`.
    generation: watch::Sender<u64>,
}

enum Slot {
    Open(Arc<OpenFile>),
    /// An I/O error, and the file cannot be opened again.
    Broken(Error),
    Closed,
}

impl Shared {
    pub(super) fn new(options: Options, hub: Arc<Hub>, file: OpenFile, state: State) -> Self {
        Self {
            options,
            hub,
            slot: RwLock::new(Slot::Open(Arc::new(file))),
            compacted: AtomicU64::new(state.compacted),
            generation: watch::Sender::new(0),
        }
    }

    pub(super) fn compacted(&self) -> Revision {
        Revision(self.compacted.load(Ordering::Acquire))
    }

    pub(super) fn set_compacted(&self, state: State) {
        self.compacted.store(state.compacted, Ordering::Release);
    }

    /// The file as it is now open.
    pub(super) fn file(&self) -> Result<Arc<OpenFile>, Error> {
        match &*self.slot.read().unwrap_or_else(PoisonError::into_inner) {
            Slot::Open(file) => Ok(file.clone()),
            Slot::Broken(why) => Err(why.clone()),
            Slot::Closed => Err(Error::Closed),
        }
    }

    /// Puts a file, or the reason why there is none, in the place of the open one.
    pub(super) fn replace(&self, file: Result<OpenFile, Error>) {
        self.set(match file {
            Ok(file) => Slot::Open(Arc::new(file)),
            Err(why) => Slot::Broken(why),
        });
    }

    /// Opens the file again if nobody reads it now, which empties its cache. New readers wait
    /// meanwhile, for a few milliseconds. Returns whether that was done.
    ///
    /// # Errors
    /// When the file could not be opened; the next write tries again.
    pub(super) fn reopen_unused(&self, open: impl FnOnce() -> Result<OpenFile, Error>) -> Result<bool, Error> {
        let mut slot = self.slot.write().unwrap_or_else(PoisonError::into_inner);
        // Whoever begins to read takes a share of the file under this lock first, so that nobody can
        // begin now.
        if !matches!(&*slot, Slot::Open(file) if Arc::strong_count(file) == 1 && file.is_unread()) {
            return Ok(false);
        }
        // Closed in order before it is opened: two handles would not know of each other's pages.
        *slot = Slot::Closed;
        let opened = open();
        let answer = opened.as_ref().map(|_| true).map_err(Clone::clone);
        *slot = match opened {
            Ok(file) => Slot::Open(Arc::new(file)),
            Err(why) => Slot::Broken(why),
        };
        drop(slot);
        self.generation.send_modify(|generation| *generation += 1);
        answer
    }

    pub(super) fn close(&self) {
        self.hub.close();
        let file = self.file();
        self.set(Slot::Closed);
        // A read in progress may outlive the lock on the directory; its handle must not write
        // then. Without one, dropping the handle closes the file in order.
        if let Ok(Err(shared)) = file.map(Arc::try_unwrap) {
            shared.retire();
        }
    }

    fn set(&self, new: Slot) {
        let old = std::mem::replace(&mut *self.slot.write().unwrap_or_else(PoisonError::into_inner), new);
        self.generation.send_modify(|generation| *generation += 1);
        // Outside the lock: closing a database writes.
        drop(old);
    }

    /// Runs a read against the newest snapshot. If the file fails under it because the writer is
    /// opening it again, waits for that and repeats.
    pub(super) async fn read<T>(
        &self,
        read: impl Fn(&Snapshot) -> Result<T, Failure> + Send + Sync,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + self.options.reopen_wait;
        let mut generation = self.generation.subscribe();
        loop {
            generation.mark_unchanged();
            let file = self.file()?;
            let cause = match Snapshot::open(&file).and_then(|snapshot| read(&snapshot)) {
                Ok(answer) => return Ok(answer),
                Err(Failure::Answer(why)) => return Err(why),
                Err(Failure::File(cause)) => cause,
            };
            drop(file);
            let passing = matches!(cause, redb::Error::PreviousIo | redb::Error::DatabaseClosed);
            if !passing || timeout_at(deadline, generation.changed()).await.is_err() {
                return Err(store_error("cannot read the data file", cause));
            }
        }
    }

    pub(super) async fn range(&self, range: &KeyRange, options: RangeOptions) -> Result<RangeResult, Error> {
        let limit = options.limit.map_or(usize::MAX, usize::from);
        // One beyond the limit tells whether there are more.
        let wanted = limit.saturating_add(1);
        let mut attempt = 1;
        loop {
            let (revision, mut part) = self.read(|snapshot| begin(snapshot, range, options, wanted)).await?;
            if let Some(scan) = part.rest.take() {
                part.entries = match read_rest(scan, part.entries, wanted).await {
                    Ok(entries) => entries,
                    // The file was opened again in between.
                    Err(Failure::File(redb::Error::PreviousIo | redb::Error::DatabaseClosed))
                        if attempt < RANGE_ATTEMPTS =>
                    {
                        attempt += 1;
                        continue;
                    }
                    Err(Failure::File(cause)) => return Err(store_error("cannot read the data file", cause)),
                    Err(Failure::Answer(why)) => return Err(why),
                };
            }
            let more = part.entries.len() > limit;
            part.entries.truncate(limit);
            return Ok(RangeResult { entries: part.entries, revision, more });
        }
    }
}

/// How often a long range is begun anew when the file is opened again under it.
const RANGE_ATTEMPTS: usize = 5;

struct Part {
    entries: Vec<Entry>,
    /// Where the range goes on, if it may.
    rest: Option<Scan>,
}

fn begin(
    snapshot: &Snapshot,
    range: &KeyRange,
    options: RangeOptions,
    wanted: usize,
) -> Result<(Revision, Part), Failure> {
    snapshot.check(options.at)?;
    let revision = options.at.unwrap_or(Revision(snapshot.state.revision));
    let mut part = Part { entries: Vec::new(), rest: None };
    if !range.is_empty() {
        let mut scan = snapshot.range(range, options.at)?;
        let full = scan.read_to(&mut part.entries, wanted.min(INLINE_ENTRIES))?;
        if full && part.entries.len() < wanted {
            part.rest = Some(scan);
        }
    }
    Ok((revision, part))
}

async fn read_rest(mut scan: Scan, mut entries: Vec<Entry>, wanted: usize) -> Result<Vec<Entry>, Failure> {
    let reading = tokio::task::spawn_blocking(move || {
        scan.read_to(&mut entries, wanted)?;
        Ok(entries)
    });
    match reading.await {
        Ok(result) => result,
        Err(cause) => Err(Failure::Answer(Error::Failed(format!("reading a range was interrupted: {cause}")))),
    }
}

#[async_trait]
impl ChangeLog for Shared {
    async fn read_after(&self, after: Revision) -> Result<Chunk, Error> {
        self.read(|snapshot| snapshot.changes_after(after, self.options.replay_step)).await
    }
}
