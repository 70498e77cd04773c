//! The layer rule, as a table.

use super::{Rules, problems};
use std::collections::BTreeMap;

fn judge(edges: &[(&str, &[&str])]) -> Vec<String> {
    let rules: Rules = toml::from_str(
        r#"
        [layers]
        L0 = ["low", "lower"]
        L2 = ["left", "right"]
        tooling = ["tool"]
        [same-layer]
        low = ["lower"]
        "#,
    )
    .unwrap();
    let mut all: BTreeMap<String, Vec<String>> =
        ["low", "lower", "left", "right", "tool"].into_iter().map(|name| (name.to_owned(), Vec::new())).collect();
    for (name, dependencies) in edges {
        all.insert((*name).to_owned(), dependencies.iter().map(|d| (*d).to_owned()).collect());
    }
    problems(&all, &rules)
}

#[test]
fn downward_edges_listed_edges_and_tools_are_allowed() {
    assert!(judge(&[("left", &["low", "tool"]), ("low", &["lower"]), ("tool", &["left"])]).is_empty());
}

#[test]
fn sideways_upward_and_unlisted_are_not() {
    assert_eq!(judge(&[("left", &["right"])]), ["left (L2) depends on right (L2)"]);
    assert_eq!(judge(&[("low", &["left"])]), ["low (L0) depends on left (L2)"]);
    assert_eq!(judge(&[("lower", &["low"])]), ["lower (L0) depends on low (L0)"]);
    assert_eq!(judge(&[("new", &[])]), ["new has no layer"]);
}
