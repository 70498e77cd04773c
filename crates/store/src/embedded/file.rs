//! The store's files: the lock that keeps other processes out, and the storage below the B-trees.

use super::Options;
use crate::Error;
use redb::{BackendError, Database, StorageBackend};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

const DATA: &str = "store.redb";
const SHRUNK: &str = "store.redb.new";
const LOCK: &str = "lock";

/// The directory of a store, held by this process while the value lives.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    lock: File,
}

impl Drop for Directory {
    /// Closing alone would not do: a child process that is just being started may still hold a
    /// copy of the descriptor.
    fn drop(&mut self) {
        if let Err(cause) = self.lock.unlock() {
            tracing::warn!(%cause, path = %self.path.display(), "cannot release the store's lock");
        }
    }
}

impl Directory {
    /// Creates the directory if needed and takes its lock.
    pub(super) fn lock(path: &Path) -> Result<Self, Error> {
        let failed = |what: &str, cause: io::Error| failure(&format!("{what} in {}", path.display()), &cause);
        std::fs::create_dir_all(path).map_err(|cause| failed("cannot create the store directory", cause))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(LOCK))
            .map_err(|cause| failed("cannot open the lock file", cause))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), lock }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.display().to_string() }),
            Err(TryLockError::Error(cause)) => Err(failed("cannot take the lock", cause)),
        }
    }

    /// Removes what an interrupted shrink left behind.
    pub(super) fn clean(&self) -> Result<(), Error> {
        match std::fs::remove_file(self.path.join(SHRUNK)) {
            Ok(()) => Ok(()),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(cause) => Err(failure(&format!("cannot remove a left-over in {}", self.path.display()), &cause)),
        }
    }

    /// Opens the data file, creating an empty one if there is none.
    pub(super) fn open_data(&self, options: &Options) -> Result<OpenFile, Error> {
        let opened = OpenFile::open(&self.path.join(DATA), options.cache_bytes, options)?;
        self.sync()?;
        Ok(opened)
    }

    /// Opens the file that will replace the data file.
    pub(super) fn open_shrunk(&self, cache_bytes: usize, options: &Options) -> Result<OpenFile, Error> {
        self.clean()?;
        OpenFile::open(&self.path.join(SHRUNK), cache_bytes, options)
    }

    /// Puts the shrunk file, which must be synchronised, in the place of the data file.
    pub(super) fn replace_data(&self) -> Result<(), Error> {
        std::fs::rename(self.path.join(SHRUNK), self.path.join(DATA))
            .map_err(|cause| failure(&format!("cannot replace the data file in {}", self.path.display()), &cause))?;
        self.sync()
    }

    fn sync(&self) -> Result<(), Error> {
        File::open(&self.path)
            .and_then(|directory| directory.sync_all())
            .map_err(|cause| failure(&format!("cannot synchronise {}", self.path.display()), &cause))
    }
}

/// An open database file.
pub(super) struct OpenFile {
    pub(super) db: Database,
    file: Arc<Storage>,
    readers: Reader,
}

/// Held while a file is being read.
#[derive(Clone, Default)]
pub(super) struct Reader(Arc<()>);

impl OpenFile {
    fn open(path: &Path, cache_bytes: usize, options: &Options) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(|cause| failure(&format!("cannot open {}", path.display()), &cause))?;
        let max_bytes = options.max_file_bytes.unwrap_or(u64::MAX);
        let file = Arc::new(Storage { file, max_bytes, retired: RwLock::new(false), moved: AtomicU64::new(0) });
        let db = Database::builder()
            .set_cache_size(cache_bytes)
            .create_with_backend(Backend(file.clone()))
            .map_err(|cause| store_error("cannot open the data file", cause.into()))?;
        Ok(Self { db, file, readers: Reader::default() })
    }

    /// From now on this handle changes nothing, so the file can be opened again. Reads in
    /// progress go on.
    pub(super) fn retire(&self) {
        *self.file.retired.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// To be held as long as something is read.
    pub(super) fn reader(&self) -> Reader {
        self.readers.clone()
    }

    /// Whether nothing is being read.
    pub(super) fn is_unread(&self) -> bool {
        Arc::strong_count(&self.readers.0) == 1
    }

    /// Bytes read and written since it was opened: the cache holds no more.
    pub(super) fn moved_bytes(&self) -> u64 {
        self.file.moved.load(Ordering::Relaxed)
    }

    /// Bytes the file takes on the device.
    pub(super) fn disk_bytes(&self) -> io::Result<u64> {
        Ok(self.file.file.metadata()?.blocks() * 512)
    }
}

#[derive(Debug)]
struct Storage {
    file: File,
    max_bytes: u64,
    /// Held shared by each change, so that none is under way once it is set.
    retired: RwLock<bool>,
    /// Bytes read and written.
    moved: AtomicU64,
}

impl Storage {
    fn change<T>(&self, change: impl FnOnce() -> io::Result<T>) -> Result<T, BackendError> {
        let retired = self.retired.read().unwrap_or_else(PoisonError::into_inner);
        if *retired {
            return Err(BackendError::Io(io::Error::other("the file has been opened again elsewhere")));
        }
        change().map_err(BackendError::Io)
    }

    fn count(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// What redb reads and writes. Its own file type has no size limit and cannot be retired.
#[derive(Debug)]
struct Backend(Arc<Storage>);

impl StorageBackend for Backend {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.0.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.count(out.len());
        self.0.file.read_exact_at(out, offset)
    }

    /// A grown file has its blocks at once. So a device without room is noticed here, before
    /// anything was written, and all later writes inside the file find theirs.
    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        Ok(self.0.change(|| {
            let old = self.0.file.metadata()?.len();
            if len <= old {
                return self.0.file.set_len(len);
            }
            if len > self.0.max_bytes {
                return Err(Errno::NOSPC.into());
            }
            match fallocate(&self.0.file, FallocateFlags::empty(), 0, len) {
                Ok(()) => Ok(()),
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.0.file.set_len(len),
                Err(cause) => {
                    // Some file systems keep what they could allocate.
                    self.0.file.set_len(old)?;
                    Err(cause.into())
                }
            }
        })?)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        Ok(self.0.change(|| self.0.file.sync_data())?)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.count(data.len());
        Ok(self.0.change(|| self.0.file.write_all_at(data, offset))?)
    }
}

fn failure(what: &str, cause: &io::Error) -> Error {
    if is_out_of_space(cause) { Error::OutOfSpace } else { Error::Failed(format!("{what}: {cause}")) }
}

/// Translates a redb error, naming what was attempted.
pub(super) fn store_error(what: &str, cause: redb::Error) -> Error {
    match cause {
        redb::Error::Io(cause) => failure(what, &cause),
        cause => Error::Failed(format!("{what}: {cause}")),
    }
}

fn is_out_of_space(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}
