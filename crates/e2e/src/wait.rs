//! Bounded waits for what can be seen from outside.

use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// How long anything may take that must happen. Long, because only a failing test uses it up, and
/// an emulated machine on a busy host is slow.
pub const PATIENCE: Duration = Duration::from_secs(120);

const PAUSE: Duration = Duration::from_millis(100);

/// Looks again and again until something holds.
///
/// # Errors
/// When a look fails, or it does not hold within `patience`; `what` says what was waited for.
pub fn until(what: &str, patience: Duration, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let begin = Instant::now();
    while !holds()? {
        if begin.elapsed() > patience {
            bail!("{what} did not come within {patience:?}");
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
