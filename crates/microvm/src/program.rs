//! Runs a helper program to its end, with a time limit and its output in files.

use crate::{Error, files};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(20);
const MAX_OUTPUT: u64 = 1 << 20;
const MAX_DETAIL: u64 = 2000;

/// Runs `command` and returns its standard output. Its output files live in `dir` for that time.
pub(crate) fn run(command: &mut Command, dir: &Path, limit: Duration) -> Result<String, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (out, err) = (files::unfinished(dir), files::unfinished(dir));
    let result = run_into(command, &name, &out, &err, limit);
    files::remove_file(&out)?;
    files::remove_file(&err)?;
    result
}

fn run_into(command: &mut Command, name: &str, out: &Path, err: &Path, limit: Duration) -> Result<String, Error> {
    let start = Instant::now();
    let mut child = command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(files::create(out, 0o600)?)
        .stderr(files::create(err, 0o600)?)
        .spawn()
        .map_err(|source| Error::Program { program: name.to_owned(), source })?;
    let status = loop {
        match child.try_wait().map_err(|source| Error::Program { program: name.to_owned(), source })? {
            Some(status) => break status,
            None if start.elapsed() >= limit => {
                // It may have ended this instant; then there is nothing to kill.
                let _ = child.kill();
                let _ = child.wait();
                let detail = format!("it took longer than {limit:?}");
                return Err(Error::ProgramFailed { program: name.to_owned(), detail });
            }
            None => std::thread::sleep(PAUSE),
        }
    };
    if !status.success() {
        let said = files::tail(err, MAX_DETAIL).unwrap_or_default();
        let detail = if said.trim().is_empty() { status.to_string() } else { said.trim().replace('\n', "; ") };
        return Err(Error::ProgramFailed { program: name.to_owned(), detail });
    }
    if fs::metadata(out).map_err(Error::file("read", out))?.len() > MAX_OUTPUT {
        let detail = format!("it printed more than {MAX_OUTPUT} bytes");
        return Err(Error::ProgramFailed { program: name.to_owned(), detail });
    }
    fs::read_to_string(out).map_err(Error::file("read", out))
}
