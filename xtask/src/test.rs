//! `cargo xtask test` and `cargo xtask e2e`: every check and every test, from a fresh clone.

use crate::step::{cargo, step};
use crate::{artifacts, check, host};
use anyhow::Result;
use clap::Args;

/// Each end-to-end test has a control plane and machines of its own.
const E2E_THREADS: u32 = 2;

#[derive(Args)]
pub(crate) struct Options {
    /// Rounds of the store's crash test
    #[arg(long, default_value_t = 200)]
    crash_rounds: u32,
}

#[derive(Args)]
pub(crate) struct EndToEndOptions {
    /// Only the tests whose path contains this, such as `crashes` [default: all]
    filter: Option<String>,
}

/// Runs everything.
pub(crate) fn run(options: &Options) -> Result<()> {
    host::packages()?;
    check::run()?;
    step(
        "tests",
        cargo(&["test", "--workspace", "--exclude", "e2e", "--quiet"])
            .env("STORE_CRASH_ROUNDS", options.crash_rounds.to_string()),
        "The failing test is named above; run it alone with `cargo test -p <crate> <name>`.",
    )?;
    suite(None)?;
    eprintln!("\nEverything passed. Next: `cargo xtask demo` shows the product at work.");
    Ok(())
}

/// Runs the end-to-end tests.
pub(crate) fn end_to_end(options: &EndToEndOptions) -> Result<()> {
    host::packages()?;
    suite(options.filter.as_deref())
}

fn suite(filter: Option<&str>) -> Result<()> {
    let (variable, artifacts) = artifacts::make(false)?.to_variable()?;
    let mut command = cargo(&["test", "--quiet", "--package", "e2e", "--"]);
    command
        .arg(format!("--test-threads={E2E_THREADS}"))
        .args(filter)
        .env(variable, artifacts)
        .env("RUST_LIB_BACKTRACE", "0");
    step(
        "end-to-end tests",
        &mut command,
        "The failing test is named above; run it alone with `cargo xtask e2e <name>`.",
    )
}
