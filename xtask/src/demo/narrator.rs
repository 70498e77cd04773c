//! Shows what is run on the stage and what it says, with the time.

use anyhow::Result;
use e2e::{Kubectl, Stage};
use std::time::Instant;

pub(super) struct Narrator<'a> {
    stage: &'a Stage,
    begin: Instant,
}

impl<'a> Narrator<'a> {
    pub(super) fn new(stage: &'a Stage, begin: Instant) -> Self {
        Self { stage, begin }
    }

    pub(super) fn say(&self, text: &str) {
        println!("[{:6.2} s] {text}", self.begin.elapsed().as_secs_f32());
    }

    pub(super) fn chapter(&self, title: &str) {
        println!();
        self.say(title);
    }

    /// Runs our own program.
    pub(super) fn program(&self, arguments: &[&str]) -> Result<()> {
        println!("$ socialweb-computer {}", arguments.join(" "));
        indented(&self.stage.run(arguments)?);
        Ok(())
    }

    /// Runs kubectl.
    pub(super) fn kubectl(&self, kubectl: &Kubectl, arguments: &[&str]) -> Result<()> {
        println!("$ kubectl {}", arguments.join(" "));
        let said = kubectl.run(arguments)?;
        let errors = said.errors.clone();
        indented(&said.ok()?);
        indented(&errors);
        Ok(())
    }

    /// Runs kubectl, which must be refused in these words.
    pub(super) fn refused(&self, kubectl: &Kubectl, arguments: &[&str], words: &str) -> Result<()> {
        println!("$ kubectl {}", arguments.join(" "));
        indented(&kubectl.run(arguments)?.refused(words)?);
        Ok(())
    }

    /// Fetches a page through `kubectl port-forward`.
    pub(super) fn page(&self, kubectl: &Kubectl, target: &str, port: u16) -> Result<String> {
        println!("$ kubectl port-forward {target} :{port}");
        let forward = kubectl.port_forward(target, port)?;
        println!("    Forwarding from 127.0.0.1:{} -> {port}", forward.port());
        let page = forward.page()?;
        indented(page.lines().last().unwrap_or_default());
        Ok(page)
    }
}

fn indented(text: &str) {
    for line in text.lines() {
        println!("    {line}");
    }
}
