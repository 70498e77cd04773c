//! Expiry: Events go some time after they were last written, as with kube-apiserver's `--event-ttl`.
//!
//! The stored form of an Event says when it was written. A sweep reads all of them in steps of bounded
//! size and removes those that are too old; nothing is kept in memory but where it is, so a restart
//! loses nothing, and there is one sweep for all clusters.

use super::value::{Object, Stored};
use super::{Registry, failure, keys};
use apimachinery::definition::GroupResource;
use apimachinery::status::ApiError;
use bytes::Bytes;
use jiff::Timestamp;
use std::num::NonZeroUsize;
use store::{Commit, Condition, Entry, KeyRange, Op, RangeOptions, Txn};

/// The stored field, beside those that selectors read, of when an object was written.
const WRITTEN: &str = "written";

/// How far a sweep is.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Where the next step begins; at the first key if empty.
    from: Bytes,
    /// When the oldest of the objects was written that were read and stay.
    oldest: Option<Timestamp>,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Objects removed.
    pub(crate) removed: usize,
    /// Whether the step was the sweep's last; the next one begins anew.
    pub(crate) last: bool,
    /// After the last step: when the oldest object that stays was written.
    pub(crate) oldest: Option<Timestamp>,
}

/// Whether objects of a kind expire.
pub(super) fn expires(resource: &GroupResource) -> bool {
    resource.group.is_empty() && resource.resource == "events"
}

/// The stored field of an object that is written now.
pub(super) fn written_now() -> (&'static str, String) {
    (WRITTEN, Timestamp::now().as_nanosecond().to_string())
}

fn written(object: &Object) -> Option<Timestamp> {
    Timestamp::from_nanosecond(object.field(WRITTEN)?.parse().ok()?).ok()
}

impl Registry {
    /// One step of a sweep: reads at most the options' `expire_entries` Events and removes those that
    /// were last written at `until` or before.
    ///
    /// # Errors
    /// When the store fails; the same step can be tried again.
    pub(crate) async fn expire(&self, sweep: &mut Sweep, until: Timestamp) -> Result<Step, ApiError> {
        let events = GroupResource { group: String::new(), resource: "events".into() };
        let mut range = KeyRange::prefix(keys::kind(&events));
        if !sweep.from.is_empty() {
            range.start = sweep.from.clone();
        }
        let limit = NonZeroUsize::new(self.options().expire_entries.max(1));
        let found = self.store().range(&range, RangeOptions { at: None, limit }).await.map_err(failure)?;
        let (mut old, mut oldest) = (Vec::new(), sweep.oldest);
        for entry in &found.entries {
            // One that is damaged is told, and must not stop the others.
            let Ok(Some(object)) = Stored::decode(&entry.value).map(Stored::object) else { continue };
            match written(&object) {
                Some(at) if at <= until => old.push(entry),
                Some(at) => oldest = Some(oldest.map_or(at, |oldest| oldest.min(at))),
                None => {}
            }
        }
        let removed = self.remove_unchanged(old).await?;
        let last = !found.more;
        *sweep = match found.entries.last().filter(|_| !last) {
            // The key after it.
            Some(entry) => Sweep { from: [&entry.key[..], &[0]].concat().into(), oldest },
            None => Sweep::default(),
        };
        Ok(Step { removed, last, oldest: oldest.filter(|_| last) })
    }

    /// Removes entries at once, but none that was written since it was read. Returns how many went.
    async fn remove_unchanged(&self, mut entries: Vec<&Entry>) -> Result<usize, ApiError> {
        while !entries.is_empty() {
            let txn = Txn {
                conditions: entries.iter().map(|e| (e.key.clone(), Condition::ModifiedAt(e.modified))).collect(),
                ops: entries.iter().map(|entry| Op::Delete { key: entry.key.clone() }).collect(),
            };
            match self.store().commit(txn).await.map_err(failure)? {
                Commit::Done { .. } => return Ok(entries.len()),
                Commit::Conflict { key, .. } => entries.retain(|entry| entry.key != key),
            }
        }
        Ok(0)
    }
}
