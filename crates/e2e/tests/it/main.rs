//! The end-to-end tests, a module a story. `cargo xtask e2e [filter]` runs them.

mod bad_input;
mod crashes;
mod in_cluster;
mod isolation;
mod story;
mod workloads;

use anyhow::Result;
use e2e::{Artifacts, Stage};

/// A web server that serves its ConfigMap, behind a Service.
const WEB: &str = include_str!("manifests/web.yaml");

/// A stage of a test's own.
fn stage() -> Result<Stage> {
    Stage::set(Artifacts::from_environment()?, &[])
}
