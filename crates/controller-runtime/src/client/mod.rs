//! `Client`: typed and dynamic access to the objects of one logical cluster.

mod error;
mod options;
mod resource;
mod typed;

pub use error::ClientError;
pub use options::{ClientOptions, DeleteOptions, ListOptions, Patch, Preconditions, Propagation};
pub use resource::ResourceClient;

use crate::kind::encode;
use crate::{ApiKind, ApiResource, Body, Transport};
use apimachinery::status::ApiError;
use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// A client for one logical cluster, or for every one (list and watch only). Cheap to clone.
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    cluster: Arc<str>,
    options: ClientOptions,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// What a client sends, before it is addressed to its logical cluster.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    /// Below `/clusters/<name>`, with query.
    pub(crate) path: String,
    pub(crate) content_type: &'a str,
    pub(crate) accept: &'a str,
    pub(crate) body: Bytes,
}

impl Call<'_> {
    pub(crate) fn new(method: Method, path: String, body: Bytes) -> Self {
        Self { method, path, content_type: "application/json", accept: "application/json", body }
    }
}

impl Client {
    /// A client for the logical cluster of that name.
    pub fn new(transport: Arc<dyn Transport>, cluster: impl Into<Arc<str>>) -> Self {
        Self::with_options(transport, cluster, ClientOptions::default())
    }

    /// [`Client::new`] with other limits.
    pub fn with_options(transport: Arc<dyn Transport>, cluster: impl Into<Arc<str>>, options: ClientOptions) -> Self {
        Self { transport, cluster: cluster.into(), options }
    }

    /// A client that lists and watches every logical cluster at once.
    pub fn every(transport: Arc<dyn Transport>) -> Self {
        Self::new(transport, "*")
    }

    /// The same transport and limits for another logical cluster.
    #[must_use]
    pub fn cluster(&self, cluster: impl Into<Arc<str>>) -> Self {
        Self { transport: self.transport.clone(), cluster: cluster.into(), options: self.options }
    }

    /// The logical cluster; `*` is every one.
    #[must_use]
    pub fn cluster_name(&self) -> &Arc<str> {
        &self.cluster
    }

    /// The client's limits.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// The objects of a kind known at compile time.
    #[must_use]
    pub fn resource<K: ApiResource>(&self) -> ResourceClient<'_, K> {
        ResourceClient::new(self, ApiKind::of::<K>())
    }

    /// The objects of a kind known at run time, as JSON values.
    #[must_use]
    pub fn dynamic(&self, kind: ApiKind) -> ResourceClient<'_, Value> {
        ResourceClient::new(self, kind)
    }

    /// Sends a request as it is, below `/clusters/<name>`, and returns whatever the answer is.
    ///
    /// # Errors
    /// When there was no answer in time.
    pub async fn raw(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Response<Body>, ClientError> {
        self.send(&Call { method, path: path.to_owned(), content_type, accept: "application/json", body }).await
    }

    /// Gets a path below `/clusters/<name>` and decodes its JSON answer.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(&Call::new(Method::GET, path.to_owned(), Bytes::new())).await
    }

    /// Gets a path below `/clusters/<name>` as text, such as a container's log.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_text(&self, path: &str) -> Result<String, ClientError> {
        let bytes = self.bytes(&Call::new(Method::GET, path.to_owned(), Bytes::new())).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sends a call and returns the head of the answer, of any status.
    pub(crate) async fn send(&self, call: &Call<'_>) -> Result<Response<Body>, ClientError> {
        let cluster = if &*self.cluster == "*" { "*".into() } else { encode(&self.cluster) };
        let uri = format!("/clusters/{cluster}{}", call.path);
        let failed = |source| ClientError::Transport { method: call.method.clone(), path: uri.clone(), source };
        let request = Request::builder()
            .method(&call.method)
            .uri(&uri)
            .header(header::ACCEPT, call.accept)
            .header(header::CONTENT_TYPE, call.content_type)
            .body(call.body.clone())
            .map_err(|error| failed(error.into()))?;
        match tokio::time::timeout(self.options.request_timeout, self.transport.send(request)).await {
            Ok(answer) => answer.map_err(failed),
            Err(_) => Err(ClientError::Timeout {
                method: call.method.clone(),
                path: uri,
                limit: self.options.request_timeout,
            }),
        }
    }

    /// Sends a call and returns the body of a successful answer.
    pub(crate) async fn bytes(&self, call: &Call<'_>) -> Result<Bytes, ClientError> {
        let response = self.send(call).await?;
        let status = response.status();
        let read = read_whole(response.into_body(), self.options.max_response_bytes);
        let bytes = match tokio::time::timeout(self.options.request_timeout, read).await {
            Ok(Ok(body)) => body,
            Ok(Err(source)) => {
                return Err(ClientError::Transport { method: call.method.clone(), path: call.path.clone(), source });
            }
            Err(_) => {
                return Err(ClientError::Timeout {
                    method: call.method.clone(),
                    path: call.path.clone(),
                    limit: self.options.request_timeout,
                });
            }
        };
        if status.is_success() { Ok(bytes) } else { Err(ClientError::Api(api_error(status, &bytes))) }
    }

    /// Sends a call and decodes the body of a successful answer.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<T, ClientError> {
        let bytes = self.bytes(call).await?;
        serde_json::from_slice(&bytes).map_err(|source| ClientError::Decode {
            method: call.method.clone(),
            path: call.path.clone(),
            source,
        })
    }
}

/// Reads a body of at most `max_bytes`. (`http_body_util::Limited` would do, but the compiler cannot
/// show that it is `Send` for every lifetime, which every future that uses a client would inherit.)
async fn read_whole(mut body: Body, max_bytes: usize) -> Result<Bytes, crate::BoxError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if whole.len() + data.len() > max_bytes {
            return Err(format!("the answer is longer than {max_bytes} bytes").into());
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// Reads an unsuccessful answer: a `Status`, or whatever a proxy in between said.
pub(crate) fn api_error(status: http::StatusCode, body: &[u8]) -> ApiError {
    const SHOWN: usize = 200;
    serde_json::from_slice::<Value>(body).ok().and_then(|value| ApiError::from_status(&value)).unwrap_or_else(|| {
        let text: String = String::from_utf8_lossy(body).trim().chars().take(SHOWN).collect();
        let reason = status.canonical_reason().unwrap_or("Unknown").replace(' ', "");
        ApiError::new(
            status.as_u16(),
            &reason,
            if text.is_empty() { format!("the server answered {status}") } else { text },
        )
    })
}

#[cfg(test)]
mod tests;
