//! `TunnelHub`: the tunnels that nodes hold open, and requests to nodes over them.

use super::StreamOptions;
use crate::connect::ConnectHandler;
use crate::request::{ClusterScope, RequestContext};
use apimachinery::status::ApiError;
use async_trait::async_trait;
use bytes::Bytes;
use controller_runtime::{Body, BoxError};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use node_api::tunnel::PROTOCOL;
use runtime::Shrink;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

const NODE_USER: &str = "system:node:";
const MAX_STATUS_BYTES: usize = 64 * 1024;

type Key = (String, String);

struct Tunnel {
    id: u64,
    sender: http2::SendRequest<Body>,
}

/// The tunnels of all nodes, by logical cluster and node.
pub struct TunnelHub {
    pub(super) options: StreamOptions,
    tunnels: Mutex<HashMap<Key, Tunnel>>,
    /// Told when a tunnel appears.
    arrived: Notify,
    next_id: AtomicU64,
}

impl std::fmt::Debug for TunnelHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TunnelHub").field("options", &self.options).finish_non_exhaustive()
    }
}

impl TunnelHub {
    /// No tunnels yet.
    #[must_use]
    pub fn new(options: StreamOptions) -> Arc<Self> {
        Arc::new(Self { options, tunnels: Mutex::default(), arrived: Notify::new(), next_id: AtomicU64::new(0) })
    }

    fn tunnels(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Tunnel>> {
        self.tunnels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sender(&self, key: &Key) -> Option<http2::SendRequest<Body>> {
        let wait = async {
            loop {
                let arrived = self.arrived.notified();
                if let Some(sender) = self.tunnels().get(key).map(|tunnel| tunnel.sender.clone())
                    && !sender.is_closed()
                {
                    return sender;
                }
                arrived.await;
            }
        };
        tokio::time::timeout(self.options.tunnel_wait, wait).await.ok()
    }

    /// Sends a request to a node and returns its answer, whose body may still be streaming.
    ///
    /// # Errors
    /// When the node has no tunnel or does not answer, in Kubernetes' words; or the `Status` that the
    /// node answered with.
    pub(super) async fn send(
        &self,
        cluster: &str,
        node: &str,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, ApiError> {
        let key = (cluster.to_owned(), node.to_owned());
        let failed = |why: &str| ApiError::internal(format!("error dialing backend: node {node:?}: {why}"));
        let mut sender = self.sender(&key).await.ok_or_else(|| failed("it has no connection to its cluster"))?;
        let answer = tokio::time::timeout(self.options.answer_timeout, sender.send_request(request)).await;
        let response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(failed(&runtime::error_chain(&error))),
            Err(_) => return Err(failed("it did not answer in time")),
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_STATUS_BYTES).collect().await;
        let body = body.map_err(|error| failed(&error.to_string()))?.to_bytes();
        let said = serde_json::from_slice::<Value>(&body).ok().and_then(|value| ApiError::from_status(&value));
        Err(said.unwrap_or_else(|| failed(&format!("{status}: {}", String::from_utf8_lossy(&body)))))
    }

    async fn serve(self: Arc<Self>, key: Key, upgrade: hyper::upgrade::OnUpgrade) -> Result<(), BoxError> {
        let connection = upgrade.await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(self.options.keep_alive_interval)
            .keep_alive_timeout(self.options.keep_alive_timeout)
            .keep_alive_while_idle(true)
            .handshake::<_, Body>(connection)
            .await?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.tunnels().insert(key.clone(), Tunnel { id, sender });
        self.arrived.notify_waiters();
        tracing::debug!(cluster = key.0, node = key.1, "tunnel opened");
        let end = connection.await;
        let mut tunnels = self.tunnels();
        if tunnels.get(&key).is_some_and(|tunnel| tunnel.id == id) {
            tunnels.remove(&key);
            tunnels.shrink_if_sparse();
        }
        drop(tunnels);
        tracing::debug!(cluster = key.0, node = key.1, "tunnel closed");
        Ok(end?)
    }
}

/// The node's end of a tunnel is an HTTP/1.1 upgrade; after it, the server is the HTTP/2 client.
#[async_trait]
impl ConnectHandler for Arc<TunnelHub> {
    async fn connect(
        &self,
        context: &RequestContext,
        _object: Value,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let ClusterScope::One(cluster) = &context.info.cluster else {
            return Err(ApiError::bad_request("a tunnel belongs to one cluster"));
        };
        let node =
            context.user.name.strip_prefix(NODE_USER).ok_or_else(|| {
                ApiError::forbidden("", "nodes", &context.user.name, "only a node may open its tunnel")
            })?;
        let wanted = request.headers().get(header::UPGRADE).and_then(|value| value.to_str().ok());
        if !wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case(PROTOCOL)) {
            return Err(ApiError::bad_request(format!("expected an upgrade to {PROTOCOL}")));
        }
        let key = (cluster.clone(), node.to_owned());
        {
            let tunnels = self.tunnels();
            if tunnels.len() >= self.options.max_tunnels && !tunnels.contains_key(&key) {
                return Err(ApiError::unavailable("too many nodes are connected"));
            }
        }
        let upgrade = hyper::upgrade::on(&mut request);
        let hub = self.clone();
        tokio::spawn(async move {
            let (cluster, node) = key.clone();
            if let Err(error) = hub.serve(key, upgrade).await {
                tracing::debug!(cluster, node, error = runtime::error_chain(&*error), "tunnel ended");
            }
        });
        Ok(switching(PROTOCOL, &[]))
    }
}

/// `101 Switching Protocols`.
pub(super) fn switching(protocol: &str, headers: &[(header::HeaderName, &str)]) -> Response<Body> {
    let mut response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, protocol);
    for (name, value) in headers {
        response = response.header(name, *value);
    }
    response.body(empty()).expect("constant headers and checked tokens make a response")
}

/// A body without bytes.
pub(super) fn empty() -> Body {
    Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync()
}
