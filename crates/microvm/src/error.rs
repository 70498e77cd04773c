//! What can go wrong on the host, in words that say what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why the host could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Two providers over one state directory.
    #[error("the state directory {} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// Another process prepares the same cache for too long.
    #[error("another process has held {} for longer than {limit:?}", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long was waited.
        limit: Duration,
    },
    /// A write found the disk full.
    #[error("no space is left on the disk that holds {}", .0.display())]
    DiskFull(PathBuf),
    /// The disk would become full.
    #[error("the disk that holds {} has {free_mib} MiB free, and {needed_mib} MiB are needed", path.display())]
    LowDisk {
        /// A directory on the disk.
        path: PathBuf,
        /// What it has.
        free_mib: u64,
        /// What it must have.
        needed_mib: u64,
    },
    /// Any other trouble with a file.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot run {program}; is it installed?")]
    Program {
        /// Its name.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program ended in failure.
    #[error("{program} failed: {detail}")]
    ProgramFailed {
        /// Its name and what it was to do.
        program: String,
        /// What it said.
        detail: String,
    },
    /// The node agent is not fit to be PID 1.
    #[error("the node agent {} cannot be used: {why}", path.display())]
    Agent {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No usable kernel.
    #[error("no usable kernel: {0}")]
    Kernel(String),
    /// The kernel does not boot here.
    #[error("QEMU did not boot the kernel ({acceleration}): {detail}")]
    Boot {
        /// How it was tried.
        acceleration: &'static str,
        /// What it said.
        detail: String,
    },
    /// A request that no machine on this host can fulfil.
    #[error("the request is not valid: {0}")]
    Request(String),
    /// The runtime is going down.
    #[error("the work was cut off because the runtime is shutting down")]
    ShuttingDown,
}

impl Error {
    /// For `map_err` on a file operation; tells a full disk apart.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(path.to_owned()),
            _ => Self::File { action, path: path.to_owned(), source },
        }
    }
}
