//! What every driver must do, as a reusable suite.
//!
//! A driver's tests call [`run`] with a function that makes an empty store. The suite panics at
//! the first broken promise, naming it. So that it can see bounds at work, the store must
//! - keep at least 10,000 transactions of history unless asked to compact,
//! - hold fewer than [`LAG_TRANSACTIONS`] transactions for a slow watcher,
//! - report progress of a quiet watch at least every second,
//! - refuse a value of [`OVERSIZE_BYTES`] bytes.

mod reads;
mod transactions;
mod watches;

use crate::{
    Commit, Condition, Entry, Error, KeyRange, Op, RangeOptions, Revision, Store, Txn, WatchItem, WatchStream,
};
use bytes::Bytes;
use futures_util::StreamExt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// The suite lets a watcher fall this many transactions behind and expects it to be cut off.
pub const LAG_TRANSACTIONS: usize = 2000;

/// A value this long must be refused.
pub const OVERSIZE_BYTES: usize = 16 << 20;

/// No single step of the suite takes longer on any reasonable machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the whole suite; `fresh` makes an empty store each time.
///
/// # Panics
/// When the driver breaks a promise.
pub async fn run<F, S>(fresh: F)
where
    F: Fn() -> S,
    S: Future<Output = Arc<dyn Store>>,
{
    transactions::revisions_count_changes(&*fresh().await).await;
    transactions::conditions_guard_all_operations(&*fresh().await).await;
    transactions::created_survives_updates_only(&*fresh().await).await;
    transactions::ranges_are_deleted(&*fresh().await).await;
    transactions::malformed_transactions_are_refused(&*fresh().await).await;
    transactions::concurrent_swaps_lose_nothing(fresh().await).await;
    reads::ranges_are_ordered_and_limited(&*fresh().await).await;
    reads::the_past_stays_readable(&*fresh().await).await;
    reads::pages_of_one_revision_fit_together(&*fresh().await).await;
    reads::large_ranges_are_whole(&*fresh().await).await;
    reads::compacted_and_future_revisions_are_refused(&*fresh().await).await;
    watches::live_changes_arrive_in_order(&*fresh().await).await;
    watches::only_the_range_is_seen(&*fresh().await).await;
    watches::the_past_is_replayed(&*fresh().await).await;
    watches::no_gap_no_duplicate_under_writers(fresh().await).await;
    watches::compacted_and_future_starts_are_refused(&*fresh().await).await;
    watches::a_lagging_watch_is_cut_off(fresh().await).await;
    watches::progress_is_reported(&*fresh().await).await;
    watches::many_watches_see_their_own_key(&*fresh().await).await;
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn put(key: &str, value: &str) -> Op {
    Op::Put { key: bytes(key), value: bytes(value) }
}

fn delete(key: &str) -> Op {
    Op::Delete { key: bytes(key) }
}

fn delete_prefix(prefix: &str) -> Op {
    Op::DeleteRange { range: KeyRange::prefix(bytes(prefix)) }
}

fn all_keys() -> KeyRange {
    KeyRange::prefix(Bytes::new())
}

async fn done(store: &dyn Store, ops: Vec<Op>) -> Revision {
    done_if(store, Vec::new(), ops).await
}

async fn done_if(store: &dyn Store, conditions: Vec<(Bytes, Condition)>, ops: Vec<Op>) -> Revision {
    match store.commit(Txn { conditions, ops }).await {
        Ok(Commit::Done { revision }) => revision,
        other => panic!("a transaction that must apply was answered with {other:?}"),
    }
}

async fn get(store: &dyn Store, key: &str, at: Option<Revision>) -> Option<Entry> {
    store.get(key.as_bytes(), at).await.unwrap_or_else(|why| panic!("cannot read {key} at {at:?}: {why}"))
}

async fn value(store: &dyn Store, key: &str, at: Option<Revision>) -> Option<String> {
    get(store, key, at).await.map(|entry| String::from_utf8_lossy(&entry.value).into_owned())
}

async fn list(store: &dyn Store, range: &KeyRange, options: RangeOptions) -> (Vec<(String, String)>, bool) {
    let result = store.range(range, options).await.unwrap_or_else(|why| panic!("cannot read {range:?}: {why}"));
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    (result.entries.iter().map(|entry| (text(&entry.key), text(&entry.value))).collect(), result.more)
}

/// The next item of a watch, which must come.
async fn next(watch: &mut WatchStream) -> Result<WatchItem, Error> {
    match tokio::time::timeout(PATIENCE, watch.next()).await {
        Ok(Some(item)) => item,
        Ok(None) => panic!("a watch ended without an error"),
        Err(_) => panic!("a watch stayed silent for {PATIENCE:?}"),
    }
}

/// The next changes of a watch, passing over progress.
async fn next_changes(watch: &mut WatchStream) -> (Revision, Vec<crate::Change>) {
    loop {
        match next(watch).await {
            Ok(WatchItem::Changes { revision, changes }) => return (revision, changes),
            Ok(WatchItem::Progress(_)) => {}
            Err(why) => panic!("a watch failed: {why}"),
        }
    }
}

async fn watch(store: &dyn Store, range: &KeyRange, after: Revision) -> WatchStream {
    store.watch(range, after).await.unwrap_or_else(|why| panic!("cannot watch {range:?} after {after}: {why}"))
}
