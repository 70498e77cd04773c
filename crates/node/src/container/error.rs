//! Why a container could not be created, found or talked to.

use std::io;
use std::path::PathBuf;

/// Why an operation of the [`super::Runtime`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No container of this id.
    #[error("no container {0}")]
    NotFound(String),
    /// The container has ended.
    #[error("container {0} is not running")]
    NotRunning(String),
    /// The container's specification cannot be run, e.g. it names no command or an unknown user.
    #[error("{0}")]
    Invalid(String),
    /// The container or process could not be started, as the shim tells.
    #[error("{0}")]
    Start(String),
    /// A bound of the runtime's options was reached.
    #[error("too many {what} (limit {limit})")]
    Limit {
        /// What there are too many of.
        what: &'static str,
        /// How many are allowed.
        limit: usize,
    },
    /// It took longer than the options allow.
    #[error("timed out while {0}")]
    Timeout(&'static str),
    /// The operating system refused.
    #[error("{what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// Adds what was tried, and with which path, to an I/O error.
pub(super) trait IoContext<T> {
    /// Turns the error into [`Error::Io`].
    fn context(self, what: &'static str, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> IoContext<T> for Result<T, E> {
    fn context(self, what: &'static str, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|error| Error::Io { what, path: path.into(), source: error.into() })
    }
}
