//! The licence rule: every dependency may be used under a licence that suits Apache-2.0.

use anyhow::{Result, bail};
use serde_json::Value;

const ALLOWED: [&str; 12] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
    "CDLA-Permissive-2.0",
    "CC0-1.0",
];

/// Packages that say their licence in a file only, and what that file is.
const IN_A_FILE: [(&str, &str); 1] = [("rust-criu", "MIT")];

/// Checks the licence of every package in the lock file.
///
/// # Errors
/// Every package whose licence expression cannot be satisfied with the allowed ones.
pub(crate) fn check(metadata: &Value) -> Result<()> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let bad: Vec<String> = packages
        .iter()
        .filter(|package| {
            let in_a_file = IN_A_FILE.iter().find(|(name, _)| package["name"] == *name).map(|(_, licence)| *licence);
            !package["license"].as_str().or(in_a_file).is_some_and(allowed)
        })
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    if bad.is_empty() {
        return Ok(());
    }
    bail!("these dependencies have no licence that we may use:\n  {}", bad.join("\n  "))
}

/// Whether an SPDX expression can be satisfied. `OR` binds weaker than `AND`; `/` is the old `OR`.
fn allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    if let Some((before, inner, after)) = innermost(&expression) {
        let verdict = if allowed(inner) { ALLOWED[0] } else { "none" };
        return allowed(&format!("{before}{verdict}{after}"));
    }
    expression.split(" OR ").any(|all| all.split(" AND ").all(|one| ALLOWED.contains(&one.trim())))
}

/// Splits around the innermost parentheses.
fn innermost(expression: &str) -> Option<(&str, &str, &str)> {
    let close = expression.find(')')?;
    let open = expression[..close].rfind('(')?;
    Some((&expression[..open], &expression[open + 1..close], &expression[close + 1..]))
}

#[cfg(test)]
mod tests;
