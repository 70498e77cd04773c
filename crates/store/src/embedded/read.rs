//! Reads from one snapshot, now or in the past.

use super::file::{OpenFile, Reader};
use super::schema::{HISTORY, LIVE, LOG, META, Record, State, corrupt, decode_live};
use crate::watch::{Chunk, Event};
use crate::{Change, Entry, Error, KeyRange, Revision};
use bytes::Bytes;
use redb::{Range, ReadOnlyTable, ReadTransaction, ReadableDatabase};
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

/// Why a read failed: the store's own answer, or the file.
pub(super) enum Failure {
    Answer(Error),
    File(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(cause: E) -> Self {
        Self::File(cause.into())
    }
}

/// One committed state of the store. Its pages are not reused while it lives, so keep it short.
pub(super) struct Snapshot {
    txn: ReadTransaction,
    pub(super) state: State,
    reader: Reader,
}

impl Snapshot {
    pub(super) fn open(file: &OpenFile) -> Result<Self, Failure> {
        let txn = file.db.begin_read()?;
        let state = State::load(&txn.open_table(META)?)?;
        Ok(Self { txn, state, reader: file.reader() })
    }

    /// The revision to read at, `None` for the newest.
    pub(super) fn check(&self, at: Option<Revision>) -> Result<Option<u64>, Failure> {
        let Some(requested) = at else { return Ok(None) };
        let (newest, oldest) = (Revision(self.state.revision), Revision(self.state.compacted));
        if requested > newest {
            return Err(Failure::Answer(Error::Future { requested, newest }));
        }
        if requested < oldest {
            return Err(Failure::Answer(Error::Compacted { requested, oldest }));
        }
        Ok((requested < newest).then_some(requested.0))
    }

    pub(super) fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Option<Entry>, Failure> {
        if let Some(at) = self.check(at)? {
            let later = self.txn.open_table(HISTORY)?.range((key, at + 1)..=(key, u64::MAX))?.next();
            if let Some(later) = later {
                let (index, position) = later?;
                let log = self.txn.open_table(LOG)?;
                return Ok(record(&log, index.value().1, position.value())?.previous);
            }
        }
        let live = self.txn.open_table(LIVE)?;
        let entry = live.get(key)?.map(|bytes| decode_live(Bytes::copy_from_slice(key), bytes.value())).transpose()?;
        Ok(entry)
    }

    pub(super) fn range(&self, range: &KeyRange, at: Option<Revision>) -> Result<Scan, Failure> {
        let past = match self.check(at)? {
            None => None,
            Some(at) => {
                let start = Bound::Included((&range.start[..], 0));
                let end = range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded((&end[..], 0)));
                let changes = self.txn.open_table(HISTORY)?.range::<(&[u8], u64)>((start, end))?.peekable();
                Some(Past { at, changes, log: self.txn.open_table(LOG)? })
            }
        };
        let end = range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(&end[..]));
        let live = self.txn.open_table(LIVE)?.range::<&[u8]>((Bound::Included(&range.start[..]), end))?.peekable();
        Ok(Scan { live, past, _reader: self.reader.clone() })
    }

    /// Whole transactions after a revision, until `step` changes are read.
    pub(super) fn changes_after(&self, after: Revision, step: usize) -> Result<Chunk, Failure> {
        const STEP_BYTES: usize = 1 << 20;
        self.check(Some(after))?;
        let log = self.txn.open_table(LOG)?;
        let history = self.txn.open_table(HISTORY)?;
        let live = self.txn.open_table(LIVE)?;
        let mut events = Vec::new();
        let mut current: (u64, Vec<Change>) = (0, Vec::new());
        let (mut count, mut bytes) = (0, 0);
        for item in log.range((after.0 + 1, 0)..)? {
            let (at, record_bytes) = item?;
            let revision = at.value().0;
            if revision != current.0 {
                if count >= step || bytes >= STEP_BYTES {
                    let through = Revision(current.0);
                    push(&mut events, current);
                    return Ok(Chunk { events, through });
                }
                push(&mut events, std::mem::replace(&mut current, (revision, Vec::new())));
            }
            count += 1;
            bytes += record_bytes.value().len();
            current.1.push(replay(revision, Record::decode(record_bytes.value())?, &history, &log, &live)?);
        }
        push(&mut events, current);
        Ok(Chunk { events, through: Revision(self.state.revision) })
    }
}

fn push(events: &mut Vec<Arc<Event>>, (revision, changes): (u64, Vec<Change>)) {
    if !changes.is_empty() {
        events.push(Arc::new(Event::new(Revision(revision), changes)));
    }
}

type Live = ReadOnlyTable<&'static [u8], &'static [u8]>;
type Log = ReadOnlyTable<(u64, u32), &'static [u8]>;
type History = ReadOnlyTable<(&'static [u8], u64), u32>;

/// Completes a log record to the change it stands for.
fn replay(revision: u64, change: Record, history: &History, log: &Log, live: &Live) -> Result<Change, redb::Error> {
    let Record { key, put, previous } = change;
    if !put {
        let previous = previous.ok_or_else(|| corrupt("a deletion in the log lacks what it deleted"))?;
        return Ok(Change::Delete { previous });
    }
    let next = history.range((&key[..], revision + 1)..=(&key[..], u64::MAX))?.next();
    let entry = match next {
        Some(next) => {
            let (index, position) = next?;
            record(log, index.value().1, position.value())?.previous
        }
        None => live.get(&key[..])?.map(|bytes| decode_live(key.clone(), bytes.value())).transpose()?,
    };
    let entry = entry.ok_or_else(|| corrupt("a value in the log is missing"))?;
    Ok(Change::Put { entry, previous })
}

fn record(log: &Log, revision: u64, position: u32) -> Result<Record, redb::Error> {
    let bytes = log.get((revision, position))?.ok_or_else(|| corrupt("a log record is missing"))?;
    Record::decode(bytes.value())
}

/// A range being read in key order. It owns its snapshot and can move between threads.
pub(super) struct Scan {
    live: Peekable<Range<'static, &'static [u8], &'static [u8]>>,
    past: Option<Past>,
    _reader: Reader,
}

struct Past {
    at: u64,
    /// The changes of each key, oldest first.
    changes: Peekable<Range<'static, (&'static [u8], u64), u32>>,
    log: Log,
}

impl Scan {
    /// Reads until `entries` holds `count`; `false` when the range ended before.
    pub(super) fn read_to(&mut self, entries: &mut Vec<Entry>, count: usize) -> Result<bool, Failure> {
        while entries.len() < count {
            match self.next_entry()? {
                Some(entry) => entries.push(entry),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn next_entry(&mut self) -> Result<Option<Entry>, Failure> {
        loop {
            let live_key = match self.live.peek() {
                Some(Ok((key, _))) => Some(Bytes::copy_from_slice(key.value())),
                Some(Err(_)) => return self.next_live(),
                None => None,
            };
            let Some(past) = &mut self.past else { return self.next_live() };
            let changed_key = match past.changes.peek() {
                Some(Ok((key, _))) if live_key.as_ref().is_none_or(|live| key.value().0 <= &live[..]) => {
                    Bytes::copy_from_slice(key.value().0)
                }
                Some(Ok(_)) | None => return self.next_live(),
                Some(Err(_)) => {
                    past.changes.next().transpose()?;
                    continue;
                }
            };
            if let Some(undone) = past.undo(&changed_key)? {
                if live_key.as_ref() == Some(&changed_key) {
                    self.live.next().transpose()?;
                }
                if undone.is_some() {
                    return Ok(undone);
                }
            } else if live_key.as_ref() == Some(&changed_key) {
                return self.next_live();
            }
        }
    }

    fn next_live(&mut self) -> Result<Option<Entry>, Failure> {
        let Some(item) = self.live.next() else { return Ok(None) };
        let (key, bytes) = item?;
        Ok(Some(decode_live(Bytes::copy_from_slice(key.value()), bytes.value())?))
    }
}

impl Past {
    /// Takes all changes of `key`. If one is later than the snapshot, answers with the entry
    /// before the first such change.
    fn undo(&mut self, key: &[u8]) -> Result<Option<Option<Entry>>, Failure> {
        let mut undone = None;
        while let Some(item) = self.changes.next_if(|item| item.as_ref().map_or(true, |(at, _)| at.value().0 == key)) {
            let (at, position) = item?;
            let revision = at.value().1;
            if undone.is_none() && revision > self.at {
                undone = Some(record(&self.log, revision, position.value())?.previous);
            }
        }
        Ok(undone)
    }
}
