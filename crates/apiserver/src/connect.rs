//! Subresources with a behaviour of their own: log, exec, attach, portforward, token, kubeconfig.

use crate::request::RequestContext;
use apimachinery::status::ApiError;
use async_trait::async_trait;
use controller_runtime::Body;
use serde_json::Value;

/// Serves one connect subresource of one resource.
///
/// The generic path has authenticated and authorized the request and read the object. The request
/// keeps its extensions, so `hyper::upgrade::on` works for requests that came over a connection;
/// in-process requests have no upgrade and get an error Status from handlers that need one.
#[async_trait]
pub trait ConnectHandler: Send + Sync + 'static {
    /// Answers the request for `object`, as it was when the request arrived.
    ///
    /// # Errors
    /// Becomes a `Status` response.
    async fn connect(
        &self,
        context: &RequestContext,
        object: Value,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, ApiError>;
}
