//! What a node agent may do: what a kubelet needs, with writes only to what is its own.
//!
//! Pure: whether a Pod is bound to the node is looked up by the caller where the answer says so.

use super::attributes::Attributes;
use apimachinery::auth::{GROUP_NODES, UserInfo};
use apimachinery::status::ApiError;
use serde_json::Value;

/// Prefix of the name of every node's user.
pub(crate) const USER_PREFIX: &str = "system:node:";
/// Namespace of the nodes' leases.
const LEASES: &str = "kube-node-lease";

/// The node that a user is, if it is one.
pub(crate) fn node_of(user: &UserInfo) -> Option<&str> {
    user.in_group(GROUP_NODES).then(|| user.name.strip_prefix(USER_PREFIX))?.filter(|name| !name.is_empty())
}

/// What the node authorizer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Allowed.
    Allow,
    /// Allowed if the named Pod is bound to the node.
    IfOwnPod,
    /// Not the node authorizer's to allow; RBAC may.
    NoOpinion,
}

/// Decides for the node `node`. `node_selector` is what the request's field selector demands of
/// `spec.nodeName`.
pub(crate) fn decide(node: &str, asked: &Attributes, node_selector: Option<&str>) -> Verdict {
    if asked.path.is_some() {
        return Verdict::NoOpinion;
    }
    let read = matches!(asked.verb.as_str(), "get" | "list" | "watch");
    let full = asked.full_resource();
    match (asked.group.as_str(), full.as_str(), asked.verb.as_str()) {
        ("", "services" | "endpoints" | "configmaps" | "secrets" | "namespaces" | "serviceaccounts", _) if read => {
            Verdict::Allow
        }
        ("discovery.k8s.io", "endpointslices", _) if read => Verdict::Allow,
        // The body's name is checked when it is read.
        ("", "nodes", "create") => Verdict::Allow,
        ("", "nodes", _) if read => Verdict::Allow,
        ("", "nodes" | "nodes/status", "get" | "update" | "patch") if asked.name == node => Verdict::Allow,
        ("coordination.k8s.io", "leases", "create") if asked.namespace == LEASES => Verdict::Allow,
        ("coordination.k8s.io", "leases", "get" | "update" | "patch" | "delete")
            if asked.namespace == LEASES && asked.name == node =>
        {
            Verdict::Allow
        }
        ("", "pods", "list" | "watch") if node_selector == Some(node) => Verdict::Allow,
        ("", "pods", "get" | "delete" | "watch" | "list") if !asked.name.is_empty() => Verdict::IfOwnPod,
        ("", "pods/status", "get" | "update" | "patch") => Verdict::IfOwnPod,
        // Its binding to one of the node's Pods is checked when the body is read.
        ("", "serviceaccounts/token", "create") => Verdict::Allow,
        ("" | "events.k8s.io", "events", "create" | "patch" | "update") => Verdict::Allow,
        _ => Verdict::NoOpinion,
    }
}

/// Refuses the creation of a Node or a Lease of another name than the node's own.
pub(crate) fn check_body(node: &str, asked: &Attributes, body: &[u8]) -> Result<(), ApiError> {
    let own_only = asked.verb == "create" && matches!(asked.full_resource().as_str(), "nodes" | "leases");
    if !own_only {
        return Ok(());
    }
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name == node {
        return Ok(());
    }
    let why = format!("node {node:?} is not allowed to modify {} {name:?}", asked.resource.trim_end_matches('s'));
    Err(ApiError::forbidden(&asked.group, &asked.resource, name, &why))
}

#[cfg(test)]
mod tests {
    //! Tables of what a node may do.

    use super::*;

    fn asked(verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> Attributes {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Attributes {
            verb: verb.into(),
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
            ..Attributes::default()
        }
    }

    #[test]
    fn decisions() {
        use Verdict::{Allow, IfOwnPod, NoOpinion};
        let lease = "coordination.k8s.io";
        let table = [
            (asked("patch", "", "nodes/status", "", "n1"), None, Allow),
            (asked("patch", "", "nodes/status", "", "n2"), None, NoOpinion),
            (asked("delete", "", "nodes", "", "n1"), None, NoOpinion),
            (asked("update", "", "nodes", "", "n2"), None, NoOpinion),
            (asked("watch", "", "services", "", ""), None, Allow),
            (asked("update", "", "services", "a", "s"), None, NoOpinion),
            (asked("get", "", "secrets", "a", "s"), None, Allow),
            (asked("create", "", "secrets", "a", ""), None, NoOpinion),
            (asked("list", "", "pods", "", ""), None, NoOpinion),
            (asked("list", "", "pods", "", ""), Some("n1"), Allow),
            (asked("watch", "", "pods", "", ""), Some("n2"), NoOpinion),
            (asked("get", "", "pods", "a", "p"), None, IfOwnPod),
            (asked("patch", "", "pods/status", "a", "p"), None, IfOwnPod),
            (asked("patch", "", "pods", "a", "p"), None, NoOpinion),
            (asked("create", "", "pods", "a", ""), None, NoOpinion),
            (asked("create", "", "pods/exec", "a", "p"), None, NoOpinion),
            (asked("create", "", "serviceaccounts/token", "a", "default"), None, Allow),
            (asked("update", lease, "leases", "kube-node-lease", "n1"), None, Allow),
            (asked("update", lease, "leases", "kube-node-lease", "n2"), None, NoOpinion),
            (asked("update", lease, "leases", "default", "n1"), None, NoOpinion),
            (asked("create", "", "events", "a", ""), None, Allow),
            (asked("create", "rbac.authorization.k8s.io", "clusterroles", "", ""), None, NoOpinion),
        ];
        for (asked, selector, verdict) in table {
            assert_eq!(decide("n1", &asked, selector), verdict, "{asked:?}");
        }
    }

    #[test]
    fn bodies() {
        let create = asked("create", "", "nodes", "", "");
        assert!(check_body("n1", &create, br#"{"metadata":{"name":"n1"}}"#).is_ok());
        assert_eq!(check_body("n1", &create, br#"{"metadata":{"name":"n2"}}"#).unwrap_err().code, 403);
        assert_eq!(check_body("n1", &create, b"rubbish").unwrap_err().code, 403);
        assert!(check_body("n1", &asked("create", "", "events", "a", ""), b"{}").is_ok());
    }

    #[test]
    fn only_nodes_are_nodes() {
        let mut user = UserInfo { name: "system:node:n1".into(), ..UserInfo::default() };
        assert_eq!(node_of(&user), None);
        user.groups.push(GROUP_NODES.into());
        assert_eq!(node_of(&user), Some("n1"));
        user.name = "n1".into();
        assert_eq!(node_of(&user), None);
    }
}
