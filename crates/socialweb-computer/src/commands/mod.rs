//! What each command does.

pub(crate) mod check_host;
pub(crate) mod cluster;
pub(crate) mod status;

use crate::output::Format;
use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;

/// `version`.
pub(crate) fn version(output: Format) -> Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    output.print(&json!({"version": version, "kubernetes": "v1.36"}), || {
        format!("socialweb-computer {version} (Kubernetes API v1.36)")
    })?;
    Ok(ExitCode::SUCCESS)
}
