//! `portforward`: pairs of SPDY streams, each joined to a connection to a port of the Pod.

use super::hub::{TunnelHub, switching};
use super::pod::Target;
use super::spdy::{Session, SpdyStream};
use super::websocket::{self, Handshake, Socket};
use crate::connect::ConnectHandler;
use crate::request::RequestContext;
use apimachinery::status::ApiError;
use async_trait::async_trait;
use bytes::Bytes;
use controller_runtime::{Body, BoxError};
use futures_util::{SinkExt, StreamExt, stream};
use http::{HeaderName, Request, Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_tungstenite::tungstenite::Message;

use serde_json::Value;

/// Subprotocol of a WebSocket that carries SPDY (KEP-4006).
const TUNNELLED: &str = "SPDY/3.1+portforward.k8s.io";
const SPDY: &str = "SPDY/3.1";
const PROTOCOL: &str = "portforward.k8s.io";
const PROTOCOL_HEADER: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const PIPE: usize = 64 * 1024;

pub(super) struct PortForward(pub(super) Arc<TunnelHub>);

/// Where one client's forwards go.
struct Destination {
    hub: Arc<TunnelHub>,
    cluster: String,
    node: String,
    /// `/portforward/<ns>/<pod>/<uid>`
    path: String,
    pod: String,
}

#[async_trait]
impl ConnectHandler for PortForward {
    async fn connect(
        &self,
        context: &RequestContext,
        pod: Value,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let target = Target::of(context, &pod)?;
        let destination = Arc::new(Destination {
            hub: self.0.clone(),
            cluster: target.cluster.to_owned(),
            node: target.node()?.to_owned(),
            path: format!("/portforward/{}/{}/{}", target.namespace, target.name, target.uid),
            pod: target.name.to_owned(),
        });
        let limits = self.0.options;
        if websocket::is_requested(request.headers()) {
            let handshake = Handshake::of(&mut request, &[TUNNELLED])?;
            let response = handshake.response();
            spawn(async move {
                let socket = handshake.socket(limits.max_message_bytes).await?;
                let (ours, theirs) = tokio::io::duplex(PIPE);
                tokio::select! {
                    end = pump(socket, theirs) => end,
                    end = destination.serve(ours) => end,
                }
            });
            return Ok(response);
        }
        let text = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
        if !text(header::UPGRADE).is_some_and(|value| value.eq_ignore_ascii_case(SPDY)) {
            return Err(ApiError::bad_request("Upgrade request required"));
        }
        if text(PROTOCOL_HEADER).is_some_and(|value| value.split(',').all(|one| one.trim() != PROTOCOL)) {
            return Err(ApiError::new(
                403,
                "Forbidden",
                format!("unable to negotiate protocol: server supports [{PROTOCOL}]"),
            ));
        }
        let upgrade = hyper::upgrade::on(&mut request);
        spawn(async move { destination.serve(TokioIo::new(upgrade.await?)).await });
        Ok(switching(SPDY, &[(PROTOCOL_HEADER, PROTOCOL)]))
    }
}

fn spawn(work: impl Future<Output = Result<(), BoxError>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = work.await {
            tracing::debug!(error = runtime::error_chain(&*error), "a port-forward's connection ended");
        }
    });
}

/// Carries the bytes of a WebSocket's messages both ways.
async fn pump(socket: Socket, pipe: DuplexStream) -> Result<(), BoxError> {
    let (mut sink, mut source) = socket.split();
    let (mut reader, mut writer) = tokio::io::split(pipe);
    let inward = async {
        while let Some(message) = source.next().await {
            match message? {
                Message::Binary(data) => writer.write_all(&data).await?,
                Message::Close(_) => break,
                _ => {}
            }
        }
        Ok(())
    };
    let outward = async {
        let mut buffer = vec![0; PIPE];
        loop {
            let read = reader.read(&mut buffer).await?;
            if read == 0 {
                sink.close().await?;
                return Ok(());
            }
            sink.send(Message::Binary(Bytes::copy_from_slice(&buffer[..read]))).await?;
        }
    };
    tokio::select! { end = inward => end, end = outward => end }
}

impl Destination {
    /// Serves one client's SPDY connection.
    async fn serve<IO>(self: Arc<Self>, io: IO) -> Result<(), BoxError>
    where
        IO: tokio::io::AsyncRead + tokio::io::AsyncWrite,
    {
        let limits = self.hub.options;
        let (accept, mut accepted) = mpsc::channel::<SpdyStream>(limits.queue);
        let session = Session { max_streams: 2 * limits.max_forwards, queue: limits.queue, idle: limits.idle_timeout };
        let forwards = Arc::new(Semaphore::new(limits.max_forwards));
        let mut tasks = tokio::task::JoinSet::new();
        let dispatch = async {
            // The error stream of a pair comes first.
            let mut waiting: HashMap<String, SpdyStream> = HashMap::new();
            while let Some(stream) = accepted.recv().await {
                let id = stream.header("requestid").or(stream.header("port")).unwrap_or_default().to_owned();
                match stream.header("streamtype") {
                    Some("error") if waiting.len() < limits.max_forwards => {
                        waiting.insert(id, stream);
                    }
                    Some("data") => {
                        let Some(error) = waiting.remove(&id) else {
                            stream.output().finish().await;
                            continue;
                        };
                        let permit = forwards.clone().acquire_owned().await?;
                        let this = self.clone();
                        tasks.spawn(async move {
                            this.forward(stream, error).await;
                            drop(permit);
                        });
                        while tasks.try_join_next().is_some() {}
                    }
                    _ => stream.output().finish().await,
                }
            }
            Ok::<(), BoxError>(())
        };
        // Leaving drops the tasks, which closes their connections.
        tokio::select! { end = session.serve(io, accept) => end, end = dispatch => end }
    }

    /// One connection to a port.
    async fn forward(&self, data: SpdyStream, error: SpdyStream) {
        let output = data.output();
        let said = match self.join(data).await {
            Ok(()) => None,
            Err(why) => Some(why),
        };
        output.finish().await;
        let errors = error.output();
        if let Some(why) = said {
            errors.send(Bytes::from(format!("error forwarding port to pod {}: {}", self.pod, why.message))).await;
        }
        errors.finish().await;
    }

    async fn join(&self, data: SpdyStream) -> Result<(), ApiError> {
        let port = data.header("port").and_then(|port| port.parse::<u16>().ok()).filter(|port| *port > 0);
        let port = port.ok_or_else(|| ApiError::bad_request("the port header is not a port"))?;
        let output = data.output();
        let input = stream::unfold(data.input, |mut input| async move {
            let bytes = input.recv().await?;
            Some((Ok::<_, BoxError>(hyper::body::Frame::data(bytes)), input))
        });
        let request = Request::post(format!("{}?port={port}", self.path))
            .body(BodyExt::boxed_unsync(StreamBody::new(input)))
            .map_err(ApiError::internal)?;
        let mut answer = self.hub.send(&self.cluster, &self.node, request).await?.into_body();
        while let Some(frame) = answer.frame().await {
            if let Ok(bytes) = frame.map_err(ApiError::internal)?.into_data() {
                if !output.send(bytes).await {
                    break;
                }
            }
        }
        Ok(())
    }
}
