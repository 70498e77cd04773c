//! Which events become new objects, which only count, and which are too many. Without I/O.

use super::{EventType, Note};
use runtime::{BackoffOptions, Shrink};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Limits of an event recorder.
#[derive(Clone, Copy, Debug)]
pub struct EventOptions {
    /// Events that wait to be written.
    pub max_pending: usize,
    /// Events, and objects with events, that are remembered in order to count them.
    pub max_remembered: usize,
    /// For how long an event that does not recur is remembered.
    pub remembered_for: Duration,
    /// Events that one object may have at once.
    pub burst: u32,
    /// After how long an object may have one more.
    pub refill: Duration,
    /// Longest message, bytes.
    pub max_message_bytes: usize,
    /// How often writing one event is tried.
    pub max_attempts: u32,
    /// Delays between those.
    pub backoff: BackoffOptions,
}

impl Default for EventOptions {
    fn default() -> Self {
        Self {
            max_pending: 1024,
            max_remembered: 4096,
            remembered_for: Duration::from_secs(600),
            burst: 25,
            refill: Duration::from_secs(60),
            max_message_bytes: 1024,
            max_attempts: 4,
            backoff: BackoffOptions { initial: Duration::from_millis(100), ..BackoffOptions::default() },
        }
    }
}

/// What becomes of a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// A new event.
    Create { name: String },
    /// An event that was written before is counted up.
    Count { name: String, count: i32, first: jiff::Timestamp },
    /// Nothing: its object has too many.
    Drop,
}

type About = (Arc<str>, String, String, String);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Same {
    about: About,
    type_: EventType,
    reason: String,
    message: String,
}

struct Seen {
    name: String,
    count: i32,
    first: jiff::Timestamp,
    last: Instant,
}

struct Bucket {
    used: f64,
    last: Instant,
}

pub(super) struct Correlator {
    options: EventOptions,
    seen: HashMap<Same, Seen>,
    buckets: HashMap<About, Bucket>,
    /// When what is too old was last dropped.
    swept: Instant,
}

impl Correlator {
    pub(super) fn new(options: EventOptions) -> Self {
        Self { options, seen: HashMap::new(), buckets: HashMap::new(), swept: Instant::now() }
    }

    pub(super) fn decide(&mut self, note: &Note, now: Instant) -> Decision {
        if now.saturating_duration_since(self.swept) >= self.options.remembered_for {
            self.sweep(now);
        }
        let about = about(note);
        if !self.allow(&about, now) {
            return Decision::Drop;
        }
        let same = same(note, about);
        let fresh = |seen: &Seen| now.saturating_duration_since(seen.last) < self.options.remembered_for;
        if let Some(seen) = self.seen.get_mut(&same)
            && fresh(seen)
        {
            seen.count = seen.count.saturating_add(1);
            seen.last = now;
            return Decision::Count { name: seen.name.clone(), count: seen.count, first: seen.first };
        }
        let of = note.about.name.as_deref().unwrap_or("unknown");
        let of: String = of.chars().take(200).collect();
        let name = format!("{}.{:016x}", of.trim_end_matches(['.', '-']), note.at.as_nanosecond());
        evict(&mut self.seen, self.options.max_remembered, now, self.options.remembered_for, |seen| seen.last);
        self.seen.insert(same, Seen { name: name.clone(), count: 1, first: note.at, last: now });
        Decision::Create { name }
    }

    /// Whether nothing is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_empty() && self.buckets.is_empty()
    }

    /// Drops what no longer changes a decision: its objects, or whole clusters, may be gone.
    pub(super) fn sweep(&mut self, now: Instant) {
        let EventOptions { remembered_for, refill, .. } = self.options;
        let passed = |last: Instant| now.saturating_duration_since(last);
        self.seen.retain(|_, seen| passed(seen.last) < remembered_for);
        self.buckets.retain(|_, bucket| passed(bucket.last).as_secs_f64() < bucket.used * refill.as_secs_f64());
        self.seen.shrink_if_sparse();
        self.buckets.shrink_if_sparse();
        self.swept = now;
    }

    /// The larger of how many events and how many objects are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.seen.len().max(self.buckets.len())
    }

    /// Room for entries, taken or not.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.seen.capacity() + self.buckets.capacity()
    }

    /// Forgets an event that could not be written.
    pub(super) fn forget(&mut self, note: &Note) {
        self.seen.remove(&same(note, about(note)));
    }

    fn allow(&mut self, about: &About, now: Instant) -> bool {
        let options = self.options;
        let full = options.refill * options.burst;
        if !self.buckets.contains_key(about) {
            evict(&mut self.buckets, options.max_remembered, now, full, |bucket| bucket.last);
        }
        let bucket = self.buckets.entry(about.clone()).or_insert(Bucket { used: 0.0, last: now });
        let passed = now.saturating_duration_since(bucket.last).as_secs_f64();
        let refilled = passed / options.refill.as_secs_f64().max(f64::MIN_POSITIVE);
        bucket.used = (bucket.used - refilled).max(0.0);
        bucket.last = now;
        let allowed = bucket.used + 1.0 <= f64::from(options.burst);
        if allowed {
            bucket.used += 1.0;
        }
        allowed
    }
}

/// Makes room for one more entry: first by age, then by dropping the older half.
fn evict<K: std::hash::Hash + Eq, V>(
    map: &mut HashMap<K, V>,
    max: usize,
    now: Instant,
    age: Duration,
    last: impl Fn(&V) -> Instant,
) {
    if map.len() < max {
        return;
    }
    map.retain(|_, value| now.saturating_duration_since(last(value)) < age);
    if map.len() < max {
        return;
    }
    let mut times: Vec<Instant> = map.values().map(&last).collect();
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    let median = *median;
    map.retain(|_, value| last(value) > median);
}

fn about(note: &Note) -> About {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let kind = format!("{}/{}", text(&note.about.kind), text(&note.about.uid));
    (note.cluster.clone(), kind, text(&note.about.namespace), text(&note.about.name))
}

fn same(note: &Note, about: About) -> Same {
    Same { about, type_: note.type_, reason: note.reason.clone(), message: note.message.clone() }
}
