//! Applies transactions to the tables of one redb transaction.

use super::schema::{HISTORY, LIVE, LOG, META, Record, State, decode_live, encode_live, history_cost, live_cost};
use crate::watch::Event;
use crate::{Change, Commit, Condition, Entry, KeyRange, Op, Revision, Txn};
use bytes::Bytes;
use redb::{ReadableTable, Table, WriteTransaction};
use std::ops::Bound;

/// The tables, open for writing, and the state they will have.
pub(super) struct Tables<'txn> {
    live: Table<'txn, &'static [u8], &'static [u8]>,
    log: Table<'txn, (u64, u32), &'static [u8]>,
    history: Table<'txn, (&'static [u8], u64), u32>,
    meta: Table<'txn, &'static str, [u64; State::FIELDS]>,
    pub(super) state: State,
    log_changes: bool,
}

/// How much history is to stay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    pub(super) revisions: u64,
    pub(super) bytes: u64,
}

impl<'txn> Tables<'txn> {
    pub(super) fn open(txn: &'txn WriteTransaction) -> Result<Self, redb::Error> {
        let meta = txn.open_table(META)?;
        let state = State::load(&meta)?;
        Ok(Self {
            live: txn.open_table(LIVE)?,
            log: txn.open_table(LOG)?,
            history: txn.open_table(HISTORY)?,
            meta,
            state,
            log_changes: true,
        })
    }

    /// From now on changes leave no history, which needs less room: the newest revision is the
    /// oldest that can be read.
    pub(super) fn without_history(&mut self) {
        self.log_changes = false;
    }

    /// Writes the state back; the last step before the redb transaction commits.
    pub(super) fn save(mut self) -> Result<State, redb::Error> {
        self.meta.insert("", self.state.encode())?;
        Ok(self.state)
    }

    /// Applies one transaction, whose form is valid, and tells what watchers will see.
    pub(super) fn apply(&mut self, txn: &Txn) -> Result<(Commit, Option<Event>), redb::Error> {
        for (key, condition) in &txn.conditions {
            let current = self.get(key)?;
            let holds = match condition {
                Condition::Absent => current.is_none(),
                Condition::Present => current.is_some(),
                Condition::ModifiedAt(revision) => current.as_ref().is_some_and(|entry| entry.modified == *revision),
            };
            if !holds {
                return Ok((Commit::Conflict { key: key.clone(), current }, None));
            }
        }
        let revision = Revision(self.state.revision + 1);
        let mut changes = Vec::new();
        for op in &txn.ops {
            match op {
                Op::Put { key, value } => {
                    changes.push(self.put(revision, changes.len(), key.clone(), value.clone())?);
                }
                Op::Delete { key } => changes.extend(self.delete(revision, changes.len(), key.clone())?),
                Op::DeleteRange { range } => {
                    for key in self.keys(range)? {
                        changes.extend(self.delete(revision, changes.len(), key)?);
                    }
                }
            }
        }
        if changes.is_empty() {
            return Ok((Commit::Done { revision: Revision(self.state.revision) }, None));
        }
        self.state.revision = revision.0;
        if !self.log_changes {
            self.state.compacted = revision.0;
        }
        Ok((Commit::Done { revision }, Some(Event::new(revision, changes))))
    }

    fn get(&self, key: &Bytes) -> Result<Option<Entry>, redb::Error> {
        self.live.get(&key[..])?.map(|bytes| decode_live(key.clone(), bytes.value())).transpose()
    }

    fn put(&mut self, revision: Revision, position: usize, key: Bytes, value: Bytes) -> Result<Change, redb::Error> {
        let previous = self.get(&key)?;
        let created = previous.as_ref().map_or(revision, |entry| entry.created);
        self.live.insert(&key[..], &encode_live(created, revision, &value)[..])?;
        self.state.live_bytes += live_cost(&key, &value);
        self.forget_live(previous.as_ref());
        let record = Record { key: key.clone(), put: true, previous };
        self.append(revision, position, &record)?;
        Ok(Change::Put { entry: Entry { key, value, created, modified: revision }, previous: record.previous })
    }

    fn delete(&mut self, revision: Revision, position: usize, key: Bytes) -> Result<Option<Change>, redb::Error> {
        let Some(previous) = self.get(&key)? else { return Ok(None) };
        self.live.remove(&key[..])?;
        self.forget_live(Some(&previous));
        let record = Record { key, put: false, previous: Some(previous) };
        self.append(revision, position, &record)?;
        Ok(record.previous.map(|previous| Change::Delete { previous }))
    }

    fn forget_live(&mut self, entry: Option<&Entry>) {
        let bytes = entry.map_or(0, |entry| live_cost(&entry.key, &entry.value));
        self.state.live_bytes = self.state.live_bytes.saturating_sub(bytes);
    }

    fn append(&mut self, revision: Revision, position: usize, record: &Record) -> Result<(), redb::Error> {
        if !self.log_changes {
            return Ok(());
        }
        let position = u32::try_from(position)
            .map_err(|_| redb::Error::Io(std::io::Error::other("a transaction changes more than 2^32 keys")))?;
        let bytes = record.encode();
        self.state.history_bytes += history_cost(&bytes, &record.key);
        self.log.insert((revision.0, position), &bytes[..])?;
        self.history.insert((&record.key[..], revision.0), position)?;
        Ok(())
    }

    fn keys(&self, range: &KeyRange) -> Result<Vec<Bytes>, redb::Error> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let end = range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(&end[..]));
        let mut keys = Vec::new();
        for item in self.live.range::<&[u8]>((Bound::Included(&range.start[..]), end))? {
            keys.push(Bytes::copy_from_slice(item?.0.value()));
        }
        Ok(keys)
    }

    /// Removes at most `steps` changes that are compacted, or that exceed what is to be kept. The
    /// newest revision always stays readable. Answers how many were removed.
    pub(super) fn trim(&mut self, keep: Keep, steps: usize) -> Result<usize, redb::Error> {
        let oldest = self.state.revision.saturating_sub(keep.revisions);
        self.state.compacted = self.state.compacted.max(oldest);
        let mut removed = 0;
        while removed < steps {
            let Some(first) = self.log.first()? else { break };
            let at = first.0.value();
            if at.0 > self.state.compacted && self.state.history_bytes <= keep.bytes {
                break;
            }
            let key = Bytes::copy_from_slice(Record::decode_key(first.1.value())?);
            let cost = history_cost(first.1.value(), &key);
            drop(first);
            self.log.remove(at)?;
            self.history.remove((&key[..], at.0))?;
            self.state.history_bytes = self.state.history_bytes.saturating_sub(cost);
            self.state.compacted = self.state.compacted.max(at.0);
            removed += 1;
        }
        Ok(removed)
    }
}
