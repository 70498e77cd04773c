//! `cargo xtask bench`: the numbers that the specification promises, from a release build.

use crate::step::{cargo, step, target_directory};
use anyhow::Result;
use clap::Args;

#[derive(Args)]
pub(crate) struct Options {
    /// Which benchmark, and its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, default_values_t = ["density".to_owned()])]
    arguments: Vec<String>,
}

/// Builds what is measured and what measures, then measures.
pub(crate) fn run(options: &Options) -> Result<()> {
    step(
        "building with optimisations",
        &mut cargo(&["build", "--quiet", "--release", "-p", "socialweb-computer", "-p", "benchmarks"]),
        "Mend what the compiler reports.",
    )?;
    let release = target_directory().join("release");
    let mut command = std::process::Command::new(release.join("benchmarks"));
    command.arg("--program").arg(release.join("socialweb-computer")).args(&options.arguments);
    step("benchmark", &mut command, "See what it printed above.")
}
