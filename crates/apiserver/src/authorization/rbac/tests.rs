//! Tables of rules and what they allow.

use super::*;
use serde_json::json;

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo { name: name.into(), groups: groups.iter().map(|g| (*g).to_owned()).collect(), ..UserInfo::default() }
}

/// `verb group/resource/subresource namespace name`, `-` for nothing; or `verb /path`.
fn asked(text: &str) -> Attributes {
    let words: Vec<&str> = text.split(' ').map(|w| if w == "-" { "" } else { w }).collect();
    if words[1].starts_with('/') {
        return Attributes { verb: words[0].into(), path: Some(words[1].into()), ..Attributes::default() };
    }
    let resource: Vec<&str> = words[1].split('/').collect();
    Attributes {
        verb: words[0].into(),
        group: resource[0].replace("core", ""),
        resource: resource[1].into(),
        subresource: resource.get(2).copied().unwrap_or_default().into(),
        namespace: words[2].into(),
        name: words.get(3).copied().unwrap_or_default().into(),
        ..Attributes::default()
    }
}

fn role(name: &str, namespace: Option<&str>, rules: Value) -> Value {
    let mut role = json!({"metadata": {"name": name}, "rules": rules});
    if let Some(namespace) = namespace {
        role["metadata"]["namespace"] = namespace.into();
    }
    role
}

fn binding(namespace: Option<&str>, kind: &str, role: &str, subjects: Value) -> Value {
    let mut binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": kind, "name": role}, "subjects": subjects});
    if let Some(namespace) = namespace {
        binding["metadata"]["namespace"] = namespace.into();
    }
    binding
}

fn compiled() -> Rules {
    Rules::compile(&Objects {
        roles: vec![role(
            "pods",
            Some("a"),
            json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]},
                   {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"]}]),
        )],
        role_bindings: vec![
            binding(Some("a"), "Role", "pods", json!([{"kind": "User", "name": "ann"}])),
            binding(Some("b"), "Role", "pods", json!([{"kind": "User", "name": "ann"}])),
            binding(Some("b"), "ClusterRole", "view", json!([{"kind": "ServiceAccount", "name": "bot"}])),
        ],
        cluster_roles: vec![
            role(
                "all",
                None,
                json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]),
            ),
            role("health", None, json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez/*"]}])),
            role("scale", None, json!([{"verbs": ["update"], "apiGroups": ["apps"], "resources": ["*/scale"]}])),
            json!({"metadata": {"name": "part", "labels": {"view": "true"}},
                   "rules": [{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"]}]}),
            json!({"metadata": {"name": "view"}, "rules": [],
                   "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"view": "true"}}]}}),
        ],
        cluster_role_bindings: vec![
            binding(None, "ClusterRole", "all", json!([{"kind": "Group", "name": "admins"}])),
            binding(None, "ClusterRole", "health", json!([{"kind": "Group", "name": "everyone"}])),
            binding(None, "ClusterRole", "scale", json!([{"kind": "ServiceAccount", "namespace": "b", "name": "bot"}])),
            binding(None, "ClusterRole", "absent", json!([{"kind": "User", "name": "ann"}])),
        ],
    })
}

#[test]
fn decisions() {
    let rules = compiled();
    let table: &[(&str, &str, &[&str], bool)] = &[
        ("get core/pods a x", "ann", &[], true),
        ("list core/pods a", "ann", &[], true),
        ("get core/pods/log a x", "ann", &[], true),
        ("get core/pods/exec a x", "ann", &[], false),
        ("delete core/pods a x", "ann", &[], false),
        ("get core/pods b x", "ann", &[], false),
        ("list core/pods -", "ann", &[], false),
        ("get apps/pods a x", "ann", &[], false),
        ("get core/secrets a one", "ann", &[], true),
        ("get core/secrets a two", "ann", &[], false),
        ("list core/secrets a", "ann", &[], false),
        ("get core/pods a x", "bob", &[], false),
        ("delete core/nodes - x", "bob", &["admins"], true),
        ("get /metrics", "bob", &["admins"], true),
        ("get /healthz", "bob", &["everyone"], true),
        ("get /livez/ping", "bob", &["everyone"], true),
        ("get /healthz/ping", "bob", &["everyone"], false),
        ("post /healthz", "bob", &["everyone"], false),
        ("get apps/deployments b x", "system:serviceaccount:b:bot", &[], true),
        ("get apps/deployments a x", "system:serviceaccount:b:bot", &[], false),
        ("get apps/deployments b x", "system:serviceaccount:a:bot", &[], false),
        ("update apps/deployments/scale a x", "system:serviceaccount:b:bot", &[], true),
        ("update apps/deployments a x", "system:serviceaccount:b:bot", &[], false),
    ];
    for (text, name, groups, allowed) in table {
        assert_eq!(rules.allow(&user(name, groups), &asked(text)), *allowed, "{name} {groups:?}: {text}");
    }
}

#[test]
fn nobody_grants_more_than_they_have() {
    let parse = |value: Value| rules(&json!({"rules": value}));
    let held = parse(json!([
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/status"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"]},
        {"verbs": ["get"], "nonResourceURLs": ["/a/*"]},
    ]));
    let held: Vec<&Rule> = held.iter().collect();
    let table = [
        (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}), true),
        (json!({"verbs": ["get", "delete"], "apiGroups": [""], "resources": ["pods"]}), false),
        (json!({"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}), false),
        (json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["pods"]}), false),
        (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["*"]}), false),
        (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/status"]}), true),
        (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}), false),
        (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"]}), true),
        (
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one", "two"]}),
            false,
        ),
        (json!({"verbs": ["get"], "nonResourceURLs": ["/a/b", "/a/*"]}), true),
        (json!({"verbs": ["get"], "nonResourceURLs": ["*"]}), false),
    ];
    for (wanted, covered) in table {
        let rule = parse(json!([wanted])).remove(0);
        assert_eq!(covers(&held, &rule), covered, "{wanted}");
    }
    let everything = parse(
        json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]),
    );
    let everything_held: Vec<&Rule> = everything.iter().collect();
    assert!(everything.iter().all(|rule| covers(&everything_held, rule)));
}
