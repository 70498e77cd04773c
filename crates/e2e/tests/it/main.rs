//! The end-to-end tests, a module a story. `cargo xtask e2e [filter]` runs them.

mod story;

use anyhow::Result;
use e2e::{Artifacts, Stage};

/// A stage of a test's own.
fn stage() -> Result<Stage> {
    Stage::set(Artifacts::from_environment()?, &[])
}
