//! Gives file space back: copies the content to a new file that replaces the old one.
//!
//! Readers and watches go on with the old file meanwhile, and a crash leaves either file whole.
//! The copy is given up as soon as a write arrives, and tried again at the next quiet time.

use super::file::{Directory, OpenFile, store_error};
use super::schema::{HISTORY, LIVE, LOG, META, State};
use super::shared::Shared;
use super::writer::begin;
use crate::Error;
use redb::{Key, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, Value, WriteTransaction};

/// The copy needs few pages at once.
const COPY_CACHE_BYTES: usize = 8 << 20;
/// Entries copied between two looks at whether someone wants to write.
const COPY_STEP: usize = 256;

/// Decides when a copy is worth while.
#[derive(Default)]
pub(super) struct Shrinker {
    /// Bytes of file per copy result: no second copy before the file has grown again.
    floor: u64,
}

impl Shrinker {
    /// Shrinks the file if it is much larger than its content.
    pub(super) fn run(
        &mut self,
        shared: &Shared,
        directory: &Directory,
        interrupted: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let options = &shared.options;
        let Ok(old) = shared.file() else { return Ok(()) };
        let size = disk_bytes(&old)?;
        if size <= options.shrink_min_bytes.max(self.floor) {
            return Ok(());
        }
        let read = old.db.begin_read().map_err(|cause| failed(cause.into()))?;
        let state =
            read.open_table(META).map_err(redb::Error::from).and_then(|meta| State::load(&meta)).map_err(failed)?;
        let content = state.live_bytes + state.history_bytes;
        if size <= content.saturating_mul(options.shrink_ratio) {
            return Ok(());
        }
        // Whatever comes of it, do not try again at the same size.
        self.floor = size;
        let copied = directory
            .open_shrunk(COPY_CACHE_BYTES.min(options.cache_bytes), options)
            .and_then(|new| copy(&read, &new, &interrupted).map_err(failed));
        drop(read);
        match copied {
            Ok(true) => {}
            Ok(false) => {
                self.floor = 0;
                return directory.clean();
            }
            Err(why) => {
                directory.clean()?;
                return Err(why);
            }
        }
        let replaced = directory.replace_data();
        // Whether or not the replacement is durable, writing goes on in the file that now has
        // the name. Nobody but this thread writes, so nothing was missed by the copy.
        old.retire();
        let new = directory.open_data(options);
        let shrunk = new.as_ref().map_err(Error::clone).and_then(disk_bytes);
        shared.replace(new);
        replaced?;
        let shrunk = shrunk?;
        self.floor = shrunk.saturating_mul(2);
        tracing::info!(from = size, to = shrunk, content, "shrank the store's file");
        Ok(())
    }
}

fn disk_bytes(file: &OpenFile) -> Result<u64, Error> {
    file.disk_bytes().map_err(|cause| Error::Failed(format!("cannot examine the data file: {cause}")))
}

fn failed(cause: redb::Error) -> Error {
    store_error("cannot copy the data file", cause)
}

/// Copies everything; `false` when interrupted.
fn copy(from: &ReadTransaction, to: &OpenFile, interrupted: &impl Fn() -> bool) -> Result<bool, redb::Error> {
    let txn = begin(to)?;
    let whole = copy_table(from, &txn, LIVE, interrupted)?
        && copy_table(from, &txn, LOG, interrupted)?
        && copy_table(from, &txn, HISTORY, interrupted)?
        && copy_table(from, &txn, META, interrupted)?;
    if whole {
        txn.commit()?;
    } else {
        txn.abort()?;
    }
    Ok(whole)
}

fn copy_table<K: Key + 'static, V: Value + 'static>(
    from: &ReadTransaction,
    to: &WriteTransaction,
    table: TableDefinition<'static, K, V>,
    interrupted: &impl Fn() -> bool,
) -> Result<bool, redb::Error> {
    let source = from.open_table(table)?;
    let mut target = to.open_table(table)?;
    for (count, item) in source.iter()?.enumerate() {
        if count % COPY_STEP == 0 && interrupted() {
            return Ok(false);
        }
        let (key, value) = item?;
        target.insert(key.value(), value.value())?;
    }
    Ok(true)
}
