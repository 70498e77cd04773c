//! Promises about watching.

use super::{LAG_TRANSACTIONS, all_keys, bytes, delete, delete_prefix, done, get, next, next_changes, put, watch};
use crate::{Change, Error, KeyRange, Op, RangeOptions, Revision, Store, WatchItem, WatchStream};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

fn describe(change: &Change) -> String {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    match change {
        Change::Put { entry, previous } => format!(
            "{}: {} -> {}",
            text(&entry.key),
            previous.as_ref().map_or("none".into(), |entry| text(&entry.value)),
            text(&entry.value)
        ),
        Change::Delete { previous } => format!("{}: {} -> none", text(&previous.key), text(&previous.value)),
    }
}

async fn expect(watch: &mut WatchStream, revision: Revision, changes: &[&str]) {
    let (at, seen) = next_changes(watch).await;
    assert_eq!(
        (at, seen.iter().map(describe).collect::<Vec<_>>()),
        (revision, changes.iter().map(|c| (*c).into()).collect())
    );
}

pub(super) async fn live_changes_arrive_in_order(store: &dyn Store) {
    let mut stream = watch(store, &all_keys(), Revision(0)).await;
    let first = done(store, vec![put("b", "1"), put("a", "1")]).await;
    expect(&mut stream, first, &["b: none -> 1", "a: none -> 1"]).await;
    let second = done(store, vec![put("a", "2")]).await;
    let third = done(store, vec![delete("b"), delete("none")]).await;
    expect(&mut stream, second, &["a: 1 -> 2"]).await;
    expect(&mut stream, third, &["b: 1 -> none"]).await;
    done(store, vec![delete("none")]).await;
    let fourth = done(store, vec![put("b", "2"), delete_prefix("a")]).await;
    let (_, changes) = next_changes(&mut stream).await;
    let entry = get(store, "b", None).await.expect("b was put");
    assert_eq!(changes[0], Change::Put { entry, previous: None }, "a put carries the entry as it is read");
    assert_eq!(changes[1].previous().map(|entry| (entry.created, entry.modified)), Some((first, second)));
    assert_eq!(fourth.0, third.0 + 1);
}

pub(super) async fn only_the_range_is_seen(store: &dyn Store) {
    done(store, vec![put("a/0", "0")]).await;
    let start = store.revision();
    let mut prefix = watch(store, &KeyRange::prefix("a/"), start).await;
    let mut key = watch(store, &KeyRange::key("a/2"), start).await;
    let mut between = watch(store, &KeyRange { start: bytes("a/2"), end: Some(bytes("b/1")) }, start).await;
    let mut inverted = watch(store, &KeyRange { start: bytes("b"), end: Some(bytes("a")) }, start).await;
    let first = done(store, vec![put("a/1", "1"), put("a/2", "1"), put("b/0", "1"), put("b/1", "1")]).await;
    done(store, vec![put("c", "1")]).await;
    let third = done(store, vec![put("a/2", "2"), put("a/20", "2")]).await;
    expect(&mut prefix, first, &["a/1: none -> 1", "a/2: none -> 1"]).await;
    expect(&mut prefix, third, &["a/2: 1 -> 2", "a/20: none -> 2"]).await;
    expect(&mut key, first, &["a/2: none -> 1"]).await;
    expect(&mut key, third, &["a/2: 1 -> 2"]).await;
    expect(&mut between, first, &["a/2: none -> 1", "b/0: none -> 1"]).await;
    expect(&mut between, third, &["a/2: 1 -> 2", "a/20: none -> 2"]).await;
    assert!(matches!(next(&mut inverted).await, Ok(WatchItem::Progress(_))), "an empty range sees no change");
}

pub(super) async fn the_past_is_replayed(store: &dyn Store) {
    done(store, vec![put("a", "1"), put("b", "1")]).await;
    done(store, vec![put("a", "2")]).await;
    done(store, vec![delete("a")]).await;
    done(store, vec![put("other", "1")]).await;
    done(store, vec![put("a", "3"), delete("b")]).await;
    let expected: [(u64, &[&str]); 4] = [
        (1, &["a: none -> 1", "b: none -> 1"]),
        (2, &["a: 1 -> 2"]),
        (3, &["a: 2 -> none"]),
        (5, &["a: none -> 3", "b: 1 -> none"]),
    ];
    let range = KeyRange { start: bytes("a"), end: Some(bytes("c")) };
    for after in 0..=5 {
        let mut stream = watch(store, &range, Revision(after)).await;
        for (revision, changes) in expected.iter().filter(|(revision, _)| *revision > after) {
            expect(&mut stream, Revision(*revision), changes).await;
        }
        match next(&mut stream).await {
            Ok(WatchItem::Progress(at)) => assert_eq!(at, Revision(5), "a watch tells when it has caught up"),
            other => panic!("progress must follow the past, not {other:?}"),
        }
    }
}

/// Watches that begin at every stage of the work all see the same history.
pub(super) async fn no_gap_no_duplicate_under_writers(store: Arc<dyn Store>) {
    const WRITERS: usize = 4;
    const WRITES: usize = 150;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in 0..WRITES {
                    let own = format!("w/{writer}/{}", number % 7);
                    let op = if number % 5 == 4 { delete(&own) } else { put(&own, &number.to_string()) };
                    done(&*store, vec![op, put("w/last", &format!("{writer}/{number}"))]).await;
                }
            })
        })
        .collect();
    let total = Revision((WRITERS * WRITES) as u64);
    let mut followers = Vec::new();
    for eighth in 0..8 {
        while store.revision().0 < total.0 * eighth / 8 {
            tokio::task::yield_now().await;
        }
        let (store, after) = (store.clone(), Revision(store.revision().0 / 2));
        followers.push(tokio::spawn(async move { follow(&*store, &KeyRange::prefix("w/"), after, total).await }));
    }
    for writer in writers {
        writer.await.expect("no writer fails");
    }
    followers.push(tokio::spawn({
        let store = store.clone();
        async move { follow(&*store, &KeyRange::prefix("w/"), Revision(0), total).await }
    }));
    let live = store.range(&all_keys(), RangeOptions::default()).await.expect("the end state can be read");
    let live: BTreeMap<_, _> = live.entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
    for follower in followers {
        assert_eq!(follower.await.expect("no follower fails"), live, "a list and its watch lead to the end state");
    }
}

/// Lists at a revision and applies every change after it, checking order and continuity.
async fn follow(store: &dyn Store, range: &KeyRange, after: Revision, last: Revision) -> BTreeMap<Bytes, crate::Entry> {
    let list = store.range(range, RangeOptions { at: Some(after), limit: None }).await.expect("the past is kept");
    let mut state: BTreeMap<_, _> = list.entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
    let mut stream = watch(store, range, after).await;
    let mut at = after;
    while at < last {
        let (revision, changes) = match next(&mut stream).await {
            Ok(WatchItem::Changes { revision, changes }) => (revision, changes),
            Ok(WatchItem::Progress(revision)) => {
                assert_eq!(revision, at, "progress never runs ahead of the changes");
                continue;
            }
            Err(why) => panic!("a watch failed: {why}"),
        };
        assert_eq!(revision.0, at.0 + 1, "every transaction arrives once and in order");
        at = revision;
        for change in changes {
            assert_eq!(change.previous(), state.get(change.key()), "a change tells what was before");
            match change {
                Change::Put { entry, .. } => state.insert(entry.key.clone(), entry),
                Change::Delete { previous } => state.remove(&previous.key),
            };
        }
    }
    state
}

pub(super) async fn compacted_and_future_starts_are_refused(store: &dyn Store) {
    for number in 0..10 {
        done(store, vec![put("a", &number.to_string())]).await;
    }
    store.compact(Revision(6)).await.expect("compacting works");
    let refused = store.watch(&all_keys(), Revision(5)).await.map(|_| ());
    assert_eq!(refused, Err(Error::Compacted { requested: Revision(5), oldest: Revision(6) }));
    let refused = store.watch(&all_keys(), Revision(11)).await.map(|_| ());
    assert_eq!(refused, Err(Error::Future { requested: Revision(11), newest: Revision(10) }));
    let mut stream = watch(store, &all_keys(), Revision(6)).await;
    for number in 7..=10u64 {
        let change = format!("a: {} -> {}", number - 2, number - 1);
        expect(&mut stream, Revision(number), &[&change]).await;
    }
}

pub(super) async fn a_lagging_watch_is_cut_off(store: Arc<dyn Store>) {
    let mut slow = watch(&*store, &KeyRange::prefix("k/"), Revision(0)).await;
    assert_eq!(next(&mut slow).await, Ok(WatchItem::Progress(Revision(0))), "a watch of nothing has caught up");
    let mut elsewhere = watch(&*store, &KeyRange::prefix("other/"), Revision(0)).await;
    assert_eq!(next(&mut elsewhere).await, Ok(WatchItem::Progress(Revision(0))));
    const WRITERS: usize = 50;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in 0..LAG_TRANSACTIONS / WRITERS {
                    done(&*store, vec![put(&format!("k/{writer}"), &number.to_string())]).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no writer waits for a slow watch");
    }
    let mut seen = 0;
    let why = loop {
        match next(&mut slow).await {
            Ok(WatchItem::Changes { revision, .. }) => {
                seen += 1;
                assert_eq!(revision, Revision(seen), "what still arrives has no gap");
            }
            Ok(WatchItem::Progress(_)) => {}
            Err(why) => break why,
        }
    };
    assert_eq!(why, Error::WatchLagged);
    assert!(has_ended(&mut slow).await, "a cut-off watch has ended");
    let last = done(&*store, vec![put("other/a", "1")]).await;
    expect(&mut elsewhere, last, &["other/a: none -> 1"]).await;
}

async fn has_ended(stream: &mut WatchStream) -> bool {
    futures_util::StreamExt::next(stream).await.is_none()
}

pub(super) async fn progress_is_reported(store: &dyn Store) {
    let mut stream = watch(store, &KeyRange::prefix("quiet/"), Revision(0)).await;
    assert_eq!(next(&mut stream).await, Ok(WatchItem::Progress(Revision(0))));
    let mut last = Revision(0);
    for number in 0..3 {
        let revision = done(store, vec![put("loud", &number.to_string())]).await;
        // A report may have been due just before the write.
        while last < revision {
            match next(&mut stream).await {
                Ok(WatchItem::Progress(at)) => {
                    assert!(at >= last, "progress never goes back");
                    last = at;
                }
                other => panic!("only progress can come, not {other:?}"),
            }
        }
        assert_eq!(last, revision);
    }
}

pub(super) async fn many_watches_see_their_own_key(store: &dyn Store) {
    const COUNT: usize = 1000;
    let mut streams = Vec::new();
    for number in 0..COUNT {
        let range = match number % 2 {
            0 => KeyRange::key(format!("k/{number:04}")),
            _ => KeyRange::prefix(format!("k/{number:04}")),
        };
        streams.push(watch(store, &range, Revision(0)).await);
    }
    let ops = (0..COUNT).map(|number| Op::Put { key: format!("k/{number:04}").into(), value: "v".into() });
    let revision = done(store, ops.collect()).await;
    for (number, stream) in streams.iter_mut().enumerate() {
        expect(stream, revision, &[&format!("k/{number:04}: none -> v")]).await;
    }
}
