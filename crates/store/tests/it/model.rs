//! Random histories: the embedded driver must answer like the in-memory one.

use bytes::Bytes;
use futures_util::StreamExt;
use proptest::prelude::*;
use std::num::NonZeroUsize;
use std::time::Duration;
use store::{
    Condition, Embedded, KeyRange, Memory, Op, RangeOptions, Revision, Store, Txn, WatchItem, WatchOptions, embedded,
    memory,
};

const HISTORY: u64 = 12;

#[derive(Clone, Debug)]
enum Step {
    Commit(Txn),
    Get { key: Bytes, at: Option<u64> },
    Range { range: KeyRange, at: Option<u64>, limit: usize },
    Watch { range: KeyRange, after: u64 },
    Compact(u64),
    Reopen,
}

/// Few and short keys, so that they meet, with bytes that sort at the edges.
fn key() -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(prop_oneof![Just(0u8), Just(b'a'), Just(b'b'), Just(255u8)], 1..4).prop_map(Bytes::from)
}

fn range() -> impl Strategy<Value = KeyRange> {
    prop_oneof![
        key().prop_map(KeyRange::prefix),
        key().prop_map(KeyRange::key),
        (key(), proptest::option::of(key())).prop_map(|(start, end)| KeyRange { start, end }),
        Just(KeyRange::prefix(Bytes::new())),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (key(), proptest::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(key, value)| Op::Put { key, value: value.into() }),
        3 => key().prop_map(|key| Op::Delete { key }),
        1 => range().prop_map(|range| Op::DeleteRange { range }),
    ]
}

fn condition() -> impl Strategy<Value = (Bytes, Condition)> {
    let condition = prop_oneof![
        Just(Condition::Absent),
        Just(Condition::Present),
        (0..30u64).prop_map(|revision| Condition::ModifiedAt(Revision(revision))),
    ];
    (key(), condition)
}

fn step() -> impl Strategy<Value = Step> {
    let conditions = prop_oneof![4 => Just(vec![]), 1 => proptest::collection::vec(condition(), 1..3)];
    let ago = || proptest::option::of(0..40u64);
    prop_oneof![
        10 => (conditions, proptest::collection::vec(op(), 0..4))
            .prop_map(|(conditions, ops)| Step::Commit(Txn { conditions, ops })),
        3 => (key(), ago()).prop_map(|(key, at)| Step::Get { key, at }),
        4 => (range(), ago(), 0..5usize).prop_map(|(range, at, limit)| Step::Range { range, at, limit }),
        3 => (range(), 0..40u64).prop_map(|(range, after)| Step::Watch { range, after }),
        1 => (0..40u64).prop_map(Step::Compact),
        1 => Just(Step::Reopen),
    ]
}

fn watch_options() -> WatchOptions {
    // A tiny ring, so that most watches begin in the log.
    WatchOptions { ring_transactions: 2, progress_interval: Duration::from_secs(60), ..WatchOptions::default() }
}

async fn watched(store: &dyn Store, range: &KeyRange, after: Revision) -> Result<Vec<WatchItem>, store::Error> {
    let mut stream = store.watch(range, after).await?;
    let mut items = Vec::new();
    loop {
        let item = stream.next().await.expect("a watch does not end")?;
        let caught_up = matches!(item, WatchItem::Progress(_));
        items.push(item);
        if caught_up {
            return Ok(items);
        }
    }
}

async fn compare(steps: Vec<Step>) {
    let directory = tempfile::tempdir().unwrap();
    let options = embedded::Options {
        history_revisions: HISTORY,
        replay_step: 2,
        quiet: Duration::from_millis(1),
        quiet_cache_bytes: 0,
        shrink_min_bytes: 0,
        shrink_ratio: 1,
        watch: watch_options(),
        ..embedded::Options::default()
    };
    let model = Memory::new(memory::Options {
        history_revisions: HISTORY,
        watch: watch_options(),
        ..memory::Options::default()
    });
    let mut store = Embedded::open(directory.path(), options).unwrap();
    for step in steps {
        match step {
            Step::Commit(txn) => assert_eq!(store.commit(txn.clone()).await, model.commit(txn).await),
            Step::Get { key, at } => {
                let at = at.map(Revision);
                assert_eq!(store.get(&key, at).await, model.get(&key, at).await);
            }
            Step::Range { range, at, limit } => {
                let options = RangeOptions { at: at.map(Revision), limit: NonZeroUsize::new(limit) };
                assert_eq!(store.range(&range, options).await, model.range(&range, options).await);
            }
            Step::Watch { range, after } => {
                let after = Revision(after);
                assert_eq!(watched(&store, &range, after).await, watched(&model, &range, after).await);
            }
            Step::Compact(revision) => {
                let revision = Revision(revision);
                assert_eq!(store.compact(revision).await, model.compact(revision).await);
            }
            Step::Reopen => {
                drop(store);
                store = Embedded::open(directory.path(), options).unwrap();
            }
        }
        assert_eq!((store.revision(), store.compacted()), (model.revision(), model.compacted()));
    }
    let all = KeyRange::prefix(Bytes::new());
    for at in (model.compacted().0..=model.revision().0).map(Revision) {
        let options = RangeOptions { at: Some(at), limit: None };
        assert_eq!(store.range(&all, options).await, model.range(&all, options).await);
        assert_eq!(watched(&store, &all, at).await, watched(&model, &all, at).await);
    }
    let content = store.content_bytes().await.unwrap();
    assert_eq!(content.history == 0, model.compacted() == model.revision(), "what history holds is accounted");
    store.compact(store.revision()).await.unwrap();
    store.commit(Txn { conditions: vec![], ops: vec![Op::DeleteRange { range: all.clone() }] }).await.unwrap();
    assert_eq!(store.content_bytes().await.unwrap().live, 0, "what is live is accounted");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn embedded_answers_like_memory(steps in proptest::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(compare(steps));
    }
}
