//! A client's end of a process in a container: an exec, or an attachment to the first process.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::Signal;
use rustix::termios::Winsize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::{Error, ExitStatus};

/// A stream to write to.
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;
/// A stream to read from.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// Streams and end of one process. Dropping it does not end the process.
pub struct Session {
    /// Where to write what the process reads; dropping it closes the process' stdin.
    pub stdin: Option<Writer>,
    /// What the process writes; with a terminal also what it writes to stderr.
    pub stdout: Option<Reader>,
    /// What the process writes to stderr; `None` with a terminal.
    pub stderr: Option<Reader>,
    pub(super) control: Control,
}

/// Resizes, signals and waits for a session's process; usable while its streams are borrowed.
#[derive(Clone)]
pub struct Control {
    pub(super) terminal: Option<Arc<OwnedFd>>,
    pub(super) process: Arc<OwnedFd>,
    pub(super) exit: watch::Receiver<Option<ExitStatus>>,
}

impl Session {
    /// A handle that outlives borrows of the streams.
    pub fn control(&self) -> Control {
        self.control.clone()
    }
}

impl Control {
    /// Sets the size of the terminal; without one this does nothing.
    pub fn resize(&self, columns: u16, rows: u16) -> Result<(), Error> {
        let Some(terminal) = &self.terminal else { return Ok(()) };
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(terminal, size).map_err(|error| Error::Io {
            what: "set the size of",
            path: "terminal".into(),
            source: error.into(),
        })
    }

    /// Sends a signal to the process; one that has ended is no error.
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        send(&self.process, signal)
    }

    /// Waits for the end of the process. `None`: it was lost track of.
    pub async fn wait(&self) -> Option<ExitStatus> {
        let mut exit = self.exit.clone();
        exit.wait_for(Option::is_some).await.ok()?.clone()
    }
}

/// Sends a signal through a pidfd, which never hits another process that got the same number.
pub(super) fn send(process: &OwnedFd, signal: Signal) -> Result<(), Error> {
    match rustix::process::pidfd_send_signal(process, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Error::Io { what: "signal", path: "process".into(), source: error.into() }),
    }
}
