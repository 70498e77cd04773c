//! SHA-256 digests, and a reader that computes one of what passes through it.

use std::fmt;
use std::io::{self, Read};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

/// `sha256:` and 64 lower-case hexadecimal digits; never anything else, so that it is safe in a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// A digest of another form or algorithm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256 digest: {0:?}")]
pub struct InvalidDigest(String);

impl Digest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(bytes);
        Self::finish(context)
    }

    /// The digest from its 64 hexadecimal digits alone.
    pub fn from_hex(hex: &str) -> Result<Self, InvalidDigest> {
        Self::try_from(format!("sha256:{hex}"))
    }

    /// The 64 hexadecimal digits.
    pub fn hex(&self) -> &str {
        &self.0["sha256:".len()..]
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn finish(context: Context) -> Self {
        use fmt::Write;
        let mut text = String::from("sha256:");
        for byte in context.finish().as_ref() {
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        let valid = text
            .strip_prefix("sha256:")
            .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        if valid { Ok(Self(text)) } else { Err(InvalidDigest(text.chars().take(100).collect())) }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Passes bytes on, computes their digest and fails beyond a limit.
pub(super) struct DigestReader<R> {
    inner: R,
    context: Context,
    left: u64,
}

impl<R: Read> DigestReader<R> {
    pub(super) fn new(inner: R, limit: u64) -> Self {
        Self { inner, context: Context::new(&SHA256), left: limit }
    }

    /// Reads the rest, and gives the digest of everything and the inner reader.
    pub(super) fn finish(mut self) -> io::Result<(Digest, R)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((Digest::finish(self.context), self.inner))
    }
}

impl<R: Read> Read for DigestReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "larger than allowed"))?;
        self.context.update(&buffer[..count]);
        Ok(count)
    }
}
