//! `check-host`: what this host can do, and what to install.

use crate::arguments::MachineOptions;
use crate::output::Format;
use crate::paths::Paths;
use crate::serve;
use anyhow::Result;
use microvm::Severity;
use serde_json::json;
use std::process::ExitCode;

/// Runs the command. Fails when something is missing without which no node can start.
pub(crate) async fn run(paths: &Paths, output: Format, machines: MachineOptions) -> Result<ExitCode> {
    let findings = microvm::check_host(&serve::host_options(paths, &machines)?);
    let value: Vec<_> = findings
        .iter()
        .map(|finding| {
            json!({"name": finding.name, "severity": finding.severity.to_string(),
                   "detail": finding.detail, "fix": finding.fix})
        })
        .collect();
    output.print(&value, || {
        findings
            .iter()
            .map(|finding| {
                let fix = finding.fix.as_ref().map_or(String::new(), |fix| format!("\n         fix: {fix}"));
                format!("{:<8} {}: {}{fix}\n", finding.severity, finding.name, finding.detail)
            })
            .collect()
    })?;
    let broken = findings.iter().any(|finding| finding.severity == Severity::Error);
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
