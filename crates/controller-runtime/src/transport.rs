//! How a request reaches an API server: in process or over HTTP, behind one trait.

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;

/// Any error that a body or a connection ends with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A response body: whole, or a stream of watch events or log lines.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Carries requests to an API server. Paths are absolute and name their logical cluster:
/// `/clusters/<name>/api/v1/...`; `/clusters/*/...` lists or watches every cluster at once.
///
/// An in-process transport acts with the identity it was made for; an HTTP transport with its
/// client certificate or token.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Sends one request. A response of any status is `Ok`.
    ///
    /// # Errors
    /// When no response was had; whether the request took effect is then unknown.
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Body>, BoxError>;
}
