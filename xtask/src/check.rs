//! `cargo xtask check`: what a machine can say about the tree without running it.

use crate::step::{cargo, root, step};
use crate::{layers, licences};
use anyhow::{Context, Result};

/// Runs every check, the quickest first.
pub(crate) fn run() -> Result<()> {
    step("format", &mut cargo(&["fmt", "--all", "--check"]), "Run `cargo fmt --all`.")?;
    let metadata = metadata()?;
    eprintln!("==> layers");
    layers::check(&metadata, &std::fs::read_to_string(root().join("layers.toml")).context("layers.toml")?)?;
    eprintln!("==> licences");
    licences::check(&metadata)?;
    step(
        "lint",
        &mut cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]),
        "Mend what clippy reports.",
    )?;
    step(
        "documentation",
        cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"])
            .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links"),
        "Mend the documentation comments.",
    )
}

/// `cargo metadata` of the workspace and all its dependencies.
fn metadata() -> Result<serde_json::Value> {
    let output = cargo(&["metadata", "--format-version=1", "--locked"]).output().context("cargo metadata")?;
    anyhow::ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")
}
