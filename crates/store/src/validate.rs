//! The rules every transaction must meet before any driver looks at it.

use crate::{Error, KeyRange, Op, Txn};
use bytes::Bytes;
use std::collections::BTreeSet;

/// What a driver accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of one key and its value.
    pub(crate) entry_bytes: usize,
    /// Bytes of all keys and values of one transaction.
    pub(crate) txn_bytes: usize,
}

/// Checks a transaction and returns its size in bytes.
pub(crate) fn validate(txn: &Txn, limits: Limits) -> Result<usize, Error> {
    let mut total = 0;
    let mut keys: BTreeSet<&Bytes> = BTreeSet::new();
    let mut ranges: Vec<&KeyRange> = Vec::new();
    for (key, _) in &txn.conditions {
        total += check_key(key, limits)?;
    }
    for op in &txn.ops {
        let key = match op {
            Op::Put { key, value } => {
                let bytes = key.len() + value.len();
                if bytes > limits.entry_bytes {
                    return Err(Error::Invalid(format!(
                        "key {} with its value has {bytes} bytes; at most {} are stored",
                        key.escape_ascii(),
                        limits.entry_bytes
                    )));
                }
                total += value.len();
                key
            }
            Op::Delete { key } => key,
            Op::DeleteRange { range } => {
                total += range.start.len() + range.end.as_ref().map_or(0, Bytes::len);
                if !range.is_empty() {
                    ranges.push(range);
                }
                continue;
            }
        };
        total += check_key(key, limits)?;
        if !keys.insert(key) {
            return Err(changed_twice(key));
        }
    }
    check_ranges(&keys, ranges)?;
    if total > limits.txn_bytes {
        return Err(Error::Invalid(format!(
            "the transaction has {total} bytes; at most {} fit, split it",
            limits.txn_bytes
        )));
    }
    Ok(total)
}

fn check_key(key: &Bytes, limits: Limits) -> Result<usize, Error> {
    if key.is_empty() {
        return Err(Error::Invalid("a key is empty".into()));
    }
    if key.len() > limits.entry_bytes {
        return Err(Error::Invalid(format!("a key has {} bytes; at most {} fit", key.len(), limits.entry_bytes)));
    }
    Ok(key.len())
}

/// Deleted ranges must not touch a changed key or each other.
fn check_ranges(keys: &BTreeSet<&Bytes>, mut ranges: Vec<&KeyRange>) -> Result<(), Error> {
    ranges.sort_by(|a, b| a.start.cmp(&b.start));
    for pair in ranges.windows(2) {
        if pair[0].end.as_ref().is_none_or(|end| *end > pair[1].start) {
            return Err(changed_twice(&pair[1].start));
        }
    }
    for range in ranges {
        if let Some(key) = keys.range::<Bytes, _>(&range.start..).next()
            && range.contains(key)
        {
            return Err(changed_twice(key));
        }
    }
    Ok(())
}

fn changed_twice(key: &Bytes) -> Error {
    Error::Invalid(format!("key {} is changed by two operations", key.escape_ascii()))
}
