//! A notation for roles and bindings, and what becomes of it.
//!
//! Lists are words separated by spaces; `core` is the group without a name.

use super::super::rbac::GROUP;
use serde_json::{Map, Value, json};

/// One rule of a role.
#[derive(Clone, Copy)]
pub(super) enum Grant {
    /// Verbs on resources of API groups.
    On { verbs: &'static str, groups: &'static str, resources: &'static str },
    /// Verbs on the named ones among the resources of API groups.
    Named { verbs: &'static str, groups: &'static str, resources: &'static str, names: &'static str },
    /// `get` on paths.
    Paths(&'static str),
    /// Everything on every path.
    EveryPath,
}

/// Verbs on resources of API groups.
pub(super) const fn on(verbs: &'static str, groups: &'static str, resources: &'static str) -> Grant {
    Grant::On { verbs, groups, resources }
}

impl Grant {
    fn rule(self) -> Value {
        match self {
            Self::On { verbs, groups, resources } => {
                json!({"verbs": words(verbs), "apiGroups": api_groups(groups), "resources": words(resources)})
            }
            Self::Named { verbs, groups, resources, names } => json!({
                "verbs": words(verbs),
                "apiGroups": api_groups(groups),
                "resources": words(resources),
                "resourceNames": words(names),
            }),
            Self::Paths(paths) => json!({"verbs": ["get"], "nonResourceURLs": words(paths)}),
            Self::EveryPath => json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
        }
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn api_groups(text: &str) -> Vec<&str> {
    words(text).into_iter().map(|group| if group == "core" { "" } else { group }).collect()
}

/// A ClusterRole.
pub(super) fn cluster_role(name: &str, grants: impl IntoIterator<Item = Grant>) -> Value {
    let rules: Vec<Value> = grants.into_iter().map(Grant::rule).collect();
    json!({"apiVersion": api_version(), "kind": "ClusterRole", "metadata": metadata(name), "rules": rules})
}

/// A Role in `namespace`.
pub(super) fn role(namespace: &str, name: &str, grants: impl IntoIterator<Item = Grant>) -> Value {
    let mut role = cluster_role(name, grants);
    role["kind"] = "Role".into();
    role["metadata"]["namespace"] = namespace.into();
    role
}

/// Whom a binding is for.
#[derive(Clone, Copy)]
pub(super) enum Subject {
    /// A user by name.
    User(&'static str),
    /// A group by name.
    Group(&'static str),
}

impl Subject {
    fn value(self) -> Value {
        let (kind, name) = match self {
            Self::User(name) => ("User", name),
            Self::Group(name) => ("Group", name),
        };
        json!({"apiGroup": GROUP, "kind": kind, "name": name})
    }
}

/// Binds the ClusterRole `name` by a ClusterRoleBinding of the same name.
pub(super) fn cluster_binding(name: &str, subjects: &[Subject]) -> Value {
    binding("ClusterRoleBinding", "ClusterRole", name, subjects)
}

/// Binds the Role `name` of `namespace` by a RoleBinding of the same name.
pub(super) fn role_binding(namespace: &str, name: &str, subjects: &[Subject]) -> Value {
    let mut binding = binding("RoleBinding", "Role", name, subjects);
    binding["metadata"]["namespace"] = namespace.into();
    binding
}

fn binding(kind: &str, role: &str, name: &str, subjects: &[Subject]) -> Value {
    let mut binding = json!({
        "apiVersion": api_version(),
        "kind": kind,
        "metadata": metadata(name),
        "roleRef": {"apiGroup": GROUP, "kind": role, "name": name},
    });
    if !subjects.is_empty() {
        binding["subjects"] = subjects.iter().map(|subject| subject.value()).collect();
    }
    binding
}

fn api_version() -> String {
    format!("{GROUP}/v1")
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

/// The label with which a ClusterRole becomes part of the ClusterRole `role`.
fn aggregation_label(role: &str) -> String {
    format!("{GROUP}/aggregate-to-{role}")
}

/// Makes a ClusterRole part of the ClusterRole `role`.
pub(super) fn part_of(mut part: Value, role: &str) -> Value {
    part["metadata"]["labels"][aggregation_label(role)] = "true".into();
    part
}

/// A ClusterRole that is the sum of those that are labelled as part of it; of those that exist from
/// the start, `grants` is the sum.
pub(super) fn aggregate(name: &str, grants: impl IntoIterator<Item = Grant>) -> Value {
    let mut role = cluster_role(name, grants);
    let labels = Map::from_iter([(aggregation_label(name), "true".into())]);
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
    role
}
