//! Compiled rules of the clusters in use, kept until their objects change or nobody asks.
//!
//! One watch over the RBAC objects of every cluster says what changed. Nobody waits on it: what has
//! arrived is applied before each decision and by the housekeeping, so that an idle server does next to
//! nothing and changes do not pile up in the watch.

use super::RBAC_GROUP;
use super::rbac::Rules;
use futures_util::{FutureExt as _, StreamExt as _};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{KeyRange, Store, WatchItem, WatchStream};
use tokio::time::Instant;

pub(super) struct Cache {
    state: Mutex<State>,
    watch: tokio::sync::Mutex<Option<WatchStream>>,
    max: usize,
    idle: Duration,
}

#[derive(Default)]
struct State {
    entries: HashMap<String, (Arc<Rules>, Instant)>,
    /// Grows with everything that invalidates: rules read before are then not kept.
    changes: u64,
    /// Whether a watch stands behind the entries.
    followed: bool,
}

impl Cache {
    pub(super) fn new(max: usize, idle: Duration) -> Self {
        Self { state: Mutex::default(), watch: tokio::sync::Mutex::new(None), max, idle }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the changes that the store has told of. Without a watch nothing is kept.
    pub(super) async fn follow(&self, store: &Arc<dyn Store>) {
        let mut watch = self.watch.lock().await;
        if watch.is_none() {
            let range = KeyRange::prefix(format!("r/{RBAC_GROUP}/"));
            let opened = store.watch(&range, store.revision()).await.ok();
            let mut state = self.state();
            state.entries.clear();
            state.changes += 1;
            state.followed = opened.is_some();
            *watch = opened;
        }
        self.drain(&mut watch);
    }

    /// Applies what has arrived in the watch.
    fn drain(&self, watch: &mut Option<WatchStream>) {
        while let Some(stream) = watch.as_mut() {
            match stream.next().now_or_never() {
                None => return,
                Some(Some(Ok(WatchItem::Progress(_)))) => {}
                Some(Some(Ok(WatchItem::Changes { changes, .. }))) => {
                    let mut state = self.state();
                    state.changes += 1;
                    for change in changes {
                        if let Some(cluster) = cluster_of(change.key()) {
                            state.entries.remove(cluster);
                        }
                    }
                }
                // Cut off: nothing is known until the next decision opens a new watch.
                Some(Some(Err(_)) | None) => {
                    *watch = None;
                    let mut state = self.state();
                    state.entries.clear();
                    state.changes += 1;
                    state.followed = false;
                }
            }
        }
    }

    pub(super) fn changes(&self) -> u64 {
        self.state().changes
    }

    pub(super) fn get(&self, cluster: &str) -> Option<Arc<Rules>> {
        let mut state = self.state();
        let (rules, used) = state.entries.get_mut(cluster)?;
        *used = Instant::now();
        Some(Arc::clone(rules))
    }

    /// Keeps rules that were read when `changes` was current.
    pub(super) fn insert(&self, cluster: &str, rules: &Arc<Rules>, changes: u64) {
        let mut state = self.state();
        if state.changes != changes || !state.followed {
            return;
        }
        if state.entries.len() >= self.max && !state.entries.contains_key(cluster) {
            let oldest = state.entries.iter().min_by_key(|(_, (_, used))| *used).map(|(name, _)| name.clone());
            if let Some(oldest) = oldest {
                state.entries.remove(&oldest);
            }
        }
        state.entries.insert(cluster.to_owned(), (Arc::clone(rules), Instant::now()));
    }

    /// Takes in what the watch told, and drops what has not been used for long.
    pub(super) async fn sweep(&self) {
        self.drain(&mut *self.watch.lock().await);
        let idle = self.idle;
        self.state().entries.retain(|_, (_, used)| used.elapsed() < idle);
    }
}

/// The cluster in `r/<group>/<resource>/<cluster>/...`.
fn cluster_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key).ok()?.split('/').nth(3)
}

#[cfg(test)]
mod tests {
    //! What is kept and when it goes.

    use super::*;
    use bytes::Bytes;
    use store::{Op, Txn};

    async fn put(store: &Arc<dyn Store>, key: &str) {
        let op = Op::Put { key: Bytes::copy_from_slice(key.as_bytes()), value: Bytes::from_static(b"{}") };
        store.commit(Txn { conditions: Vec::new(), ops: vec![op] }).await.unwrap();
    }

    /// Follows until the cluster's entry is gone.
    async fn until_gone(cache: &Cache, store: &Arc<dyn Store>, cluster: &str) {
        tokio::time::timeout(Duration::from_secs(10), async {
            while cache.get(cluster).is_some() {
                tokio::task::yield_now().await;
                cache.follow(store).await;
            }
        })
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn a_change_drops_its_cluster_only() {
        let store: Arc<dyn Store> = Arc::new(store::Memory::default());
        let cache = Cache::new(2, Duration::from_secs(60));
        let rules = Arc::new(Rules::default());
        cache.follow(&store).await;
        for cluster in ["a", "b"] {
            cache.insert(cluster, &rules, cache.changes());
        }
        put(&store, "r/core/pods/b/x/y").await;
        put(&store, "r/rbac.authorization.k8s.io/roles/a/x/y").await;
        until_gone(&cache, &store, "a").await;
        assert!(cache.get("b").is_some());
        cache.insert("a", &rules, cache.changes() - 1);
        assert!(cache.get("a").is_none(), "read before a change");
    }

    /// Nobody decides anything: the changes of a purge must not wait in the watch.
    #[tokio::test]
    async fn the_housekeeping_takes_changes_in() {
        let store: Arc<dyn Store> = Arc::new(store::Memory::default());
        let cache = Cache::new(2, Duration::from_secs(60));
        cache.follow(&store).await;
        cache.insert("a", &Arc::new(Rules::default()), cache.changes());
        put(&store, "r/rbac.authorization.k8s.io/roles/a/x/y").await;
        tokio::time::timeout(Duration::from_secs(10), async {
            while cache.get("a").is_some() {
                tokio::task::yield_now().await;
                cache.sweep().await;
            }
        })
        .await
        .unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn bounded_by_number_and_time() {
        let store: Arc<dyn Store> = Arc::new(store::Memory::default());
        let cache = Cache::new(2, Duration::from_secs(60));
        let rules = Arc::new(Rules::default());
        cache.insert("a", &rules, cache.changes());
        assert!(cache.get("a").is_none(), "nothing is kept without a watch");
        cache.follow(&store).await;
        for cluster in ["a", "b", "c"] {
            cache.insert(cluster, &rules, cache.changes());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(cache.get("a").is_none() && cache.get("b").is_some() && cache.get("c").is_some());
        tokio::time::advance(Duration::from_secs(61)).await;
        cache.sweep().await;
        assert!(cache.get("b").is_none());
    }
}
