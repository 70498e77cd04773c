//! Promises about transactions.

use super::{OVERSIZE_BYTES, all_keys, bytes, delete, delete_prefix, done, done_if, get, list, put, value};
use crate::{Commit, Condition, Error, KeyRange, Op, RangeOptions, Revision, Store, Txn};
use bytes::Bytes;
use std::sync::Arc;

pub(super) async fn revisions_count_changes(store: &dyn Store) {
    assert_eq!(store.revision(), Revision(0), "an empty store is at revision 0");
    assert_eq!(store.compacted(), Revision(0), "an empty store has nothing compacted");
    let first = done(store, vec![put("a", "1"), put("b", "1")]).await;
    assert_eq!(first, Revision(1), "the first transaction takes revision 1");
    assert_eq!(store.revision(), first, "the newest acknowledged revision is the transaction's");
    assert_eq!(done(store, vec![delete("none"), delete_prefix("no/")]).await, first, "changing nothing takes none");
    assert_eq!(done(store, vec![]).await, first, "an empty transaction takes none");
    assert_eq!(done(store, vec![put("a", "1")]).await, Revision(2), "writing the same value is a change");
    assert_eq!(get(store, "b", None).await.map(|entry| entry.modified), Some(first));
}

pub(super) async fn conditions_guard_all_operations(store: &dyn Store) {
    let first = done_if(store, vec![(bytes("a"), Condition::Absent)], vec![put("a", "1")]).await;
    done_if(store, vec![(bytes("a"), Condition::Present)], vec![put("b", "1")]).await;
    done_if(store, vec![(bytes("a"), Condition::ModifiedAt(first))], vec![put("a", "2")]).await;
    let before = store.revision();
    let failing = [
        (bytes("a"), Condition::Absent),
        (bytes("a"), Condition::ModifiedAt(first)),
        (bytes("a"), Condition::ModifiedAt(Revision(first.0 + 1000))),
        (bytes("c"), Condition::Present),
        (bytes("c"), Condition::ModifiedAt(first)),
        (bytes("c"), Condition::ModifiedAt(Revision(0))),
    ];
    for (failing_key, condition) in failing {
        let txn = Txn {
            conditions: vec![(bytes("b"), Condition::Present), (failing_key.clone(), condition)],
            ops: vec![put("x", "1"), delete("a"), delete_prefix("b")],
        };
        match store.commit(txn).await {
            Ok(Commit::Conflict { key, current }) => {
                assert_eq!(key, failing_key, "a conflict names the key");
                let live = store.get(&failing_key, None).await;
                assert_eq!(Ok(current), live, "a conflict carries the live entry of {condition:?}");
            }
            other => panic!("{condition:?} on {failing_key:?} must be a conflict, not {other:?}"),
        }
    }
    assert_eq!(store.revision(), before, "a conflict takes no revision");
    assert_eq!(value(store, "a", None).await.as_deref(), Some("2"), "a conflict changes nothing");
    assert_eq!(value(store, "x", None).await, None, "a conflict changes nothing");
}

pub(super) async fn created_survives_updates_only(store: &dyn Store) {
    let first = done(store, vec![put("a", "1")]).await;
    let second = done(store, vec![put("a", "2")]).await;
    let entry = get(store, "a", None).await;
    assert_eq!(entry.map(|entry| (entry.created, entry.modified)), Some((first, second)));
    done(store, vec![delete("a")]).await;
    assert_eq!(get(store, "a", None).await, None, "a deleted key is gone");
    let again = done(store, vec![put("a", "3")]).await;
    let entry = get(store, "a", None).await;
    assert_eq!(entry.map(|entry| (entry.created, entry.modified)), Some((again, again)), "a new life begins");
}

pub(super) async fn ranges_are_deleted(store: &dyn Store) {
    let keys = ["a", "a/1", "a/2", "a/\u{ff}", "a0", "b"];
    done(store, keys.iter().map(|key| put(key, "v")).collect()).await;
    let before = store.revision();
    let revision = done(store, vec![delete_prefix("a/"), put("c", "v")]).await;
    assert_eq!(revision.0, before.0 + 1, "a range is deleted at one revision, with the other operations");
    let (entries, _) = list(store, &all_keys(), RangeOptions::default()).await;
    let left: Vec<_> = entries.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(left, ["a", "a0", "b", "c"]);
    let inverted = KeyRange { start: bytes("z"), end: Some(bytes("a")) };
    assert_eq!(done(store, vec![Op::DeleteRange { range: inverted }]).await, revision, "it holds no key");
    done(store, vec![Op::DeleteRange { range: all_keys() }]).await;
    assert_eq!(list(store, &all_keys(), RangeOptions::default()).await.0, []);
}

pub(super) async fn malformed_transactions_are_refused(store: &dyn Store) {
    done(store, vec![put("a", "1")]).await;
    let oversize = Op::Put { key: bytes("big"), value: Bytes::from(vec![0; OVERSIZE_BYTES]) };
    let malformed = [
        vec![put("", "v")],
        vec![delete("")],
        vec![put("x", "1"), put("x", "2")],
        vec![put("x", "1"), delete("x")],
        vec![put("x/1", "1"), delete_prefix("x/")],
        vec![delete_prefix("x/"), delete_prefix("x/y")],
        vec![put("x", "1"), oversize],
    ];
    for ops in malformed {
        let what = format!("{:?}", ops.iter().map(kind).collect::<Vec<_>>());
        match store.commit(Txn { conditions: vec![], ops }).await {
            Err(Error::Invalid(_)) => {}
            other => panic!("{what} must be invalid, not {other:?}"),
        }
    }
    let condition = Txn { conditions: vec![(Bytes::new(), Condition::Absent)], ops: vec![put("x", "1")] };
    assert!(matches!(store.commit(condition).await, Err(Error::Invalid(_))), "a condition needs a key");
    assert_eq!(store.revision(), Revision(1), "an invalid transaction changes nothing");
    done(store, vec![put("binary\0key", ""), put("binary\0", "\0")]).await;
    assert_eq!(value(store, "binary\0key", None).await.as_deref(), Some(""), "any bytes are a key or value");
}

fn kind(op: &Op) -> &'static str {
    match op {
        Op::Put { .. } => "put",
        Op::Delete { .. } => "delete",
        Op::DeleteRange { .. } => "delete range",
    }
}

/// Each writer adds to a counter by compare and swap, and writes a second key with it.
pub(super) async fn concurrent_swaps_lose_nothing(store: Arc<dyn Store>) {
    const WRITERS: usize = 8;
    const ADDITIONS: usize = 20;
    done(&*store, vec![put("counter", "0"), put("mirror", "0")]).await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..ADDITIONS {
                    add_one(&*store).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no writer fails");
    }
    let total = (WRITERS * ADDITIONS).to_string();
    assert_eq!(value(&*store, "counter", None).await.as_ref(), Some(&total));
    assert_eq!(value(&*store, "mirror", None).await.as_ref(), Some(&total), "both keys change together");
    assert_eq!(store.revision(), Revision(1 + (WRITERS * ADDITIONS) as u64), "each success takes one revision");
}

async fn add_one(store: &dyn Store) {
    loop {
        let entry = get(store, "counter", None).await.expect("the counter exists");
        let count: usize = String::from_utf8_lossy(&entry.value).parse().expect("the counter is a number");
        let next = (count + 1).to_string();
        let txn = Txn {
            conditions: vec![(entry.key, Condition::ModifiedAt(entry.modified))],
            ops: vec![put("counter", &next), put("mirror", &next)],
        };
        match store.commit(txn).await {
            Ok(Commit::Done { .. }) => return,
            Ok(Commit::Conflict { current, .. }) => {
                let current = current.expect("the counter exists");
                assert!(current.modified > entry.modified, "the conflict shows what was newer");
            }
            Err(why) => panic!("a swap failed: {why}"),
        }
    }
}
