//! Why an image is not there.

use std::io;

use super::digest::{Digest, InvalidDigest};

/// Why an operation of [`super::Images`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name of the image is not one.
    #[error("invalid reference format: {0:?}")]
    Reference(String),
    /// The store has no such image, and must not pull it.
    #[error("image {0} is not present and pulling it is not allowed")]
    NotPresent(String),
    /// No registry has it, or shows it without other credentials.
    #[error("{reference}: not found")]
    NotFound {
        /// The image.
        reference: String,
    },
    /// A registry refused the credentials, or that there were none.
    #[error("{host}: pull access denied, repository does not exist or may require authorization")]
    Denied {
        /// The registry.
        host: String,
    },
    /// A registry answered with an error.
    #[error("{host}: unexpected status {status}")]
    Status {
        /// The registry.
        host: String,
        /// HTTP status.
        status: u16,
    },
    /// A registry cannot be reached or speaks something else.
    #[error("cannot talk to {host}")]
    Connection {
        /// The registry.
        host: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Content is not what its digest says.
    #[error("content has the digest {found} instead of {expected}")]
    Digest {
        /// What it should be.
        expected: Digest,
        /// What it is.
        found: Digest,
    },
    /// A digest of a kind that cannot be checked.
    #[error(transparent)]
    InvalidDigest(#[from] InvalidDigest),
    /// A document or archive is not of the expected form.
    #[error("malformed image: {0}")]
    Malformed(String),
    /// A bound of the options was reached.
    #[error("{0} is larger than allowed")]
    TooLarge(&'static str),
    /// The disk, or an archive, cannot be read or written.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    /// Whether asking again may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Connection { .. } | Self::Io { .. } => true,
            Self::Status { status, .. } => *status >= 500 || *status == 429,
            _ => false,
        }
    }

    pub(super) fn malformed(error: impl std::fmt::Display) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// Adds what was tried to an I/O error.
pub(super) trait IoContext<T> {
    /// Turns the error into [`Error::Io`].
    fn context(self, what: &'static str) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> IoContext<T> for Result<T, E> {
    fn context(self, what: &'static str) -> Result<T, Error> {
        self.map_err(|error| Error::Io { what, source: error.into() })
    }
}
