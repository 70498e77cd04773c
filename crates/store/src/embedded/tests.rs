//! Tests of what this module promises.
#![allow(clippy::unwrap_used)]

use super::file::Directory;
use super::read::Snapshot;
use super::schema::Record;
use super::{Embedded, Options};
use crate::{Commit, Entry, Error, KeyRange, Op, RangeOptions, Revision, Store, Txn};
use bytes::Bytes;
use futures_util::StreamExt;
use std::path::Path;
use std::time::Duration;

fn entry() -> Entry {
    Entry { key: "key".into(), value: "value".into(), created: Revision(1), modified: Revision(u64::MAX) }
}

#[test]
fn records_survive_encoding() {
    for (put, previous) in [(true, None), (true, Some(entry())), (false, Some(entry()))] {
        let record = Record { key: "key".into(), put, previous: previous.clone() };
        let decoded = Record::decode(&record.encode()).unwrap();
        assert_eq!((decoded.key, decoded.put, decoded.previous), ("key".into(), put, previous));
    }
}

#[test]
fn damaged_records_are_errors() {
    let whole = Record { key: "key".into(), put: true, previous: Some(entry()) }.encode();
    let value = whole.len() - entry().value.len();
    for length in 0..value {
        assert!(Record::decode(&whole[..length]).is_err(), "{length} bytes are no record");
    }
}

async fn put(store: &Embedded, value: &'static str) -> Result<Commit, Error> {
    let op = Op::Put { key: "key".into(), value: value.into() };
    store.commit(Txn { conditions: vec![], ops: vec![op] }).await
}

/// A handle that was retired stands for one that redb gave up after an I/O error.
#[tokio::test]
async fn a_failed_file_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    put(&store, "1").await.unwrap();
    store.shared.file().unwrap().retire();
    assert!(matches!(put(&store, "2").await, Err(Error::Failed(_))), "the outcome is told as it is");
    assert_eq!(store.get(b"key", None).await.unwrap().unwrap().value, "1");
    assert_eq!(put(&store, "3").await, Ok(Commit::Done { revision: Revision(2) }));
    assert_eq!(store.get(b"key", Some(Revision(1))).await.unwrap().unwrap().value, "1");
}

#[tokio::test]
async fn an_unknown_format_is_refused() {
    let path = tempfile::tempdir().unwrap();
    drop(Embedded::open(path.path(), Options::default()).unwrap());
    let directory = Directory::lock(path.path()).unwrap();
    let file = directory.open_data(&Options::default()).unwrap();
    let txn = file.db.begin_write().unwrap();
    txn.open_table(super::schema::META).unwrap().insert("", [99, 0, 0, 0, 0]).unwrap();
    txn.commit().unwrap();
    drop((file, directory));
    let refused = Embedded::open(path.path(), Options::default()).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("unknown format 99"), "{refused}");
}

#[test]
fn a_file_of_something_else_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("store.redb"), vec![7; 100_000]).unwrap();
    assert!(matches!(Embedded::open(directory.path(), Options::default()), Err(Error::Failed(_))));
    assert!(matches!(Embedded::open(Path::new("/dev/null/store"), Options::default()), Err(Error::Failed(_))));
}

#[tokio::test]
async fn an_interrupted_shrink_leaves_no_trace() {
    let directory = tempfile::tempdir().unwrap();
    let left_over = directory.path().join("store.redb.new");
    std::fs::write(&left_over, "half a copy").unwrap();
    let store = Embedded::open(directory.path(), Options::default()).unwrap();
    assert!(!left_over.exists());
    put(&store, "1").await.unwrap();
    let all = KeyRange::prefix(Bytes::new());
    assert_eq!(store.range(&all, RangeOptions::default()).await.unwrap().entries.len(), 1);
}

/// What history, cache and ring remember of keys that are deleted goes while nobody writes; nothing
/// that is stored does, and a watch from the past still sees everything.
#[tokio::test]
async fn a_quiet_store_gives_memory_back() {
    const ENTRIES: usize = 200;
    let directory = tempfile::tempdir().unwrap();
    let options = Options { quiet: Duration::from_millis(20), quiet_cache_bytes: 256 << 10, ..Options::default() };
    let store = Embedded::open(directory.path(), options).unwrap();
    let key = |number: usize| Bytes::from(format!("k/{number:04}"));
    for number in 0..ENTRIES {
        let op = Op::Put { key: key(number), value: vec![b'v'; 8 << 10].into() };
        store.commit(Txn { conditions: vec![], ops: vec![op] }).await.unwrap();
    }
    let delete = Op::DeleteRange { range: KeyRange::prefix("k/") };
    put(&store, "kept").await.unwrap();
    // A reader that does not end keeps the file, and with it the cache, as it is.
    let snapshot = Snapshot::open(&store.shared.file().unwrap()).ok().unwrap();
    store.commit(Txn { conditions: vec![], ops: vec![delete] }).await.unwrap();
    let moved = || store.shared.file().unwrap().moved_bytes();
    eventually("the recent transactions are forgotten", || store.shared.hub.recent() == (0, 0)).await;
    let cached = moved();
    assert!(cached > options.quiet_cache_bytes as u64);
    assert_eq!(snapshot.get(&key(7), None).ok().unwrap().unwrap().value.len(), 8 << 10);
    assert!(moved() >= cached, "the file that is being read was not opened again");
    drop(snapshot);
    eventually("the cache is emptied", || moved() < cached).await;
    assert_eq!(store.get(b"key", None).await.unwrap().unwrap().value, "kept");
    let replayed = store.watch(&KeyRange::prefix("k/"), Revision(0)).await.unwrap();
    let changes = replayed.take(ENTRIES + 1).map(|item| match item.unwrap() {
        crate::WatchItem::Changes { changes, .. } => changes.len(),
        crate::WatchItem::Progress(_) => 0,
    });
    assert_eq!(changes.collect::<Vec<_>>().await.iter().sum::<usize>(), 2 * ENTRIES);
    put(&store, "after").await.unwrap();
    assert_eq!(store.get(b"key", None).await.unwrap().unwrap().value, "after");
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(tokio::time::Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
