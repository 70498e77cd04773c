//! A control plane in a directory of its own, and everything that is played on it.

use crate::artifacts::Artifacts;
use crate::kubectl::Kubectl;
use crate::machines::{self, Machine};
use crate::program;
use crate::server::{self, Server};
use crate::wait::{PATIENCE, until};
use anyhow::{Context, Result, ensure};
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Longer than any of our commands waits.
const LONGEST_COMMAND: Duration = Duration::from_secs(180);

/// A control plane, its machines and its files. Dropped before [`Stage::strike`], it tells what the
/// control plane and the machines said last, and clears everything away.
#[derive(Debug)]
pub struct Stage {
    artifacts: Artifacts,
    flags: Vec<String>,
    server: RefCell<Option<Server>>,
    struck: bool,
    /// Dropped last: everything else is in it.
    directory: TempDir,
}

impl Stage {
    /// Starts a control plane in an empty directory, with these further flags of `serve`.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn set(artifacts: Artifacts, flags: &[&str]) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("socialweb-computer-").tempdir()?;
        fs::create_dir(server::state(directory.path()))?;
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let stage = Self { artifacts, flags, server: RefCell::default(), struck: false, directory };
        stage.start()?;
        Ok(stage)
    }

    /// Starts the control plane, on the state that is there.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(&self) -> Result<()> {
        let server = Server::start(&self.artifacts, self.directory(), &self.flags)?;
        *self.server.borrow_mut() = Some(server);
        Ok(())
    }

    /// Kills the control plane, as a crash would. [`Stage::start`] starts the next.
    pub fn crash(&self) {
        *self.server.borrow_mut() = None;
    }

    /// Ends the play: there must be no machine left, and the control plane stops when it is asked to.
    ///
    /// # Errors
    /// When something is left, or the control plane does not stop.
    pub fn strike(mut self) -> Result<()> {
        let left: Vec<String> = self.machines()?.iter().map(Machine::id).collect();
        ensure!(left.is_empty(), "machines are left: {left:?}");
        self.server.take().context("the control plane was not started again")?.stop()?;
        self.struck = true;
        Ok(())
    }

    /// A directory for files of the play; it goes with the stage.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs our own program for its output.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.artifacts.program);
        command.args(arguments).arg("--state").arg(server::state(self.directory()));
        program::run(&mut command, b"", LONGEST_COMMAND)?.ok()
    }

    /// Creates a cluster, with these further flags, and returns a kubectl for it.
    ///
    /// # Errors
    /// When it does not become Ready.
    pub fn cluster(&self, name: &str, flags: &[&str]) -> Result<Kubectl> {
        self.run(&[&["cluster", "create", name], flags].concat())?;
        self.kubectl(name)
    }

    /// A kubectl, with a new credential, for a cluster that is there.
    ///
    /// # Errors
    /// When it is not there.
    pub fn kubectl(&self, cluster: &str) -> Result<Kubectl> {
        let kubeconfig = self.directory().join(format!("{cluster}.kubeconfig"));
        let file = kubeconfig.to_str().context("the temporary directory's path is not UTF-8")?;
        self.run(&["cluster", "kubeconfig", cluster, "--file", file])?;
        Ok(Kubectl::new(&self.artifacts.kubectl, self.directory(), kubeconfig))
    }

    /// The machines that the control plane keeps, the oldest first.
    ///
    /// # Errors
    /// When the state directory cannot be read.
    pub fn machines(&self) -> Result<Vec<Machine>> {
        machines::list(&server::state(self.directory()))
    }

    /// Waits for a machine.
    ///
    /// # Errors
    /// When none comes.
    pub fn machine(&self) -> Result<Machine> {
        let mut machines = Vec::new();
        until("a machine", PATIENCE, || {
            machines = self.machines()?;
            Ok(!machines.is_empty())
        })?;
        machines.into_iter().next().context("a machine was there")
    }

    /// Waits until no machine is left.
    ///
    /// # Errors
    /// When one stays.
    pub fn no_machine(&self) -> Result<()> {
        until("the end of the machines", PATIENCE, || Ok(self.machines()?.is_empty()))
    }

    fn clear(&mut self) -> Result<()> {
        eprintln!("--- the control plane said last:\n{}", server::log(self.directory()));
        for machine in self.machines()? {
            eprintln!("--- machine {} said last:\n{}", machine.id(), machine.console());
        }
        // The control plane first: it would start machines again.
        self.crash();
        machines::end_all(&server::state(self.directory()))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.struck
            && let Err(error) = self.clear()
        {
            eprintln!("{} is not cleared away: {error:#}", self.directory().display());
        }
    }
}
