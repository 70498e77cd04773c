//! Running one named step and telling how it went.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lives in the workspace").to_owned()
}

/// A cargo command in the workspace. It builds into the user's cache where that was set up
/// (`<cache>/socialweb-computer/target`), so that a fresh clone need not start from nothing.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments).env("CARGO_TARGET_DIR", target_directory());
    command
}

/// Where cargo commands of ours build.
pub(crate) fn target_directory() -> PathBuf {
    if let Some(set) = std::env::var_os("CARGO_TARGET_DIR") {
        return root().join(set);
    }
    let cached = cache_directory().join("target");
    if cached.is_dir() { cached } else { root().join("target") }
}

/// The project's folder in the user's cache.
pub(crate) fn cache_directory() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(Path::new(&home).join(".cache"))
    });
    base.unwrap_or_else(|| root().join("target")).join("socialweb-computer")
}

/// Runs a command as a named step and prints its time.
///
/// # Errors
/// When it cannot be started or fails; `hint` says what to do about it.
pub(crate) fn step(name: &str, command: &mut Command, hint: &str) -> Result<()> {
    eprintln!("==> {name}");
    let begin = Instant::now();
    let status = command.status().with_context(|| format!("{name}: cannot start {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{name} failed ({status}). {hint}");
    }
    eprintln!("    {name}: ok, {:.1} s", begin.elapsed().as_secs_f32());
    Ok(())
}
