//! What is stored: the tables and how their records are encoded.
//!
//! The live value of each key is kept in key order, so a list is one sequential scan. The log
//! keeps, per change, the entry that the change replaced: enough to undo it for reads in the
//! past, and, with the next change of the same key or the live value, to replay it to a watch.
//! Forgetting history is removing the oldest log records; live data is never touched by it.

use crate::{Entry, Revision};
use bytes::Bytes;
use redb::{ReadableTable, TableDefinition};

/// Key to its live entry: created, modified (8 bytes each, big-endian), value.
pub(super) const LIVE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("live");
/// (revision, position in the transaction) to a [`Record`].
pub(super) const LOG: TableDefinition<'static, (u64, u32), &[u8]> = TableDefinition::new("log");
/// (key, revision) of each change in the log to its position.
pub(super) const HISTORY: TableDefinition<'static, (&[u8], u64), u32> = TableDefinition::new("history");
/// [`State`] under the empty name.
pub(super) const META: TableDefinition<'static, &str, [u64; State::FIELDS]> = TableDefinition::new("meta");

const FORMAT: u64 = 1;

/// What is known of the store as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) revision: u64,
    pub(super) compacted: u64,
    /// Bytes of log records and their index.
    pub(super) history_bytes: u64,
    /// Bytes of live keys and values.
    pub(super) live_bytes: u64,
}

impl State {
    pub(super) const FIELDS: usize = 5;

    pub(super) fn load(meta: &impl ReadableTable<&'static str, [u64; Self::FIELDS]>) -> Result<Self, redb::Error> {
        let Some(fields) = meta.get("")? else { return Ok(Self::default()) };
        let [format, revision, compacted, history_bytes, live_bytes] = fields.value();
        if format != FORMAT {
            return Err(corrupt(&format!("unknown format {format}; this program reads format {FORMAT}")));
        }
        Ok(Self { revision, compacted, history_bytes, live_bytes })
    }

    pub(super) fn encode(self) -> [u64; Self::FIELDS] {
        [FORMAT, self.revision, self.compacted, self.history_bytes, self.live_bytes]
    }
}

const REVISIONS: usize = 16;

pub(super) fn encode_live(created: Revision, modified: Revision, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REVISIONS + value.len());
    bytes.extend(created.0.to_be_bytes());
    bytes.extend(modified.0.to_be_bytes());
    bytes.extend(value);
    bytes
}

pub(super) fn decode_live(key: Bytes, bytes: &[u8]) -> Result<Entry, redb::Error> {
    let (created, rest) = take_u64(bytes)?;
    let (modified, value) = take_u64(rest)?;
    Ok(Entry { key, value: Bytes::copy_from_slice(value), created: Revision(created), modified: Revision(modified) })
}

/// One change in the log.
pub(super) struct Record {
    pub(super) key: Bytes,
    /// Whether the change was a put.
    pub(super) put: bool,
    /// The entry before the change.
    pub(super) previous: Option<Entry>,
}

const PUT: u8 = 1;
const PREVIOUS: u8 = 2;

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        let value = self.previous.as_ref().map_or(0, |entry| entry.value.len());
        let mut bytes = Vec::with_capacity(5 + self.key.len() + REVISIONS + value);
        bytes.push(if self.put { PUT } else { 0 } | if self.previous.is_some() { PREVIOUS } else { 0 });
        // Keys are limited to far less than 4 GiB.
        bytes.extend((self.key.len() as u32).to_be_bytes());
        bytes.extend(&self.key);
        if let Some(entry) = &self.previous {
            bytes.extend(entry.created.0.to_be_bytes());
            bytes.extend(entry.modified.0.to_be_bytes());
            bytes.extend(&entry.value);
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, redb::Error> {
        let (flags, key, rest) = Self::split(bytes)?;
        let key = Bytes::copy_from_slice(key);
        let previous = if flags & PREVIOUS == 0 { None } else { Some(decode_live(key.clone(), rest)?) };
        Ok(Self { key, put: flags & PUT != 0, previous })
    }

    /// The key alone.
    pub(super) fn decode_key(bytes: &[u8]) -> Result<&[u8], redb::Error> {
        Ok(Self::split(bytes)?.1)
    }

    fn split(bytes: &[u8]) -> Result<(u8, &[u8], &[u8]), redb::Error> {
        let short = || corrupt("a log record is too short");
        let (flags, rest) = bytes.split_first().ok_or_else(short)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let (key, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or_else(short)?;
        Ok((*flags, key, rest))
    }
}

/// Bytes that one log record and its index entry count for.
pub(super) fn history_cost(record: &[u8], key: &[u8]) -> u64 {
    const KEYS_AND_POSITION: usize = 8 + 4 + 8 + 4;
    (record.len() + key.len() + KEYS_AND_POSITION) as u64
}

/// Bytes that one live record counts for.
pub(super) fn live_cost(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + REVISIONS + value.len()) as u64
}

fn take_u64(bytes: &[u8]) -> Result<(u64, &[u8]), redb::Error> {
    let (number, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| corrupt("an entry is too short"))?;
    Ok((u64::from_be_bytes(*number), rest))
}

pub(super) fn corrupt(what: &str) -> redb::Error {
    redb::Error::Corrupted(what.to_owned())
}
