//! Finds the watchers that a key concerns without asking each of them.

use super::hub::Subscriber;
use crate::KeyRange;
use bytes::Bytes;
use runtime::Shrink;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

type Bucket = HashMap<u64, Arc<Subscriber>>;

/// Watchers by range. Almost every watch is of a prefix or of one key: those are found with one
/// hash lookup per distinct prefix length. Other ranges are compared one by one.
#[derive(Default)]
pub(super) struct Index {
    keys: HashMap<Bytes, Bucket>,
    prefixes: HashMap<Bytes, Bucket>,
    prefix_lengths: BTreeMap<usize, usize>,
    others: Bucket,
}

enum Shape {
    Key,
    Prefix,
    Other,
}

fn shape(range: &KeyRange) -> Shape {
    if *range == KeyRange::key(range.start.clone()) {
        Shape::Key
    } else if *range == KeyRange::prefix(range.start.clone()) {
        Shape::Prefix
    } else {
        Shape::Other
    }
}

impl Index {
    pub(super) fn insert(&mut self, watcher: Arc<Subscriber>) {
        let start = watcher.range.start.clone();
        match shape(&watcher.range) {
            Shape::Key => self.keys.entry(start).or_default().insert(watcher.id, watcher),
            Shape::Prefix => {
                let length = start.len();
                let bucket = self.prefixes.entry(start).or_default();
                if bucket.is_empty() {
                    *self.prefix_lengths.entry(length).or_default() += 1;
                }
                bucket.insert(watcher.id, watcher)
            }
            Shape::Other => self.others.insert(watcher.id, watcher),
        };
    }

    pub(super) fn remove(&mut self, watcher: &Subscriber) {
        let start = &watcher.range.start;
        match shape(&watcher.range) {
            Shape::Key => {
                remove_from(&mut self.keys, start, watcher.id);
            }
            Shape::Prefix => {
                if remove_from(&mut self.prefixes, start, watcher.id)
                    && let Some(count) = self.prefix_lengths.get_mut(&start.len())
                {
                    *count -= 1;
                    if *count == 0 {
                        self.prefix_lengths.remove(&start.len());
                    }
                }
            }
            Shape::Other => {
                self.others.remove(&watcher.id);
                self.others.shrink_if_sparse();
            }
        }
    }

    /// Calls `found` with every watcher of `key`.
    pub(super) fn each(&self, key: &[u8], mut found: impl FnMut(&Arc<Subscriber>)) {
        if let Some(bucket) = self.keys.get(key) {
            bucket.values().for_each(&mut found);
        }
        for length in self.prefix_lengths.range(..=key.len()).map(|(length, _)| *length) {
            if let Some(bucket) = self.prefixes.get(&key[..length]) {
                bucket.values().for_each(&mut found);
            }
        }
        self.others.values().filter(|watcher| watcher.range.contains(key)).for_each(found);
    }

    pub(super) fn drain(&mut self) -> Vec<Arc<Subscriber>> {
        let index = std::mem::take(self);
        let mut all: Vec<_> = index.others.into_values().collect();
        all.extend(index.keys.into_values().flat_map(Bucket::into_values));
        all.extend(index.prefixes.into_values().flat_map(Bucket::into_values));
        all
    }

    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.keys.capacity() + self.prefixes.capacity() + self.others.capacity()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.prefixes.is_empty() && self.others.is_empty() && self.prefix_lengths.is_empty()
    }
}

/// Removes one watcher and reports whether its bucket went with it.
fn remove_from(buckets: &mut HashMap<Bytes, Bucket>, start: &Bytes, id: u64) -> bool {
    let Some(bucket) = buckets.get_mut(start) else { return false };
    let removed = bucket.remove(&id).is_some();
    bucket.shrink_if_sparse();
    let empty = bucket.is_empty();
    if empty {
        buckets.remove(start);
        buckets.shrink_if_sparse();
    }
    removed && empty
}
