//! Tests of what this module promises.
#![allow(clippy::unwrap_used)]

use super::{ChangeLog, Chunk, Event, Hub, Watch, WatchOptions};
use crate::{Change, Entry, Error, KeyRange, Revision, WatchItem};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use std::sync::Arc;
use std::time::Duration;

fn event(revision: u64, keys: &[&str]) -> Arc<Event> {
    let changes = keys.iter().map(|key| {
        let (key, revision) = (Bytes::copy_from_slice(key.as_bytes()), Revision(revision));
        let value = Bytes::from_static(&[b'v'; 100]);
        Change::Put { entry: Entry { key, value, created: revision, modified: revision }, previous: None }
    });
    Arc::new(Event::new(Revision(revision), changes.collect()))
}

/// A log that has `kept` of the revisions up to `last`, each a change of key `a`.
struct Log {
    kept: u64,
    last: u64,
}

#[async_trait]
impl ChangeLog for Log {
    async fn read_after(&self, after: Revision) -> Result<Chunk, Error> {
        if after.0 < self.last - self.kept {
            return Err(Error::Compacted { requested: after, oldest: Revision(self.last - self.kept) });
        }
        let through = Revision((after.0 + 2).min(self.last));
        let events = (after.0 + 1..=through.0).map(|revision| event(revision, &["a"])).collect();
        Ok(Chunk { events, through })
    }
}

fn options() -> WatchOptions {
    WatchOptions {
        ring_transactions: 4,
        buffer_transactions: 3,
        progress_interval: Duration::from_secs(60),
        ..WatchOptions::default()
    }
}

fn watch(hub: &Arc<Hub>, range: KeyRange, after: u64) -> Watch {
    Watch::new(hub.clone(), Arc::new(Log { kept: 10, last: 10 }), range, Revision(after))
}

/// What can be read without waiting.
fn available(watch: &mut Watch) -> Vec<Result<u64, Error>> {
    let mut seen = Vec::new();
    while let Some(Some(item)) = watch.next().now_or_never() {
        match item {
            Ok(WatchItem::Changes { revision, .. }) => seen.push(Ok(revision.0)),
            Ok(WatchItem::Progress(_)) => {}
            Err(why) => seen.push(Err(why)),
        }
    }
    seen
}

#[tokio::test]
async fn log_and_ring_meet_without_gap() {
    let hub = Arc::new(Hub::new(options(), Revision(10)));
    hub.publish((11..=13).map(|revision| event(revision, &["a"])).collect());
    for after in 0..=13 {
        let mut watch = watch(&hub, KeyRange::prefix("a"), after);
        let mut seen = Vec::new();
        while let Ok(WatchItem::Changes { revision, .. }) = watch.next().await.unwrap() {
            seen.push(revision.0);
        }
        assert_eq!(seen, (after + 1..=13).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_released_ring_leaves_no_gap() {
    let hub = Arc::new(Hub::new(options(), Revision(8)));
    hub.publish(vec![event(9, &["a"]), event(10, &["a"])]);
    let mut before = watch(&hub, KeyRange::prefix("a"), 9);
    assert_eq!(available(&mut before), [Ok(10)]);
    hub.release();
    let mut after = watch(&hub, KeyRange::prefix("a"), 7);
    hub.publish(vec![event(11, &["a"])]);
    assert_eq!(available(&mut before), [Ok(11)]);
    assert_eq!(available(&mut after), [Ok(8), Ok(9), Ok(10), Ok(11)]);
}

#[tokio::test]
async fn a_reader_that_the_log_outruns_is_cut_off() {
    let hub = Arc::new(Hub::new(options(), Revision(10)));
    let log = Arc::new(Log { kept: 3, last: 10 });
    let mut watch = Watch::new(hub, log, KeyRange::prefix("a"), Revision(2));
    assert_eq!(watch.next().await, Some(Err(Error::WatchLagged)));
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn only_the_slow_watch_of_the_changed_range_is_cut_off() {
    let hub = Arc::new(Hub::new(options(), Revision(10)));
    let mut slow = watch(&hub, KeyRange::prefix("a/"), 10);
    let mut narrow = watch(&hub, KeyRange::key("a/2"), 10);
    let mut other = watch(&hub, KeyRange { start: "b".into(), end: Some("c".into()) }, 10);
    hub.publish((11..=13).map(|revision| event(revision, &["a/1"])).collect());
    assert_eq!(available(&mut slow), [Ok(11), Ok(12), Ok(13)], "a full buffer is not too much");
    hub.publish((14..=17).map(|revision| event(revision, &["a/1"])).collect());
    hub.publish(vec![event(18, &["a/2", "b/1"])]);
    assert_eq!(available(&mut slow), [Err(Error::WatchLagged)]);
    assert_eq!(available(&mut narrow), [Ok(18)]);
    assert_eq!(available(&mut other), [Ok(18)]);
    drop((slow, narrow, other));
    assert!(hub.has_no_watchers(), "dropped watches leave nothing behind");
}

#[tokio::test]
async fn bytes_are_bounded_but_one_transaction_always_fits() {
    let small = WatchOptions { buffer_bytes: 500, ring_bytes: 500, ..options() };
    let hub = Arc::new(Hub::new(small, Revision(10)));
    let mut watch = watch(&hub, KeyRange::prefix(""), 10);
    hub.publish(vec![event(11, &["a", "b", "c", "d", "e"])]);
    assert_eq!(available(&mut watch), [Ok(11)]);
    hub.publish(vec![event(12, &["a", "b"]), event(13, &["a", "b"])]);
    assert_eq!(available(&mut watch), [Err(Error::WatchLagged)]);
}

#[tokio::test(start_paused = true)]
async fn progress_is_exact_and_periodic() {
    let hub = Arc::new(Hub::new(options(), Revision(10)));
    let mut watch = watch(&hub, KeyRange::prefix("a"), 10);
    assert_eq!(watch.next().await, Some(Ok(WatchItem::Progress(Revision(10)))));
    assert_eq!(watch.next().now_or_never(), None, "once is enough");
    hub.publish(vec![event(11, &["b"])]);
    let start = tokio::time::Instant::now();
    assert_eq!(watch.next().await, Some(Ok(WatchItem::Progress(Revision(11)))));
    assert_eq!(start.elapsed().as_secs(), 60);
    hub.publish(vec![event(12, &["a"])]);
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(matches!(watch.next().await, Some(Ok(WatchItem::Changes { revision: Revision(12), .. }))));
    assert_eq!(watch.next().await, Some(Ok(WatchItem::Progress(Revision(12)))));
}

#[tokio::test]
async fn closing_ends_every_watch() {
    let hub = Arc::new(Hub::new(options(), Revision(10)));
    let mut before = watch(&hub, KeyRange::key("a"), 10);
    hub.close();
    let mut after = watch(&hub, KeyRange::prefix("a"), 10);
    assert_eq!(available(&mut before), [Err(Error::Closed)]);
    assert_eq!(available(&mut after), [Err(Error::Closed)]);
    assert!(hub.has_no_watchers());
}

#[tokio::test]
async fn watchers_that_have_gone_leave_no_room_behind() {
    let hub = Arc::new(Hub::new(options(), Revision(10)));
    let ranges = (0..2000).map(|number| KeyRange::prefix(format!("r/core/pods/cluster-{number}/")));
    let all: Vec<_> = ranges.map(|range| watch(&hub, range, 10)).collect();
    let full = hub.watcher_room();
    drop(all);
    assert!(hub.has_no_watchers() && full >= 2000 && hub.watcher_room() < 100, "{full} {}", hub.watcher_room());
}
