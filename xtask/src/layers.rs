//! The layer rule: crates depend downward only, and L2 crates never on each other.

use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// `layers.toml`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Rules {
    layers: BTreeMap<String, Vec<String>>,
    same_layer: BTreeMap<String, Vec<String>>,
}

/// Checks every edge between workspace crates.
///
/// # Errors
/// Every edge that breaks the rule, and every crate that is not in the list or no longer exists.
pub(crate) fn check(metadata: &Value, rules: &str) -> Result<()> {
    let problems = problems(&edges(metadata), &toml::from_str(rules)?);
    if problems.is_empty() {
        return Ok(());
    }
    bail!("the layer rule is broken (see ARCHITECTURE.md, layers.toml):\n  {}", problems.join("\n  "))
}

/// The workspace crates and which others of them each depends on, in any way.
fn edges(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let members = list(&metadata["workspace_members"]);
    let packages: Vec<Value> =
        list(&metadata["packages"]).into_iter().filter(|package| members.contains(&package["id"])).collect();
    let names: Vec<String> = packages.iter().filter_map(|p| p["name"].as_str().map(str::to_owned)).collect();
    packages
        .iter()
        .filter_map(|package| {
            let mut dependencies: Vec<String> = list(&package["dependencies"])
                .iter()
                .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
                .filter(|name| names.contains(name))
                .collect();
            dependencies.sort();
            dependencies.dedup();
            Some((package["name"].as_str()?.to_owned(), dependencies))
        })
        .collect()
}

fn problems(edges: &BTreeMap<String, Vec<String>>, rules: &Rules) -> Vec<String> {
    let layer = |name: &str| rules.layers.iter().find(|(_, crates)| crates.iter().any(|c| c == name)).map(|(l, _)| l);
    let mut problems = Vec::new();
    for name in rules.layers.values().flatten().filter(|name| !edges.contains_key(*name)) {
        problems.push(format!("{name} is listed but does not exist"));
    }
    for (name, dependencies) in edges {
        let Some(own) = layer(name) else {
            problems.push(format!("{name} has no layer"));
            continue;
        };
        for dependency in dependencies {
            let Some(other) = layer(dependency) else { continue };
            let listed = rules.same_layer.get(name).is_some_and(|allowed| allowed.contains(dependency));
            // `tooling` sorts after the layers: it may use any of them, and anyone may use it in tests.
            if own == other && !listed || own < other && other != "tooling" {
                problems.push(format!("{name} ({own}) depends on {dependency} ({other})"));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests;
