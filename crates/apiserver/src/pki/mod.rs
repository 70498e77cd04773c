//! Keys and certificates: the server's own authority, one client authority per logical cluster,
//! and the key that signs ServiceAccount and join tokens.
//!
//! Everything is P-256. Private keys live in the store only; their types hide them from `Debug`.

mod authority;
mod request;
mod server_keys;
#[cfg(test)]
mod tests;

pub use authority::{Authority, Leaf};
pub use request::{RequestedKey, requested_key};
pub use server_keys::ServerKeys;
pub(crate) use server_keys::SigningKey;

/// Organisation in the name of every client authority; its common name is the logical cluster.
pub const CLIENT_AUTHORITY_ORGANISATION: &str = "socialweb-computer client CA";

/// What went wrong with a key or a certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate could not be made or signed.
    #[error("certificate: {0}")]
    Certificate(String),
    /// A certificate request is malformed, wrongly signed, or of an unsupported key type.
    #[error("certificate request: {0}")]
    Request(String),
    /// Kept key material is damaged.
    #[error("kept key material {0:?} is damaged: {1}")]
    Damaged(&'static str, String),
    /// The store failed.
    #[error("key store: {0}")]
    Store(#[from] store::Error),
}

/// A certificate, PEM.
pub(crate) fn certificate_pem(der: &[u8]) -> String {
    authority::pem("CERTIFICATE", der)
}

/// A PKCS #8 key, PEM.
pub(crate) fn key_pem(der: &[u8]) -> String {
    authority::pem("PRIVATE KEY", der)
}

impl From<rcgen::Error> for Error {
    fn from(error: rcgen::Error) -> Self {
        Self::Certificate(error.to_string())
    }
}

/// The client authority of a new logical cluster: valid for twenty years, as it ends with the
/// cluster and not by time.
///
/// # Errors
/// When the system has no randomness.
pub fn new_client_authority(cluster: &str) -> Result<Authority, Error> {
    Authority::generate(cluster, CLIENT_AUTHORITY_ORGANISATION, std::time::Duration::from_secs(20 * 365 * 86_400))
}
