//! Opening, locking, closing, trimming and shrinking.

use bytes::Bytes;
use futures_util::StreamExt;
use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use store::{Embedded, Error, KeyRange, Op, RangeOptions, Revision, Store, Txn, WatchItem, WatchOptions, embedded};

const PATIENCE: Duration = Duration::from_secs(30);

async fn put_all(store: &Embedded, keys: std::ops::Range<usize>, bytes: usize) {
    let value = Bytes::from(vec![b'v'; bytes]);
    let ops = keys.map(|number| Op::Put { key: format!("k/{number:07}").into(), value: value.clone() }).collect();
    store.commit(Txn { conditions: vec![], ops }).await.unwrap();
}

async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_second_opening_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path(), embedded::Options::default()).unwrap();
    let refused = Embedded::open(directory.path(), embedded::Options::default()).map(|_| ());
    let path = directory.path().display().to_string();
    assert_eq!(refused, Err(Error::Locked { path: path.clone() }));
    assert!(refused.unwrap_err().to_string().contains(&path), "the message names the path");
    drop(store);
    Embedded::open(directory.path(), embedded::Options::default()).unwrap();
}

#[tokio::test]
async fn closing_ends_watches_and_releases_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path(), embedded::Options::default()).unwrap();
    let mut watch = store.watch(&KeyRange::prefix(""), Revision(0)).await.unwrap();
    assert_eq!(watch.next().await, Some(Ok(WatchItem::Progress(Revision(0)))));
    let unread = store.watch(&KeyRange::prefix(""), Revision(0)).await.unwrap();
    drop(store);
    assert_eq!(watch.next().await, Some(Err(Error::Closed)));
    assert_eq!(watch.next().await, None);
    let store = Embedded::open(directory.path(), embedded::Options::default()).unwrap();
    assert_eq!(unread.collect::<Vec<_>>().await, [Err(Error::Closed)]);
    drop(store);
}

#[tokio::test]
async fn an_abandoned_commit_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path(), embedded::Options::default()).unwrap();
    for number in 0..50 {
        let ops = ["a", "b"].map(|key| Op::Put { key: key.into(), value: number.to_string().into() });
        let mut commit = store.commit(Txn { conditions: vec![], ops: ops.into() });
        // Polled once, which hands it to the writer, then dropped.
        let pending = std::future::poll_fn(|cx| Poll::Ready(commit.as_mut().poll(cx).is_pending())).await;
        assert!(pending, "a commit waits for the disk");
    }
    drop(store);
    let store = Embedded::open(directory.path(), embedded::Options::default()).unwrap();
    assert_eq!(store.revision(), Revision(50), "what reached the queue is written before closing");
    let entries = store.range(&KeyRange::prefix(""), RangeOptions::default()).await.unwrap().entries;
    assert!(entries.len() == 2 && entries[0].value == entries[1].value);
}

#[tokio::test]
async fn history_is_bounded_by_count_and_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let options = embedded::Options { history_revisions: 100, history_bytes: 50_000, ..Default::default() };
    let store = Embedded::open(directory.path(), options).unwrap();
    for _ in 0..150 {
        put_all(&store, 0..1, 10).await;
    }
    assert_eq!(store.compacted(), Revision(50));
    for _ in 0..20 {
        put_all(&store, 0..10, 1000).await;
    }
    let content = store.content_bytes().await.unwrap();
    assert!(content.history <= 50_000, "{content:?}");
    assert!(store.compacted() > Revision(150) && store.compacted() < store.revision());
    put_all(&store, 0..5000, 100).await;
    put_all(&store, 0..5000, 100).await;
    eventually("a large transaction's history is trimmed", || async {
        store.content_bytes().await.unwrap().history <= 50_000
    })
    .await;
}

#[tokio::test]
async fn a_large_store_opens_at_once_after_a_kill() {
    // Copying the files of an open store is what a kill leaves.
    let (directory, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Embedded::open(directory.path(), embedded::Options::default()).unwrap();
    for first in (0..100_000).step_by(10_000) {
        put_all(&store, first..first + 10_000, 100).await;
    }
    std::fs::copy(directory.path().join("store.redb"), copy.path().join("store.redb")).unwrap();
    let start = Instant::now();
    let copied = Embedded::open(copy.path(), embedded::Options::default()).unwrap();
    let took = start.elapsed();
    assert!(took < Duration::from_millis(500), "opening 100,000 keys took {took:?}");
    assert_eq!(copied.revision(), store.revision());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_space_is_given_back_while_readers_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let options = embedded::Options {
        history_bytes: 1 << 20,
        quiet: Duration::from_millis(50),
        shrink_min_bytes: 1 << 20,
        watch: WatchOptions { buffer_bytes: 64 << 20, ..WatchOptions::default() },
        ..Default::default()
    };
    let store = Arc::new(Embedded::open(directory.path(), options).unwrap());
    for first in (0..20_000).step_by(1000) {
        put_all(&store, first..first + 1000, 1000).await;
    }
    let full = store.disk_bytes().unwrap();
    let mut watch = store.watch(&KeyRange::prefix(""), store.revision()).await.unwrap();
    let range = KeyRange { start: "k/0001000".into(), end: None };
    store.commit(Txn { conditions: vec![], ops: vec![Op::DeleteRange { range }] }).await.unwrap();
    let reader = tokio::spawn({
        let (store, full) = (store.clone(), full);
        async move {
            while store.disk_bytes().unwrap() > full / 4 {
                let result = store.range(&KeyRange::prefix("k/"), RangeOptions::default()).await.unwrap();
                assert_eq!(result.entries.len(), 1000);
                tokio::task::yield_now().await;
            }
        }
    });
    tokio::time::timeout(PATIENCE, reader).await.expect("the file shrinks").unwrap();
    put_all(&store, 0..1, 10).await;
    let last = store.revision();
    loop {
        match watch.next().await.unwrap().unwrap() {
            WatchItem::Changes { revision, .. } if revision == last => break,
            _ => {}
        }
    }
    drop((watch, store));
    let store = Embedded::open(directory.path(), options).unwrap();
    assert_eq!(store.revision(), last);
    let result = store.range(&KeyRange::prefix("k/"), RangeOptions::default()).await.unwrap();
    assert_eq!(result.entries.len(), 1000);
}
