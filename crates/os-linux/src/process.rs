//! Processes that outlive whoever started them: spawned in a session of their own, known later by
//! process id *and* start time, signalled and waited for through a pidfd so that a reused id can
//! never be hit.

#[cfg(test)]
mod tests;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Names one process for the life of the running system: ids are reused, an id together with a
/// start time is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    /// Process id.
    pub pid: u32,
    /// Start, in clock ticks since the system booted.
    pub start_ticks: u64,
}

/// Limits of a detached process.
#[derive(Clone, Copy, Debug)]
pub struct DetachedOptions {
    /// No file that the process writes grows beyond this; a write past it fails.
    pub max_file_bytes: u64,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Signalled(signal) => write!(f, "was ended by signal {signal}"),
        }
    }
}

/// A hold on one process that cannot come to mean another.
#[derive(Debug)]
pub struct Process {
    id: ProcessId,
    pidfd: OwnedFd,
}

impl Process {
    /// Takes hold of a running process. `None` means verified gone: no such process, a zombie, or
    /// the id belongs to another process by now.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn open(id: ProcessId) -> io::Result<Option<Self>> {
        let Some(pid) = i32::try_from(id.pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        let pidfd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // The descriptor is held, so if the start time matches now it is the process that was meant.
        Ok(match start_ticks(id.pid)? {
            Some(ticks) if ticks == id.start_ticks => Some(Self { id, pidfd }),
            _ => None,
        })
    }

    /// Which process it is.
    #[must_use]
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Sends SIGTERM; a process that has ended is a success.
    ///
    /// # Errors
    /// When the signal is not allowed.
    pub fn terminate(&self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends SIGKILL; a process that has ended is a success.
    ///
    /// # Errors
    /// When the signal is not allowed.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Blocks until the process has ended, at most for `limit`; says whether it has.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn wait_ended(&self, limit: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(limit).map_err(io::Error::other)?;
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Collects the end of a process that has ended, if it is a child of this process.
    #[must_use]
    pub fn reap(&self) -> Option<Ended> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let status = rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), options).ok()??;
        status.exit_status().map(Ended::Exited).or_else(|| status.terminating_signal().map(Ended::Signalled))
    }
}

/// Readable once the process has ended.
impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Starts `command` in a session of its own, so that neither a terminal's hang-up nor the end of
/// this process reaches it, and with no descriptor but the standard three. The caller sets standard input, output and error to files, never pipes.
///
/// # Errors
/// When the program cannot be started.
pub fn spawn_detached(command: &mut Command, options: DetachedOptions) -> io::Result<Process> {
    let limit = options.max_file_bytes;
    let prepare = move || {
        rustix::process::setsid()?;
        let limit = rustix::process::Rlimit { current: Some(limit), maximum: Some(limit) };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, limit)?;
        ignore_signal(libc::SIGXFSZ)?;
        close_others_on_exec()
    };
    // SAFETY: the closure runs between fork and exec. It makes only the system calls setsid,
    // prlimit, sigaction and close_range, allocates nothing and takes no lock.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(prepare);
    }
    let child = command.spawn()?;
    let pid = child.id();
    // Not yet reaped, so even if it has ended already its entry is there.
    let start_ticks = stat(pid)?
        .map(|stat| stat.start_ticks)
        .ok_or_else(|| io::Error::other(format!("process {pid} vanished while it was being started")))?;
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let pidfd = rustix::process::pidfd_open(raw, PidfdFlags::empty())?;
    Ok(Process { id: ProcessId { pid, start_ticks }, pidfd })
}

fn ignore_signal(signal: i32) -> io::Result<()> {
    // SAFETY: SIG_IGN is a valid disposition and no handler of this process is replaced: the caller
    // is a forked child about to exec.
    #[allow(unsafe_code)]
    let previous = unsafe { libc::signal(signal, libc::SIG_IGN) };
    if previous == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whatever this process was itself started with, such as a lock of its parent's, must not live as
/// long as the detached one.
fn close_others_on_exec() -> io::Result<()> {
    // SAFETY: it only marks descriptors of the calling process, a forked child about to exec.
    #[allow(unsafe_code)]
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// When a process started, or `None` when there is none or only its zombie.
///
/// # Errors
/// When it cannot be told.
pub fn start_ticks(pid: u32) -> io::Result<Option<u64>> {
    Ok(stat(pid)?.filter(|stat| !matches!(stat.state, b'Z' | b'X' | b'x')).map(|stat| stat.start_ticks))
}

/// Identifies this boot of the system.
///
/// # Errors
/// When the kernel does not say.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Every running process one of whose arguments is exactly `argument`.
///
/// # Errors
/// When the process list cannot be read.
pub fn find_by_argument(argument: &str) -> io::Result<Vec<ProcessId>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // One that ends or hides meanwhile is not a match.
        let Ok(arguments) = fs::read(format!("/proc/{pid}/cmdline")) else { continue };
        if !arguments.split(|byte| *byte == 0).any(|one| one == argument.as_bytes()) {
            continue;
        }
        if let Some(start_ticks) = start_ticks(pid)? {
            found.push(ProcessId { pid, start_ticks });
        }
    }
    Ok(found)
}

struct Stat {
    state: u8,
    start_ticks: u64,
}

fn stat(pid: u32) -> io::Result<Option<Stat>> {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => parse_stat(&text).map(Some).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat is not in the known form"))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound || is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

/// The second field is the program's name in parentheses and may hold anything, so the fields are
/// counted from the last closing one.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    // Field 22 of the whole line; `state` was field 3.
    let start_ticks = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start_ticks })
}
