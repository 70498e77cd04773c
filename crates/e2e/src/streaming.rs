//! A program that goes on running while what it says is watched: `logs -f`, `attach`, `port-forward`.

use crate::program;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A running program. It is killed when this is dropped.
#[derive(Debug)]
pub struct Streaming {
    line: String,
    child: Child,
    input: Option<ChildStdin>,
    heard: Arc<Heard>,
}

/// What was heard of it so far, standard error included.
#[derive(Debug, Default)]
struct Heard {
    now: Mutex<Text>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Text {
    bytes: Vec<u8>,
    /// Pipes at whose end it is.
    closed: usize,
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, Text> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, mut pipe: impl Read) {
        let mut buffer = [0; 4096];
        loop {
            let count = pipe.read(&mut buffer).unwrap_or(0);
            let mut now = self.lock();
            now.bytes.extend(&buffer[..count]);
            now.closed += usize::from(count == 0);
            self.news.notify_all();
            if count == 0 {
                return;
            }
        }
    }
}

impl Streaming {
    /// Starts a program.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let line = program::line(command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("`{line}` cannot be started"))?;
        let heard = Arc::new(Heard::default());
        if let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) {
            // They end with the program.
            thread::spawn({
                let heard = heard.clone();
                move || heard.listen(output)
            });
            thread::spawn({
                let heard = heard.clone();
                move || heard.listen(errors)
            });
        }
        let input = child.stdin.take();
        Ok(Self { line, child, input, heard })
    }

    /// Waits until it has said these words, and returns all that it has said.
    ///
    /// # Errors
    /// When it does not say them within `patience`, or falls silent for good.
    pub fn hear(&self, words: &str, patience: Duration) -> Result<String> {
        let begin = Instant::now();
        let mut now = self.heard.lock();
        loop {
            let text = String::from_utf8_lossy(&now.bytes).into_owned();
            if text.contains(words) {
                return Ok(text);
            }
            let left = patience.saturating_sub(begin.elapsed());
            if now.closed == 2 || left.is_zero() {
                bail!("`{}` did not say {words:?} within {:?}, but: {text}", self.line, begin.elapsed());
            }
            now = self.heard.news.wait_timeout(now, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Writes to its standard input.
    ///
    /// # Errors
    /// When it no longer reads.
    pub fn tell(&mut self, words: &str) -> Result<()> {
        let input = self.input.as_mut().context("its input was closed")?;
        input.write_all(words.as_bytes()).and_then(|()| input.flush()).with_context(|| format!("`{}`", self.line))
    }

    /// Closes its standard input.
    pub fn hang_up(&mut self) {
        self.input = None;
    }

    /// Waits for its end, and returns how it ended and all that it has said.
    ///
    /// # Errors
    /// When it has not ended within `patience`.
    pub fn end(mut self, patience: Duration) -> Result<(ExitStatus, String)> {
        self.hang_up();
        let status = program::end(&mut self.child, patience)?;
        let mut now = self.heard.lock();
        while now.closed < 2 {
            now = self.heard.news.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        let text = String::from_utf8_lossy(&now.bytes).into_owned();
        let status = status.with_context(|| format!("`{}` did not end within {patience:?}: {text}", self.line))?;
        Ok((status, text))
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
