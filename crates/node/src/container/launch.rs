//! Starts a shim and gets the streams of the process that it made.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::net::{UnixListener, UnixStream};

use super::error::IoContext;
use super::pty;
use super::session::{Reader, Writer};
use super::shim::{self, Files, MAX_MESSAGE, Message, SHIM_COMMAND};
use super::{Error, RuntimeOptions};

/// Which streams the process gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streams {
    pub(super) tty: bool,
    pub(super) stdin: bool,
}

/// A process that a shim made and waits for.
pub(super) struct Launched {
    pub(super) pid: i32,
    pub(super) process: Arc<OwnedFd>,
    pub(super) stdin: Option<Writer>,
    pub(super) stdout: Option<Reader>,
    pub(super) stderr: Option<Reader>,
    pub(super) terminal: Option<Arc<OwnedFd>>,
    pub(super) control: Connection,
}

/// The connection to a shim.
pub(super) struct Connection(BufReader<UnixStream>);

impl Connection {
    /// The next message; `None` when the shim is gone.
    pub(super) async fn next(&mut self) -> Option<Message> {
        let mut line = Vec::new();
        (&mut self.0).take(MAX_MESSAGE).read_until(b'\n', &mut line).await.ok()?;
        shim::parse(&line)
    }
}

/// Runs a shim with `<job>.json` of the directory as its request. The sockets and the request are
/// removed when the process runs or has failed to.
pub(super) async fn launch(
    options: &RuntimeOptions,
    directory: &Path,
    job: &str,
    streams: Streams,
) -> Result<Launched, Error> {
    let files = Files::new(directory, job);
    let _cleanup = Cleanup(vec![
        files.request.clone(),
        files.control.clone(),
        files.console.clone(),
        files.request.with_extension("process"),
    ]);
    let (child_streams, agent_streams) = pipes(streams)?;
    let control = UnixListener::bind(&files.control).context("listen at", &files.control)?;
    let console = match streams.tty {
        true => Some(UnixListener::bind(&files.console).context("listen at", &files.console)?),
        false => None,
    };
    let mut command = tokio::process::Command::new(&options.shim);
    command.args(&options.shim_arguments).arg(SHIM_COMMAND).arg(directory).arg(job).env_clear();
    let ChildStreams { stdin, stdout, stderr } = child_streams;
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    let mut child = command.spawn().context("run", &options.shim)?;
    // The command holds the process' ends of the pipes.
    drop(command);
    let started = tokio::time::timeout(options.start_timeout, start(&mut child, &control, console.as_ref())).await;
    let (pid, process, connection, terminal) = match started {
        Ok(Ok(started)) => started,
        failed => {
            let _ = child.start_kill();
            let _ = child.wait().await;
            return Err(failed.map_or(Error::Timeout("starting a process"), |result| match result {
                Err(error) => error,
                Ok(_) => Error::Timeout("starting a process"),
            }));
        }
    };
    // Whoever collects the shim, here or the first process of the node: what it had to tell comes
    // over the socket.
    tokio::spawn(async move {
        let _ = child.wait().await;
    });
    let terminal = terminal.map(Arc::new);
    let (stdin, stdout, stderr) = match &terminal {
        Some(terminal) => {
            let (reader, writer) = pty::streams(terminal).context("use", "terminal")?;
            (streams.stdin.then(|| Box::new(writer) as Writer), Some(Box::new(reader) as Reader), None)
        }
        None => agent_streams,
    };
    Ok(Launched { pid, process, stdin, stdout, stderr, terminal, control: connection })
}

async fn start(
    child: &mut tokio::process::Child,
    control: &UnixListener,
    console: Option<&UnixListener>,
) -> Result<(i32, Arc<OwnedFd>, Connection, Option<OwnedFd>), Error> {
    let stream = tokio::select! {
        accepted = control.accept() => accepted.context("accept", "shim")?.0,
        _ = child.wait() => return Err(Error::Start("the container shim ended at once".to_owned())),
    };
    let mut connection = Connection(BufReader::new(stream));
    let receive = async {
        match console {
            Some(console) => pty::receive(console).await.map(Some),
            None => Ok(None),
        }
    };
    tokio::pin!(receive);
    let mut terminal = None;
    let mut received = false;
    let message = loop {
        tokio::select! {
            message = connection.next() => break message,
            result = &mut receive, if !received => {
                terminal = result.context("receive", "terminal")?;
                received = true;
            }
        }
    };
    let pid = match message {
        Some(Message::Started { pid }) => pid,
        Some(Message::Failed { message }) => return Err(Error::Start(message)),
        Some(Message::Exited { .. }) | None => return Err(Error::Start("the container shim ended early".to_owned())),
    };
    if !received {
        terminal = receive.await.context("receive", "terminal")?;
    }
    let process = Pid::from_raw(pid)
        .ok_or(rustix::io::Errno::SRCH)
        .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()))
        .context("open", format!("process {pid}"))?;
    connection.0.write_all(&[1]).await.context("write to", "shim")?;
    Ok((pid, Arc::new(process), connection, terminal))
}

struct ChildStreams {
    stdin: Stdio,
    stdout: Stdio,
    stderr: Stdio,
}

type AgentStreams = (Option<Writer>, Option<Reader>, Option<Reader>);

fn pipes(streams: Streams) -> Result<(ChildStreams, AgentStreams), Error> {
    if streams.tty {
        // The shim hands over a terminal instead.
        let null = ChildStreams { stdin: Stdio::null(), stdout: Stdio::null(), stderr: Stdio::null() };
        return Ok((null, (None, None, None)));
    }
    let output = || -> io::Result<(Stdio, Option<Reader>)> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok((Stdio::from(write), Some(Box::new(pipe::Receiver::from_owned_fd(read)?) as Reader)))
    };
    let (stdin, writer) = match streams.stdin {
        true => {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC).context("make", "pipe")?;
            let writer = pipe::Sender::from_owned_fd(write).context("use", "pipe")?;
            (Stdio::from(read), Some(Box::new(writer) as Writer))
        }
        false => (Stdio::null(), None),
    };
    let (stdout, stdout_reader) = output().context("make", "pipe")?;
    let (stderr, stderr_reader) = output().context("make", "pipe")?;
    Ok((ChildStreams { stdin, stdout, stderr }, (writer, stdout_reader, stderr_reader)))
}

struct Cleanup(Vec<PathBuf>);

impl Drop for Cleanup {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}
