//! A revisioned key-value store behind one trait, and its drivers.
//!
//! The control plane keeps everything it knows here. The trait is the contract; every driver
//! passes [`conformance`]. The default driver is [`embedded`]: one durable file, no server.

pub mod conformance;
pub mod embedded;
pub mod memory;
mod model;
mod validate;
mod watch;

pub use embedded::Embedded;
pub use memory::Memory;
pub use model::*;
pub use watch::WatchOptions;

use async_trait::async_trait;

/// A revisioned, ordered key-value store with atomic transactions and gap-free watches.
///
/// **Revisions** are store-wide: every committed transaction that changes something takes the
/// next one, and every change in it carries that revision. A transaction that changes nothing
/// takes none.
///
/// **Durability**: [`Store::commit`] returns only when the transaction is on stable storage. A
/// dropped future leaves the outcome unknown to the caller, never half applied.
///
/// **Consistency**: a read without a revision sees every transaction acknowledged before it.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Reads one key, now or as it was at a revision.
    ///
    /// # Errors
    /// [`Error::Compacted`] or [`Error::Future`] when `at` cannot be served.
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Option<Entry>, Error>;

    /// Reads keys of a range in ascending order, from one snapshot.
    ///
    /// # Errors
    /// [`Error::Compacted`] or [`Error::Future`] when `options.at` cannot be served.
    async fn range(&self, range: &KeyRange, options: RangeOptions) -> Result<RangeResult, Error>;

    /// Applies all operations at one revision if every condition holds, else changes nothing.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] when the disk is full: nothing was applied and the store goes on
    /// serving reads. A failed condition is not an error, see [`Commit::Conflict`].
    async fn commit(&self, txn: Txn) -> Result<Commit, Error>;

    /// Streams changes to a range with revision greater than `after`, in revision order, without
    /// gap or duplicate.
    ///
    /// A consumer slower than the bounded buffer is cut off: its stream ends with
    /// [`Error::WatchLagged`] and it must list again.
    ///
    /// One [`WatchItem::Progress`] follows as soon as the watch has caught up, and further ones
    /// arrive from time to time while nothing in the range changes.
    ///
    /// # Errors
    /// [`Error::Compacted`] when changes after `after` are no longer kept, [`Error::Future`] when
    /// `after` has not happened.
    async fn watch(&self, range: &KeyRange, after: Revision) -> Result<WatchStream, Error>;

    /// Forgets history older than `revision`; the live value of each key is always kept. A
    /// revision that is forgotten already changes nothing.
    ///
    /// # Errors
    /// [`Error::Future`] when `revision` is beyond the current one.
    async fn compact(&self, revision: Revision) -> Result<(), Error>;

    /// The newest acknowledged revision.
    fn revision(&self) -> Revision;

    /// The oldest revision that can still be read or watched from.
    fn compacted(&self) -> Revision;
}
