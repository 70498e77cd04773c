//! `exec` and `attach`: a WebSocket of the remote command protocol (v5, v4) joined to a node's frames.

use super::hub::TunnelHub;
use super::pod::{Target, flag};
use super::websocket::{self, Handshake, Socket};
use crate::connect::ConnectHandler;
use crate::request::RequestContext;
use apimachinery::status::ApiError;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use controller_runtime::{Body, BoxError};
use futures_util::stream::{self, SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use node_api::frame::{Channel, Frame};
use node_api::tunnel::ExecOptions;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Exec,
    Attach,
}

/// Serves `exec` and `attach`.
pub(super) struct Remote {
    pub(super) hub: Arc<TunnelHub>,
    pub(super) verb: Verb,
}

#[async_trait]
impl ConnectHandler for Remote {
    async fn connect(
        &self,
        context: &RequestContext,
        pod: Value,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let target = Target::of(context, &pod)?;
        let options = options(context, self.verb)?;
        let container = target.container(context.info.query("container"))?;
        let node = target.node()?;
        if !websocket::is_requested(request.headers()) {
            return Err(ApiError::bad_request(
                "you must specify at least 1 of the protocols: Upgrade request required",
            ));
        }
        let handshake = Handshake::of(&mut request, &[V5, V4])?;
        let verb = if self.verb == Verb::Exec { "exec" } else { "attach" };
        let (input, body) = mpsc::channel::<Bytes>(self.hub.options.queue);
        let body = stream::unfold(body, |mut body| async move {
            let bytes = body.recv().await?;
            Some((Ok::<_, BoxError>(hyper::body::Frame::data(bytes)), body))
        });
        let request = Request::post(target.path(verb, Some(&container), &options))
            .body(BodyExt::boxed_unsync(StreamBody::new(body)))
            .map_err(ApiError::internal)?;
        // The answer to the handshake does not wait for the node: kubectl takes a refused handshake for a
        // server without WebSockets, asks again in SPDY, and shows what comes of that. What the node
        // refuses goes the way of every end of a command.
        let response = handshake.response();
        let hub = Arc::clone(&self.hub);
        let (cluster, node) = (target.cluster.to_owned(), node.to_owned());
        tokio::spawn(async move {
            let limits = hub.options;
            let v5 = handshake.protocol == V5;
            let end = async {
                let answer = hub.send(&cluster, &node, request).await;
                let socket = handshake.socket(limits.max_message_bytes).await?;
                match answer {
                    Ok(answer) => join(socket, input, answer.into_body(), v5, limits.idle_timeout).await,
                    Err(why) => refuse(socket, &why).await,
                }
            };
            if let Err(error) = end.await {
                tracing::debug!(error = runtime::error_chain(&*error), "a remote command's connection ended");
            }
        });
        Ok(response)
    }
}

/// Reads `PodExecOptions` or `PodAttachOptions` from the query.
fn options(context: &RequestContext, verb: Verb) -> Result<ExecOptions, ApiError> {
    let command: Vec<String> =
        context.info.query.iter().filter(|(name, _)| name == "command").map(|(_, value)| value.clone()).collect();
    let options = ExecOptions {
        stdin: flag(context, "stdin"),
        stdout: flag(context, "stdout"),
        stderr: flag(context, "stderr"),
        tty: flag(context, "tty"),
        command: if verb == Verb::Exec { command } else { Vec::new() },
    };
    if verb == Verb::Exec && options.command.is_empty() {
        return Err(ApiError::bad_request("you must specify at least one command for the container"));
    }
    if !(options.stdin || options.stdout || options.stderr) {
        return Err(ApiError::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    if options.tty && options.stderr {
        return Err(ApiError::bad_request("tty and stderr cannot both be true"));
    }
    Ok(options)
}

/// Ends the connection with the reason why no command runs.
async fn refuse(mut socket: Socket, why: &ApiError) -> Result<(), BoxError> {
    let mut message = vec![Channel::Error as u8];
    serde_json::to_writer(&mut message, &why.to_status())?;
    socket.send(Message::Binary(message.into())).await?;
    let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    socket.send(Message::Close(Some(close))).await?;
    Ok(socket.close(None).await?)
}

/// Joins both sides until the command has ended or the client has gone.
async fn join(
    socket: Socket,
    input: mpsc::Sender<Bytes>,
    output: Incoming,
    v5: bool,
    idle: std::time::Duration,
) -> Result<(), BoxError> {
    let (sink, source) = socket.split();
    // The command's end ends the connection; the client's end drops both sides, which ends the
    // node's side of the stream.
    tokio::select! {
        end = to_client(sink, output, idle) => end,
        end = to_node(source, input, v5) => match end {
            Ok(never) => match never {},
            Err(error) => Err(error),
        },
    }
}

async fn to_node(
    mut source: SplitStream<Socket>,
    input: mpsc::Sender<Bytes>,
    v5: bool,
) -> Result<std::convert::Infallible, BoxError> {
    loop {
        let message = source.next().await.ok_or("the client closed the connection")??;
        let data = match message {
            Message::Binary(data) => data,
            Message::Text(text) => Bytes::from(text),
            Message::Close(_) => return Err("the client closed the connection".into()),
            _ => continue,
        };
        let Some((&channel, _)) = data.split_first() else { continue };
        let channel = match channel {
            0 => Channel::Stdin,
            4 => Channel::Resize,
            255 if v5 => Channel::Close,
            _ => continue,
        };
        let payload = data.slice(1..);
        // An empty message on a stream says nothing.
        if payload.is_empty() {
            continue;
        }
        let mut bytes = BytesMut::with_capacity(payload.len() + 5);
        Frame { channel, payload }.encode(&mut bytes);
        if input.send(bytes.freeze()).await.is_err() {
            // The command no longer reads; its end comes over the other direction.
            std::future::pending::<()>().await;
        }
    }
}

async fn to_client(
    mut sink: SplitSink<Socket, Message>,
    mut output: Incoming,
    idle: std::time::Duration,
) -> Result<(), BoxError> {
    let mut buffer = BytesMut::new();
    loop {
        while let Some(frame) = Frame::decode(&mut buffer)? {
            let mut message = BytesMut::with_capacity(frame.payload.len() + 1);
            message.extend_from_slice(&[frame.channel as u8]);
            message.extend_from_slice(&frame.payload);
            let last = frame.channel == Channel::Error;
            sink.send(Message::Binary(message.freeze())).await?;
            if last {
                let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
                sink.send(Message::Close(Some(close))).await?;
                return Ok(sink.close().await?);
            }
        }
        let next = tokio::time::timeout(idle, output.frame()).await.map_err(|_| "idle for too long")?;
        match next {
            Some(frame) => {
                if let Ok(data) = frame?.into_data() {
                    buffer.extend_from_slice(&data);
                }
            }
            None => {
                let close = CloseFrame { code: CloseCode::Error, reason: "the node ended the stream".into() };
                sink.send(Message::Close(Some(close))).await?;
                return Err("the node ended the stream without a status".into());
            }
        }
    }
}
