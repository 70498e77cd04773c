//! Who plays: a control plane in a directory of its own, and kubectl. Everything goes when it ends.

use crate::artifacts::Artifacts;
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

const POLL: Duration = Duration::from_millis(50);
const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(30);

pub(super) struct Cast {
    artifacts: Artifacts,
    directory: PathBuf,
    server: std::cell::RefCell<Child>,
    begin: Instant,
}

impl Cast {
    /// Starts a control plane in an empty directory.
    pub(super) fn start(artifacts: Artifacts) -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("socialweb-computer-demo-{}", std::process::id()));
        let state = directory.join("state");
        fs::create_dir_all(&state).with_context(|| format!("cannot make {}", state.display()))?;
        let log = File::create(directory.join("serve.log"))?;
        let begin = Instant::now();
        let server = Command::new(&artifacts.program)
            .arg("serve")
            .args([Path::new("--state"), &state, Path::new("--agent"), &artifacts.agent])
            .args([Path::new("--image"), &artifacts.image])
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{} cannot be started", artifacts.program.display()))?;
        let cast = Self { artifacts, directory, server: server.into(), begin };
        cast.until("the control plane", START, || {
            ensure!(cast.server.borrow_mut().try_wait()?.is_none(), "`serve` ended: {}", cast.log());
            Ok(state.join("address").exists())
        })?;
        Ok(cast)
    }

    /// Ends it. Machines would go on running, so there must be none.
    pub(super) fn stop(&self) -> Result<()> {
        ensure!(self.machines()?.is_empty(), "a machine is left: {:?}", self.machines()?);
        let pid = self.server.borrow().id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().context("kill")?;
        self.until("the control plane's end", STOP, || Ok(self.server.borrow_mut().try_wait()?.is_some()))?;
        self.say("the control plane stopped; nothing is left");
        Ok(())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("serve.log")).unwrap_or_default()
    }

    pub(super) fn kubeconfig(&self) -> String {
        self.directory.join("kubeconfig").to_string_lossy().into_owned()
    }

    pub(super) fn say(&self, text: &str) {
        println!("[{:6.2} s] {text}", self.begin.elapsed().as_secs_f32());
    }

    pub(super) fn chapter(&self, title: &str) {
        println!();
        self.say(title);
    }

    fn program(&self, arguments: &[&str]) -> Result<Output> {
        Command::new(&self.artifacts.program)
            .args(arguments)
            .arg("--state")
            .arg(self.directory.join("state"))
            .output()
            .with_context(|| format!("{} cannot be started", self.artifacts.program.display()))
    }

    fn kubectl_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.artifacts.kubectl);
        command.args(arguments).env("KUBECONFIG", self.kubeconfig()).env("HOME", &self.directory);
        command
    }

    /// Runs our own program and shows what it prints.
    pub(super) fn show(&self, arguments: &[&str]) -> Result<()> {
        println!("$ socialweb-computer {}", arguments.join(" "));
        print_indented(&self.run(arguments)?);
        Ok(())
    }

    /// Runs our own program.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<String> {
        check(&format!("socialweb-computer {}", arguments.join(" ")), self.program(arguments)?)
    }

    /// Runs kubectl and shows what it prints.
    pub(super) fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        println!("$ kubectl {}", arguments.join(" "));
        let output = self.kubectl_command(arguments).output().context("kubectl cannot be started")?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        print_indented(&check(&format!("kubectl {}", arguments.join(" ")), output)?);
        print_indented(&errors);
        Ok(())
    }

    /// Runs kubectl for its output.
    pub(super) fn output(&self, arguments: &[&str]) -> Result<String> {
        let output = self.kubectl_command(arguments).output().context("kubectl cannot be started")?;
        check(&format!("kubectl {}", arguments.join(" ")), output)
    }

    /// Runs kubectl for its success.
    pub(super) fn quiet(&self, arguments: &[&str]) -> Result<()> {
        self.output(arguments).map(drop)
    }

    /// Runs kubectl, which must be refused in these words.
    pub(super) fn refused(&self, arguments: &[&str], words: &str) -> Result<()> {
        println!("$ kubectl {}", arguments.join(" "));
        let output = self.kubectl_command(arguments).output().context("kubectl cannot be started")?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && errors.contains(words), "expected a refusal with {words:?}, got: {errors}");
        print_indented(&errors);
        Ok(())
    }

    /// Fetches a page through `kubectl port-forward`.
    pub(super) fn port_forward(&self, target: &str, port: u16, words: &str, patience: Duration) -> Result<()> {
        let ports = format!(":{port}");
        println!("$ kubectl port-forward {target} {ports}");
        let mut forward = self.kubectl_command(&["port-forward", target, &ports]).stdout(Stdio::piped()).spawn()?;
        let result = (|| {
            let mut line = String::new();
            // Kept until the end: kubectl goes on writing, and a closed pipe would end it.
            let mut said = BufReader::new(forward.stdout.take().context("no output")?);
            said.read_line(&mut line)?;
            print_indented(&line);
            let local = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
            let local: u16 =
                local.and_then(|local| local.parse().ok()).with_context(|| format!("no port in {line:?}"))?;
            let mut socket = TcpStream::connect(("127.0.0.1", local))?;
            socket.set_read_timeout(Some(patience))?;
            socket.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
            // kubectl may end the connection hard once the other side has closed it.
            let mut answer = Vec::new();
            let end = socket.read_to_end(&mut answer);
            let answer = String::from_utf8_lossy(&answer).into_owned();
            ensure!(answer.contains(words), "expected {words:?}, got {answer:?} ({end:?})");
            print_indented(answer.lines().last().unwrap_or_default());
            Ok(())
        })();
        let _ = forward.kill();
        let _ = forward.wait();
        result
    }

    /// Waits until something holds.
    pub(super) fn until(&self, what: &str, patience: Duration, holds: impl Fn() -> Result<bool>) -> Result<()> {
        let begin = Instant::now();
        while !holds()? {
            if begin.elapsed() > patience {
                bail!("{what} did not come within {patience:?}. The control plane said:\n{}", self.log());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// The directories of machines, each with the time at which it appeared.
    pub(super) fn machines(&self) -> Result<Vec<(PathBuf, SystemTime)>> {
        let directory = self.directory.join("state/machines");
        let Ok(entries) = fs::read_dir(&directory) else { return Ok(Vec::new()) };
        let mut machines = Vec::new();
        for entry in entries.flatten() {
            if let Some(created) = entry.metadata().ok().filter(|m| m.is_dir()).and_then(|m| m.created().ok()) {
                machines.push((entry.path(), created));
            }
        }
        Ok(machines)
    }

    /// Waits for a machine and returns when it was started.
    pub(super) fn machine_started(&self, patience: Duration) -> Result<Instant> {
        self.until("a machine", patience, || Ok(!self.machines()?.is_empty()))?;
        let (_, created) = self.machines()?.into_iter().next().context("the machine went at once")?;
        let age = SystemTime::now().duration_since(created).unwrap_or_default();
        Instant::now().checked_sub(age).context("the machine is older than the clock")
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        // After a failure machines may be left, and nobody else would end them.
        let _ = self.program(&["cluster", "delete", "demo"]);
        let server = self.server.get_mut();
        let _ = server.kill();
        let _ = server.wait();
        if self.machines().is_ok_and(|machines| machines.is_empty()) {
            let _ = fs::remove_dir_all(&self.directory);
        } else {
            eprintln!("machines are left in {}", self.directory.display());
        }
    }
}

fn check(what: &str, output: Output) -> Result<String> {
    ensure!(output.status.success(), "`{what}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn print_indented(text: &str) {
    for line in text.lines() {
        println!("    {line}");
    }
}
