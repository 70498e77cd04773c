//! `status`: whether the control plane runs, and what it holds.

use crate::kubeconfig;
use crate::output::Format;
use crate::paths::Paths;
use anyhow::{Context, Result};
use api::{Cluster, NodeClaim};
use controller_runtime::ListOptions;
use serde_json::json;
use std::process::ExitCode;

/// Exit code when the control plane does not answer, as `systemctl status` has it.
const NOT_RUNNING: u8 = 3;

/// Runs the command.
pub(crate) async fn run(paths: &Paths, output: Format) -> Result<ExitCode> {
    let state = paths.state()?;
    let Ok(address) = std::fs::read_to_string(paths.address()?) else {
        output.print(&json!({"running": false, "state": state}), || {
            format!("not running: {} names no server. Start one with `socialweb-computer serve`", state.display())
        })?;
        return Ok(ExitCode::from(NOT_RUNNING));
    };
    let address = address.trim().to_owned();
    let client = kubeconfig::client(&paths.admin_kubeconfig()?)?;
    if let Err(error) = client.get_text("/readyz").await {
        output.print(&json!({"running": false, "state": state, "address": address}), || {
            format!("not running: {address} does not answer ({error:#}). Start it with `socialweb-computer serve`")
        })?;
        return Ok(ExitCode::from(NOT_RUNNING));
    }
    let clusters: Vec<Cluster> = client.list("", &ListOptions::default()).await.context("clusters")?;
    let claims: Vec<NodeClaim> = client.list("", &ListOptions::default()).await.context("machines")?;
    let value = json!({
        "running": true, "state": state, "address": address,
        "clusters": clusters.len(), "machines": claims.len(),
    });
    output.print(&value, || {
        format!(
            "running at {address}\nstate:     {}\nclusters:  {}\nmachines:  {}",
            state.display(),
            clusters.len(),
            claims.len()
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
