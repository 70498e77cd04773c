//! Answers the API server's requests: logs, exec, attach, port forwards, health.

// Errors are whole answers.
#![allow(clippy::result_large_err)]

use super::reply::{Body, error, stream, whole};
use super::route::{Place, Route, options, parameter, route};
use super::{dial, frames};
use crate::container::{ExecSpec, Runtime, logs};
use crate::pod::views::{ContainerView, PodView, Views};
use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use node_api::tunnel::{ExecOptions, LogOptions};
use std::path::PathBuf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Pieces of output that wait for a slow client.
const BACKLOG: usize = 8;
/// Bytes forwarded at once.
const PIECE: usize = 16 * 1024;

/// What requests are answered from. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Streams {
    pub(crate) runtime: Runtime,
    pub(crate) views: Views,
    pub(crate) log_root: PathBuf,
}

type Answer = Result<Response<Body>, Response<Body>>;

impl Streams {
    /// Answers one request.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes, Error: Send> + Send + Unpin + 'static,
    {
        let (parts, body) = request.into_parts();
        let query = parts.uri.query();
        let answer = match route(parts.uri.path()) {
            Some(Route::Health) => Ok(whole(StatusCode::OK, "text/plain", "ok")),
            Some(Route::Logs(place)) => self.logs(&place, query).await,
            Some(Route::Exec(place)) => self.exec(&place, query, body).await,
            Some(Route::Attach(place)) => self.attach(&place, query, body),
            Some(Route::PortForward(place)) => self.forward(&place, query, body).await,
            None => Err(error(404, "NotFound", "the node has no such path")),
        };
        answer.unwrap_or_else(|error| error)
    }

    fn find(&self, place: &Place) -> Result<PodView, Response<Body>> {
        self.views.get(&place.namespace, &place.pod, &place.uid).ok_or_else(|| {
            error(
                404,
                "NotFound",
                format!("pod {:?} is not on this node", format!("{}_{}", place.pod, place.namespace)),
            )
        })
    }

    fn container(&self, place: &Place) -> Result<ContainerView, Response<Body>> {
        self.find(place)?.containers.get(&place.container).cloned().ok_or_else(|| {
            error(400, "BadRequest", format!("container {} is not valid for pod {}", place.container, place.pod))
        })
    }

    fn running(&self, place: &Place) -> Result<(String, ContainerView), Response<Body>> {
        let view = self.container(place)?;
        match view.id.clone() {
            Some(id) => Ok((id, view)),
            None => Err(error(400, "BadRequest", format!("container not found ({:?})", place.container))),
        }
    }

    async fn logs(&self, place: &Place, query: Option<&str>) -> Answer {
        let bad = |message: String| error(400, "BadRequest", message);
        let view = self.container(place)?;
        let wanted: LogOptions = options(query).map_err(bad)?;
        let (container, pod) = (&place.container, &place.pod);
        let attempt = if wanted.previous {
            view.attempt
                .checked_sub(1)
                .ok_or_else(|| bad(format!("previous terminated container {container:?} in pod {pod:?} not found")))?
        } else if view.begun {
            view.attempt
        } else {
            return Err(bad(format!("container {container:?} in pod {pod:?} is waiting to start: ContainerCreating")));
        };
        let since = match (wanted.since_seconds, &wanted.since_time) {
            (Some(seconds), _) => {
                let seconds = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
                Timestamp::now().checked_sub(seconds).ok()
            }
            (None, Some(time)) => Some(time.parse().map_err(|error| bad(format!("bad sinceTime: {error}")))?),
            (None, None) => None,
        };
        let read = logs::LogOptions {
            follow: wanted.follow,
            tail_lines: wanted.tail_lines,
            since,
            timestamps: wanted.timestamps,
            limit_bytes: wanted.limit_bytes,
            stream: None,
        };
        let path = logs::path(&self.log_root, &place.namespace, pod, &place.uid, container, attempt);
        let id = if wanted.previous { None } else { view.id.as_deref() };
        let mut lines = self
            .runtime
            .logs(&path, id, read)
            .await
            .map_err(|failure| error(500, "InternalError", format!("cannot read the log: {failure}")))?;
        let (sender, response) = stream("text/plain", BACKLOG);
        tokio::spawn(async move {
            loop {
                let piece = tokio::select! {
                    piece = lines.next() => piece,
                    () = sender.closed() => return,
                };
                let Some(piece) = piece else { return };
                if sender.send(piece.map_err(Into::into)).await.is_err() {
                    return;
                }
            }
        });
        Ok(response)
    }

    async fn exec<B>(&self, place: &Place, query: Option<&str>, body: B) -> Answer
    where
        B: hyper::body::Body<Data = Bytes, Error: Send> + Send + Unpin + 'static,
    {
        let wanted: ExecOptions = options(query).map_err(|message| error(400, "BadRequest", message))?;
        let (id, _) = self.running(place)?;
        let spec = ExecSpec { command: wanted.command, tty: wanted.tty, stdin: wanted.stdin };
        let mut session = self
            .runtime
            .exec(&id, &spec)
            .await
            .map_err(|failure| error(500, "InternalError", runtime::error_chain(&failure).to_string()))?;
        drop_unwanted(&mut session, wanted.stdout, wanted.stderr);
        Ok(frames::carry(session, body, true))
    }

    fn attach<B>(&self, place: &Place, query: Option<&str>, body: B) -> Answer
    where
        B: hyper::body::Body<Data = Bytes, Error: Send> + Send + Unpin + 'static,
    {
        let wanted: ExecOptions = options(query).map_err(|message| error(400, "BadRequest", message))?;
        let (id, view) = self.running(place)?;
        let mut session = self
            .runtime
            .attach(&id, wanted.stdin && view.stdin)
            .map_err(|failure| error(500, "InternalError", runtime::error_chain(&failure).to_string()))?;
        drop_unwanted(&mut session, wanted.stdout, wanted.stderr);
        Ok(frames::carry(session, body, false))
    }

    async fn forward<B>(&self, place: &Place, query: Option<&str>, mut body: B) -> Answer
    where
        B: hyper::body::Body<Data = Bytes, Error: Send> + Send + Unpin + 'static,
    {
        let view = self.find(place)?;
        let port: u16 = parameter(query, "port")
            .and_then(|port| port.parse().ok())
            .ok_or_else(|| error(400, "BadRequest", "the port is missing or not a number"))?;
        let connection = dial::connect(view.namespace_file, port).await.map_err(|failure| {
            error(502, "InternalError", format!("failed to connect to localhost:{port} inside the pod: {failure}"))
        })?;
        let (mut from, mut to) = connection.into_split();
        let (sender, response) = stream("application/octet-stream", BACKLOG);
        let inbound = tokio::spawn(async move {
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(data) = frame.into_data() else { continue };
                if to.write_all(&data).await.is_err() {
                    return;
                }
            }
            let _ = to.shutdown().await;
        });
        tokio::spawn(async move {
            let mut buffer = vec![0; PIECE];
            loop {
                let read = tokio::select! {
                    read = from.read(&mut buffer) => read,
                    () = sender.closed() => break,
                };
                match read {
                    Ok(0) => break,
                    Ok(length) => {
                        if sender.send(Ok(Bytes::copy_from_slice(&buffer[..length]))).await.is_err() {
                            break;
                        }
                    }
                    Err(failure) => {
                        let _ = sender.send(Err(failure.into())).await;
                        break;
                    }
                }
            }
            inbound.abort();
        });
        Ok(response)
    }
}

/// Output that the client does not want is read all the same, by nobody's account: a stream that is
/// dropped would break the process.
fn drop_unwanted(session: &mut crate::container::Session, stdout: bool, stderr: bool) {
    for (wanted, stream) in [(stdout, &mut session.stdout), (stderr, &mut session.stderr)] {
        if !wanted && let Some(mut stream) = stream.take() {
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            });
        }
    }
}
