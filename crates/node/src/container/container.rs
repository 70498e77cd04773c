//! One container: the tasks that carry its output and await its end, and sessions with it.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::task::JoinHandle;

use super::cgroup;
use super::launch::{Connection, Launched};
use super::logs::{LogWriter, Stream};
use super::session::{Control, Reader, Session, Writer};
use super::shim::Message;
use super::spec::Seccomp;
use super::{Error, ExitStatus, RuntimeOptions};

/// A piece of output.
pub(super) type Piece = (Stream, Bytes);

/// Bytes read from a process at once.
const PIECE: usize = 16 << 10;

/// A container that was not removed.
pub(super) struct Container {
    pub(super) id: String,
    pub(super) directory: PathBuf,
    pub(super) cgroup: PathBuf,
    pub(super) process: Arc<OwnedFd>,
    pub(super) terminal: Option<Arc<OwnedFd>>,
    pub(super) stdin: Arc<tokio::sync::Mutex<Option<Writer>>>,
    pub(super) stdin_once: bool,
    /// `None` after the end, so that attached sessions see the end of the output.
    pub(super) output: Mutex<Option<broadcast::Sender<Piece>>>,
    pub(super) exit: watch::Receiver<Option<ExitStatus>>,
    /// True when the last line is in the log.
    pub(super) ended: watch::Receiver<bool>,
    pub(super) sessions: Arc<Semaphore>,
    pub(super) seccomp: Seccomp,
    pub(super) tty: bool,
    pub(super) _slot: OwnedSemaphorePermit,
}

impl Container {
    /// Room for one more session.
    pub(super) fn session(&self, options: &RuntimeOptions) -> Result<OwnedSemaphorePermit, Error> {
        let permit = self.sessions.clone().try_acquire_owned();
        permit.map_err(|_| Error::Limit { what: "sessions with one container", limit: options.max_sessions })
    }
}

/// Who is told of the end.
pub(super) struct Ended {
    pub(super) exit: watch::Sender<Option<ExitStatus>>,
    pub(super) ended: watch::Sender<bool>,
}

/// Copies the output to the log and to whoever is attached, until it ends.
pub(super) async fn pump(
    mut stdout: Option<Reader>,
    mut stderr: Option<Reader>,
    mut log: LogWriter,
    output: broadcast::Sender<Piece>,
) {
    let (mut stdout_piece, mut stderr_piece) = (vec![0; PIECE], vec![0; PIECE]);
    while stdout.is_some() || stderr.is_some() {
        let (stream, piece) = tokio::select! {
            count = read(&mut stdout, &mut stdout_piece) => (Stream::Stdout, &stdout_piece[..count]),
            count = read(&mut stderr, &mut stderr_piece) => (Stream::Stderr, &stderr_piece[..count]),
        };
        if piece.is_empty() {
            continue;
        }
        // The page cache takes it at once; a thread for each line would cost more.
        if let Err(error) = log.write(stream, piece) {
            tracing::warn!(%error, "cannot write a container's log");
        }
        if output.receiver_count() > 0 {
            let _ = output.send((stream, Bytes::copy_from_slice(piece)));
        }
    }
    finish(log);
}

fn finish(mut log: LogWriter) {
    if let Err(error) = log.finish() {
        tracing::warn!(%error, "cannot write a container's log");
    }
}

/// Reads a piece; at the end the reader becomes `None` and never finishes again.
async fn read(reader: &mut Option<Reader>, piece: &mut [u8]) -> usize {
    let Some(open) = reader else { return std::future::pending().await };
    let count = open.read(piece).await.unwrap_or(0);
    if count == 0 {
        *reader = None;
    }
    count
}

/// Awaits the end of the container's first process, then ends what it left behind.
pub(super) async fn supervise(
    container: Arc<Container>,
    mut control: Connection,
    mut pump: JoinHandle<()>,
    options: RuntimeOptions,
    ended: Ended,
) {
    let message = control.next().await;
    let finished_at = Timestamp::now();
    let (code, signal) = match message {
        Some(Message::Exited { code, signal }) => (code, signal),
        _ => {
            tracing::warn!(container = container.id, "the container shim ended before the container");
            (255, None)
        }
    };
    let oom_killed = code != 0 && cgroup::oom_kills(&container.cgroup) > 0;
    if let Err(error) = cgroup::kill(&container.cgroup) {
        tracing::warn!(%error, container = container.id, "cannot kill what the container left behind");
    }
    if tokio::time::timeout(options.drain_timeout, &mut pump).await.is_err() {
        pump.abort();
        tracing::warn!(container = container.id, "the container's output has not ended with it");
    }
    container.stdin.lock().await.take();
    container.output.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Err(error) = cgroup::remove(&container.cgroup, options.remove_timeout).await {
        tracing::warn!(%error, container = container.id, "cannot remove the container's cgroup");
    }
    ended.ended.send_replace(true);
    ended.exit.send_replace(Some(ExitStatus { code, signal, oom_killed, finished_at }));
}

/// The session of a process that was started for it. The permit is held until the process ends.
pub(super) fn exec_session(launched: Launched, permit: OwnedSemaphorePermit) -> Session {
    let (sender, exit) = watch::channel(None);
    let mut control = launched.control;
    tokio::spawn(async move {
        let _permit = permit;
        let (code, signal) = match control.next().await {
            Some(Message::Exited { code, signal }) => (code, signal),
            _ => (255, None),
        };
        sender.send_replace(Some(ExitStatus { code, signal, oom_killed: false, finished_at: Timestamp::now() }));
    });
    Session {
        stdin: launched.stdin,
        stdout: launched.stdout,
        stderr: launched.stderr,
        control: Control { terminal: launched.terminal, process: launched.process, exit },
    }
}

/// A session with the first process; `None` if its output has ended.
pub(super) fn attach(
    container: &Arc<Container>,
    stdin: bool,
    permit: OwnedSemaphorePermit,
    buffer: usize,
) -> Option<Session> {
    let output = container.output.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.subscribe();
    let (stdout, stdout_writer) = duplex(buffer);
    let (stderr, stderr_writer) = match container.tty {
        true => (None, None),
        false => {
            let (reader, writer) = duplex(buffer);
            (Some(Box::new(reader) as Reader), Some(writer))
        }
    };
    tokio::spawn(copy_output(output, stdout_writer, stderr_writer, permit));
    let stdin = stdin.then(|| {
        let (writer, reader) = duplex(buffer);
        tokio::spawn(copy_input(container.clone(), reader));
        Box::new(writer) as Writer
    });
    let control = Control {
        terminal: container.terminal.clone(),
        process: container.process.clone(),
        exit: container.exit.clone(),
    };
    Some(Session { stdin, stdout: Some(Box::new(stdout)), stderr, control })
}

async fn copy_output(
    mut output: broadcast::Receiver<Piece>,
    mut stdout: DuplexStream,
    mut stderr: Option<DuplexStream>,
    _permit: OwnedSemaphorePermit,
) {
    // Nothing is ever written to these; reading them tells that the client is gone.
    let mut unused = [0; 1];
    loop {
        let piece = tokio::select! {
            piece = output.recv() => piece,
            _ = stdout.read(&mut unused) => return,
        };
        let written = match piece {
            Ok((Stream::Stdout, bytes)) => stdout.write_all(&bytes).await,
            Ok((Stream::Stderr, bytes)) => match &mut stderr {
                Some(stderr) => stderr.write_all(&bytes).await,
                None => Ok(()),
            },
            Err(broadcast::error::RecvError::Lagged(pieces)) => {
                tracing::debug!(pieces, "an attached client is too slow and lost output");
                Ok(())
            }
            Err(broadcast::error::RecvError::Closed) => return,
        };
        if written.is_err() {
            return;
        }
    }
}

async fn copy_input(container: Arc<Container>, mut input: DuplexStream) {
    let mut piece = vec![0; PIECE];
    let mut exit = container.exit.clone();
    loop {
        let count = tokio::select! {
            count = input.read(&mut piece) => count.unwrap_or(0),
            _ = exit.wait_for(Option::is_some) => return,
        };
        if count == 0 {
            break;
        }
        let mut stdin = container.stdin.lock().await;
        let Some(open) = stdin.as_mut() else { return };
        let written = tokio::select! {
            written = open.write_all(&piece[..count]) => written,
            _ = exit.wait_for(Option::is_some) => return,
        };
        if written.is_err() {
            *stdin = None;
            return;
        }
    }
    if container.stdin_once {
        container.stdin.lock().await.take();
    }
}
