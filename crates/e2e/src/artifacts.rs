//! What is brought onto a stage; `cargo xtask artifacts` makes it.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The name, inside a cluster, of the image that every node has.
pub const IMAGE: &str = "localhost/busybox:1";

const VARIABLE: &str = "E2E_ARTIFACTS";

/// Where everything is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Artifacts {
    /// `socialweb-computer`.
    pub program: PathBuf,
    /// The node agent, a static executable.
    pub agent: PathBuf,
    /// An archive of [`IMAGE`], which holds a static busybox.
    pub image: PathBuf,
    /// A stock kubectl.
    pub kubectl: PathBuf,
}

impl Artifacts {
    /// What the environment says.
    ///
    /// # Errors
    /// When it says nothing, as outside `cargo xtask e2e`.
    pub fn from_environment() -> Result<Self> {
        let json = std::env::var(VARIABLE)
            .with_context(|| format!("{VARIABLE} is not set: run these tests with `cargo xtask e2e [filter]`"))?;
        serde_json::from_str(&json).with_context(|| format!("{VARIABLE} is not what `cargo xtask artifacts` prints"))
    }

    /// As the variable that [`Self::from_environment`] reads.
    ///
    /// # Errors
    /// When a path is not UTF-8.
    pub fn to_variable(&self) -> Result<(&'static str, String)> {
        Ok((VARIABLE, serde_json::to_string(self)?))
    }
}
