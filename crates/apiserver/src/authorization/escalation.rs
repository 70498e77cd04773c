//! Nobody grants more than they have: the check on writes of roles and bindings.

use super::rbac::{self, Rule, Rules};
use super::{Attributes, Authorizer, RBAC_GROUP};
use crate::registry::Registry;
use apimachinery::auth::{GROUP_MASTERS, UserInfo};
use apimachinery::definition::GroupResource;
use apimachinery::status::ApiError;
use serde_json::Value;

/// Whether a request writes a role or a binding on behalf of somebody who is not an administrator.
pub(crate) fn applies(user: &UserInfo, asked: &Attributes) -> bool {
    asked.group == RBAC_GROUP
        && matches!(asked.verb.as_str(), "create" | "update" | "patch")
        && matches!(asked.resource.as_str(), "roles" | "clusterroles" | "rolebindings" | "clusterrolebindings")
        && !user.in_group(GROUP_MASTERS)
}

/// Refuses a role or binding, as it would be after the write, that grants what `user` has not.
pub(crate) async fn check(
    authorizer: &Authorizer,
    registry: &Registry,
    cluster: &str,
    user: &UserInfo,
    asked: &Attributes,
    object: &Value,
) -> Result<(), ApiError> {
    let rules = authorizer.rules(cluster).await?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let (verb, kind, role_name) = if asked.resource.ends_with("bindings") {
        let kind = if object["roleRef"]["kind"] == "ClusterRole" { "clusterroles" } else { "roles" };
        ("bind", kind, object["roleRef"]["name"].as_str().unwrap_or_default())
    } else {
        ("escalate", asked.resource.as_str(), name)
    };
    let special = Attributes {
        verb: verb.into(),
        group: RBAC_GROUP.into(),
        version: asked.version.clone(),
        resource: kind.into(),
        namespace: asked.namespace.clone(),
        name: role_name.into(),
        ..Attributes::default()
    };
    if rules.allow(user, &special) {
        return Ok(());
    }
    let resource = GroupResource { group: RBAC_GROUP.into(), resource: kind.into() };
    let namespace = (kind == "roles").then_some(asked.namespace.as_str());
    let stored = registry.get(cluster, &resource, namespace, role_name).await?;
    let role = if verb == "bind" {
        // A binding may come before its role; whoever makes the role is then checked.
        stored.ok_or_else(|| ApiError::not_found(RBAC_GROUP, kind, role_name))?
    } else {
        let unchanged = |field: &str| stored.as_ref().is_some_and(|stored| stored.get(field) == object.get(field));
        if unchanged("rules") && unchanged("aggregationRule") {
            return Ok(());
        }
        object.clone()
    };
    let missing = missing(&rules, user, &asked.namespace, &role);
    if missing.is_empty() {
        return Ok(());
    }
    let listed: Vec<String> = missing.iter().map(words).collect();
    let why = format!(
        "user {:?} (groups={:?}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        user.groups,
        listed.join("\n")
    );
    Err(ApiError::forbidden(RBAC_GROUP, &asked.resource, name, &why))
}

/// The rules of a role that the user does not have. An aggregated role may come to hold anything.
fn missing(held: &Rules, user: &UserInfo, namespace: &str, role: &Value) -> Vec<Rule> {
    let held: Vec<&Rule> = held.rules_of(user, Some(namespace)).collect();
    let mut wanted = rbac::rules(role);
    if role["aggregationRule"].is_object() {
        let any = || vec!["*".to_owned()];
        wanted.push(Rule { verbs: any(), groups: any(), resources: any(), ..Rule::default() });
        wanted.push(Rule { verbs: any(), urls: any(), ..Rule::default() });
    }
    wanted.retain(|rule| !rbac::covers(&held, rule));
    wanted
}

/// A rule as Kubernetes prints it in a refusal.
fn words(rule: &Rule) -> String {
    let parts = [
        ("APIGroups", &rule.groups),
        ("Resources", &rule.resources),
        ("ResourceNames", &rule.names),
        ("NonResourceURLs", &rule.urls),
        ("Verbs", &rule.verbs),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(name, values)| format!("{name}:{}", serde_json::json!(values)))
        .collect();
    format!("{{{}}}", parts.join(", "))
}
