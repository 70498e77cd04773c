//! Running a program to its end, which must come within a bound.

use anyhow::{Context, Result, ensure};
use os_linux::process::{Process, ProcessId, start_ticks};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

/// What a program left when it ended.
#[derive(Debug)]
pub struct Said {
    /// How the program and its arguments are written in a shell, more or less.
    pub line: String,
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to its standard output.
    pub output: String,
    /// What it wrote to its standard error.
    pub errors: String,
}

impl Said {
    /// Its output.
    ///
    /// # Errors
    /// When it failed; with its words.
    pub fn ok(self) -> Result<String> {
        let Self { line, status, output, errors } = self;
        ensure!(status.success(), "`{line}` failed ({status}): {}{}", output.trim(), errors.trim());
        Ok(output)
    }

    /// Its words, when it failed with these among them.
    ///
    /// # Errors
    /// When it succeeded, or said something else.
    pub fn refused(self, words: &str) -> Result<String> {
        let Self { line, status, output, errors } = self;
        ensure!(
            !status.success() && errors.contains(words),
            "`{line}` was to be refused with {words:?}; it ended with {status} and said: {output}{errors}"
        );
        Ok(errors)
    }
}

/// Runs a program with this on its standard input.
///
/// # Errors
/// When it cannot be started, or has not ended within `patience`.
pub(crate) fn run(command: &mut Command, input: &[u8], patience: Duration) -> Result<Said> {
    let line = line(command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{line}` cannot be started"))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        // It may end without reading; that is no failure of its own.
        scope.spawn(move || stdin.map(|mut pipe| pipe.write_all(input)));
        let output = scope.spawn(|| read(stdout));
        let errors = scope.spawn(|| read(stderr));
        let status = end(&mut child, patience)?;
        let text = |reader: thread::ScopedJoinHandle<'_, String>| reader.join().unwrap_or_default();
        let (output, errors) = (text(output), text(errors));
        let status = status.with_context(|| format!("`{line}` did not end within {patience:?}: {output}{errors}"))?;
        Ok(Said { line, status, output, errors })
    })
}

/// Waits for the end of a child; one that is late is killed, and `None`.
///
/// # Errors
/// When it cannot be told.
pub(crate) fn end(child: &mut Child, patience: Duration) -> Result<Option<ExitStatus>> {
    // A child that was not collected keeps its id, so this names no other process.
    let pid = child.id();
    let process = match start_ticks(pid)? {
        Some(start_ticks) => Process::open(ProcessId { pid, start_ticks })?,
        None => None,
    };
    let in_time = match process {
        Some(process) => process.wait_ended(patience)?,
        None => true,
    };
    if !in_time {
        child.kill()?;
    }
    let status = child.wait()?;
    Ok(in_time.then_some(status))
}

/// A command as one line.
pub(crate) fn line(command: &Command) -> String {
    let mut line = match command.get_program().to_string_lossy() {
        path if path.contains('/') => path.rsplit('/').next().unwrap_or_default().to_owned(),
        name => name.into_owned(),
    };
    for argument in command.get_args() {
        let _ = write!(line, " {}", argument.to_string_lossy());
    }
    line
}

fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // What came before an error is worth having.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}
