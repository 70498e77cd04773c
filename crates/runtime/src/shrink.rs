//! Collections that give memory back once most of what they held is gone.
//!
//! The standard collections keep the room of their fullest moment for ever. What holds one entry per
//! cluster or object would so remember ten thousand clusters long after they were deleted.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

/// Room for this many entries is never given back: it is not worth the work.
const SMALL: usize = 64;
/// A collection is sparse when less than one in this many of its places is taken.
const SPARSE: usize = 8;

/// A collection that can give back most of its unused room.
pub trait Shrink {
    /// Gives unused room back if less than an eighth is used, and keeps twice what is. To be called
    /// after removals; the cost is that of the removals, amortised.
    fn shrink_if_sparse(&mut self);
}

/// The room to keep; `None` when it is right as it is.
fn room(len: usize, capacity: usize) -> Option<usize> {
    (capacity > SMALL && len < capacity / SPARSE).then_some((2 * len).max(SMALL / 2))
}

impl<K: Eq + Hash, V, S: BuildHasher> Shrink for HashMap<K, V, S> {
    fn shrink_if_sparse(&mut self) {
        if let Some(room) = room(self.len(), self.capacity()) {
            self.shrink_to(room);
        }
    }
}

impl<T: Eq + Hash, S: BuildHasher> Shrink for HashSet<T, S> {
    fn shrink_if_sparse(&mut self) {
        if let Some(room) = room(self.len(), self.capacity()) {
            self.shrink_to(room);
        }
    }
}

impl<T> Shrink for VecDeque<T> {
    fn shrink_if_sparse(&mut self) {
        if let Some(room) = room(self.len(), self.capacity()) {
            self.shrink_to(room);
        }
    }
}

#[cfg(test)]
mod tests {
    //! What is given back and how often.

    use super::*;

    #[test]
    fn room_follows_what_is_left() {
        let mut map: HashMap<usize, usize> = (0..10_000).map(|n| (n, n)).collect();
        let full = map.capacity();
        let mut shrunk = 0;
        for n in 0..10_000 {
            map.remove(&n);
            let before = map.capacity();
            map.shrink_if_sparse();
            assert!(map.capacity() >= map.len());
            shrunk += usize::from(map.capacity() < before);
        }
        assert!(full >= 10_000 && map.capacity() <= SMALL, "{full} {}", map.capacity());
        assert!(shrunk <= 8, "shrunk {shrunk} times, so that each removal stays cheap");
    }

    #[test]
    fn every_collection_keeps_its_entries() {
        let mut set: HashSet<usize> = (0..10_000).collect();
        let mut deque: VecDeque<usize> = (0..10_000).collect();
        set.retain(|n| *n < 3);
        deque.truncate(3);
        set.shrink_if_sparse();
        deque.shrink_if_sparse();
        assert!(set.capacity() <= SMALL && set.len() == 3);
        assert!(deque.capacity() <= SMALL && deque == [0, 1, 2]);
    }

    #[test]
    fn small_and_well_used_ones_are_left_alone() {
        for (len, capacity) in [(0, SMALL), (1000, 2000), (100, 800)] {
            assert_eq!(room(len, capacity), None, "{len} of {capacity}");
        }
        assert_eq!(room(99, 800), Some(198));
    }
}
