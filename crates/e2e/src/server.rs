//! The control plane: one process on a state directory.

use crate::artifacts::Artifacts;
use crate::program;
use crate::wait::until;
use anyhow::{Context, Result, ensure};
use os_linux::process::{Process, ProcessId, start_ticks};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(30);
/// Lines of the log that are worth showing.
const LAST_LINES: usize = 80;

/// A running `serve`. It is killed when this is dropped; machines live on.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Starts it and waits until it answers.
    pub(crate) fn start(artifacts: &Artifacts, directory: &Path, flags: &[String]) -> Result<Self> {
        let state = state(directory);
        // They are there after an earlier run, and are written when it answers.
        let credential = state.join("admin.kubeconfig");
        let _ = fs::remove_file(&credential);
        let log = File::options().create(true).append(true).open(log_file(directory))?;
        let child = Command::new(&artifacts.program)
            .arg("serve")
            .args([Path::new("--state"), &state, Path::new("--agent"), &artifacts.agent])
            .args([Path::new("--image"), &artifacts.image])
            .args(flags)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{} cannot be started", artifacts.program.display()))?;
        let mut server = Self { child };
        until("the control plane", START, || {
            ensure!(server.child.try_wait()?.is_none(), "`serve` ended");
            Ok(credential.exists() && state.join("address").exists())
        })?;
        Ok(server)
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = self.child.id();
        let ticks = start_ticks(pid)?.context("the control plane ended by itself")?;
        Process::open(ProcessId { pid, start_ticks: ticks })?.context("the control plane ended")?.terminate()?;
        let status = program::end(&mut self.child, STOP)?.context("the control plane does not stop")?;
        ensure!(status.success(), "the control plane stopped with {status}");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where it keeps its state.
pub(crate) fn state(directory: &Path) -> PathBuf {
    directory.join("state")
}

/// The last of what it logged.
pub(crate) fn log(directory: &Path) -> String {
    let log = fs::read_to_string(log_file(directory)).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

fn log_file(directory: &Path) -> PathBuf {
    directory.join("serve.log")
}
