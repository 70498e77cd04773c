//! Exec and attach: a session's streams as frames, both ways.

use super::reply::{Body, stream};
use crate::container::{Control, Session};
use bytes::{Bytes, BytesMut};
use http::Response;
use http_body_util::BodyExt;
use node_api::frame::{Channel, Frame};
use runtime::BoxError;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

/// Pieces of output that wait for a slow client.
const BACKLOG: usize = 8;
/// Bytes read at once.
const PIECE: usize = 16 * 1024;

type Sender = mpsc::Sender<Result<Bytes, BoxError>>;

/// Carries a session's streams in the body of a request and of its answer. `command` tells whether
/// the session's end says how the command ended.
pub(super) fn carry<B>(session: Session, input: B, command: bool) -> Response<Body>
where
    B: hyper::body::Body<Data = Bytes, Error: Send> + Send + Unpin + 'static,
{
    let (output, response) = stream("application/octet-stream", BACKLOG);
    tokio::spawn(async move {
        let control = session.control();
        let reading = tokio::spawn(read(input, session.stdin, control.clone()));
        let (stdout, stderr) = (session.stdout, session.stderr);
        tokio::join!(pump(stdout, Channel::Stdout, &output), pump(stderr, Channel::Stderr, &output));
        let status = tokio::select! {
            status = control.wait() => status,
            () = output.closed() => None,
        };
        let status = match status {
            Some(status) if command => end(status.code),
            Some(_) => end(0),
            None => failure("InternalError", "the command was lost track of", json!({})),
        };
        send(&output, Channel::Error, status.to_string().into()).await;
        reading.abort();
    });
    response
}

/// How a command ended, as a `Status`.
pub(super) fn end(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    let details = json!({"causes": [{"reason": "ExitCode", "message": code.to_string()}]});
    failure("NonZeroExitCode", &format!("command terminated with non-zero exit code: exit status {code}"), details)
}

fn failure(reason: &str, message: &str, details: Value) -> Value {
    json!({"metadata": {}, "status": "Failure", "reason": reason, "message": message, "details": details})
}

async fn send(output: &Sender, channel: Channel, payload: Bytes) -> bool {
    let mut bytes = BytesMut::new();
    Frame { channel, payload }.encode(&mut bytes);
    output.send(Ok(bytes.freeze())).await.is_ok()
}

/// Sends a stream until it ends. When nobody reads any more, the rest is thrown away, so that the
/// process is not blocked.
async fn pump(from: Option<impl AsyncRead + Unpin>, channel: Channel, output: &Sender) {
    let Some(mut from) = from else { return };
    let mut buffer = vec![0; PIECE];
    let mut wanted = true;
    while let Ok(length) = from.read(&mut buffer).await {
        if length == 0 {
            break;
        }
        if wanted {
            wanted = send(output, channel, Bytes::copy_from_slice(&buffer[..length])).await;
        }
    }
}

/// Takes the client's frames until it ends or breaks the format.
async fn read<B>(mut input: B, mut stdin: Option<crate::container::Writer>, control: Control)
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
{
    let mut buffer = BytesMut::new();
    while let Some(Ok(part)) = input.frame().await {
        let Ok(data) = part.into_data() else { continue };
        buffer.extend_from_slice(&data);
        loop {
            let frame = match Frame::decode(&mut buffer) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "a stream broke its format");
                    return;
                }
            };
            match frame.channel {
                Channel::Stdin => {
                    if let Some(writer) = &mut stdin
                        && (writer.write_all(&frame.payload).await.is_err() || writer.flush().await.is_err())
                    {
                        stdin = None;
                    }
                }
                Channel::Resize => {
                    if let Some((columns, rows)) = size(&frame.payload) {
                        let _ = control.resize(columns, rows);
                    }
                }
                Channel::Close if frame.payload.first() == Some(&(Channel::Stdin as u8)) => stdin = None,
                _ => {}
            }
        }
    }
}

/// Columns and rows of a resize.
pub(super) fn size(payload: &[u8]) -> Option<(u16, u16)> {
    let value: Value = serde_json::from_slice(payload).ok()?;
    let field = |name: &str| value[name].as_u64().and_then(|value| u16::try_from(value).ok());
    Some((field("Width")?, field("Height")?))
}
