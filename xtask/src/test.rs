//! `cargo xtask test`: every check and every test, from a fresh clone.

use crate::step::{cargo, step};
use crate::{check, host};
use anyhow::Result;
use clap::Args;

#[derive(Args)]
pub(crate) struct Options {
    /// Rounds of the store's crash test
    #[arg(long, default_value_t = 200)]
    crash_rounds: u32,
}

/// Runs everything.
pub(crate) fn run(options: &Options) -> Result<()> {
    host::packages()?;
    check::run()?;
    step(
        "tests",
        cargo(&["test", "--workspace", "--quiet"]).env("STORE_CRASH_ROUNDS", options.crash_rounds.to_string()),
        "The failing test is named above; run it alone with `cargo test -p <crate> <name>`.",
    )?;
    eprintln!("\nEverything passed. Next: `cargo xtask demo` shows the product at work.");
    Ok(())
}
