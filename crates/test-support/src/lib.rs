//! What tests of several crates share: bounded waits on observable state, processes that end with
//! the test, and directories that go with it.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How long a test waits for something that must happen. Long, because it is only ever used up by a
/// failing test, and machines that run tests can be slow.
pub const PATIENCE: Duration = Duration::from_secs(120);

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Asks again and again until `check` answers `Ok`, and returns the answer.
///
/// # Panics
/// When [`PATIENCE`] is over, with `what` and the last error.
pub async fn eventually<T, E, F>(what: &str, mut check: impl FnMut() -> F) -> T
where
    E: std::fmt::Debug,
    F: Future<Output = Result<T, E>>,
{
    let (start, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        match check().await {
            Ok(value) => return value,
            Err(error) if start.elapsed() >= PATIENCE => panic!("waited {PATIENCE:?} for {what}: {error:?}"),
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// [`eventually`] for code that is not asynchronous.
///
/// # Panics
/// When [`PATIENCE`] is over, with `what` and the last error.
pub fn eventually_blocking<T, E: std::fmt::Debug>(what: &str, mut check: impl FnMut() -> Result<T, E>) -> T {
    let (start, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        match check() {
            Ok(value) => return value,
            Err(error) if start.elapsed() >= PATIENCE => panic!("waited {PATIENCE:?} for {what}: {error:?}"),
            Err(_) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A child process that is killed and collected when the test lets go of it, however the test ends.
#[derive(Debug)]
pub struct ProcessGuard(Child);

impl ProcessGuard {
    /// Starts `command`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn spawn(command: &mut Command) -> Self {
        match command.spawn() {
            Ok(child) => Self(child),
            Err(error) => panic!("cannot start {command:?}: {error}"),
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The child, to take its pipes or to wait for it.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Ends it at once, as a power cut would, and collects it.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub fn kill(&mut self) {
        self.0.kill().expect("a child of this process can be killed");
        self.0.wait().expect("a killed child ends");
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        // It may have ended already; there is no one to tell in a drop.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A new directory that is removed when the value is dropped.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn tempdir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("socialweb-test-").tempdir().expect("a temporary directory can be made")
}
