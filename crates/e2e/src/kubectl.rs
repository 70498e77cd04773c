//! A stock kubectl with the kubeconfig of one cluster.

use crate::port_forward::PortForward;
use crate::program::{self, Said};
use crate::streaming::Streaming;
use crate::wait::{PATIENCE, until};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longer than any wait that kubectl is asked for.
const LONGEST: Duration = Duration::from_secs(180);

/// kubectl, as a user with one cluster runs it.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    /// A home of its own, so that it reads nobody's settings and keeps its caches here.
    home: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    pub(crate) fn new(program: &Path, home: &Path, kubeconfig: PathBuf) -> Self {
        Self { program: program.to_owned(), home: home.to_owned(), kubeconfig }
    }

    /// Its kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Its executable.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env_clear().env("HOME", &self.home).env("KUBECONFIG", &self.kubeconfig);
        // `kubectl cp` looks for none of its own, but a user has one.
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(&self.home);
        command
    }

    /// Runs it, whatever comes of it.
    ///
    /// # Errors
    /// When it does not end.
    pub fn run(&self, arguments: &[&str]) -> Result<Said> {
        self.run_with(arguments, "")
    }

    /// Runs it with this on its standard input, whatever comes of it.
    ///
    /// # Errors
    /// When it does not end.
    pub fn run_with(&self, arguments: &[&str], input: impl AsRef<[u8]>) -> Result<Said> {
        program::run(&mut self.command(arguments), input.as_ref(), LONGEST)
    }

    /// Runs it for its output.
    ///
    /// # Errors
    /// When it fails.
    pub fn output(&self, arguments: &[&str]) -> Result<String> {
        self.run(arguments)?.ok()
    }

    /// Runs it for its success.
    ///
    /// # Errors
    /// When it fails.
    pub fn quiet(&self, arguments: &[&str]) -> Result<()> {
        self.output(arguments).map(drop)
    }

    /// Applies these objects, written as YAML or JSON.
    ///
    /// # Errors
    /// When one is refused.
    pub fn apply(&self, objects: &str) -> Result<()> {
        self.run_with(&["apply", "-f", "-"], objects)?.ok().map(drop)
    }

    /// One object, such as `get("pod/web")`.
    ///
    /// # Errors
    /// When there is none.
    pub fn get(&self, what: &str) -> Result<Value> {
        serde_json::from_str(&self.output(&["get", what, "-o", "json"])?).context("kubectl printed no JSON")
    }

    /// The objects that `kubectl get` with these arguments finds.
    ///
    /// # Errors
    /// When it fails.
    pub fn list(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let found = self.output(&[&["get", "-o", "json"], arguments].concat())?;
        let mut found: Value = serde_json::from_str(&found).context("kubectl printed no JSON")?;
        Ok(found["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// The names of the objects that `kubectl get` with these arguments finds, as `kind/name`.
    ///
    /// # Errors
    /// When it fails.
    pub fn names(&self, arguments: &[&str]) -> Result<Vec<String>> {
        let found = self.output(&[&["get", "-o", "name"], arguments].concat())?;
        Ok(found.lines().map(str::to_owned).collect())
    }

    /// Waits with `kubectl wait`.
    ///
    /// # Errors
    /// When it does not come to be within [`PATIENCE`].
    pub fn wait(&self, what: &[&str], condition: &str) -> Result<()> {
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        self.quiet(&[&["wait", condition, &timeout], what].concat())
    }

    /// Waits until an object is as it should be.
    ///
    /// # Errors
    /// When it is not within [`PATIENCE`]; with its last status.
    pub fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
        let mut last = Value::Null;
        until(what, PATIENCE, || {
            last = self.get(what)?;
            Ok(holds(&last))
        })
        .with_context(|| format!("the status of {what} is {}", last["status"]))
    }

    /// Starts it, to go on running.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn stream(&self, arguments: &[&str]) -> Result<Streaming> {
        Streaming::start(&mut self.command(arguments))
    }

    /// Forwards a free port of this host to a port of a Pod.
    ///
    /// # Errors
    /// When kubectl does not begin to listen.
    pub fn port_forward(&self, target: &str, port: u16) -> Result<PortForward> {
        PortForward::start(self.stream(&["port-forward", target, &format!(":{port}")])?)
    }
}
