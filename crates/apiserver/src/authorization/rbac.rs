//! RBAC: the roles and bindings of one logical cluster, compiled for decisions. Pure.

use super::attributes::Attributes;
use apimachinery::auth::UserInfo;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// One rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) urls: Vec<String>,
}

/// Whom a binding names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    User(String),
    Group(String),
}

/// What one subject may do: `(namespace, or nothing for everywhere; rules)`.
type Grants = Vec<(Option<String>, Arc<[Rule]>)>;

/// The compiled rules of one logical cluster.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    grants: HashMap<Subject, Grants>,
}

/// The four kinds of RBAC objects of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) roles: Vec<Value>,
    pub(crate) role_bindings: Vec<Value>,
    pub(crate) cluster_roles: Vec<Value>,
    pub(crate) cluster_role_bindings: Vec<Value>,
}

impl Rules {
    /// Compiles the objects. A binding to a role that does not exist grants nothing.
    pub(crate) fn compile(objects: &Objects) -> Self {
        let cluster_roles = cluster_roles(&objects.cluster_roles);
        let roles: HashMap<(&str, &str), Arc<[Rule]>> = objects
            .roles
            .iter()
            .map(|role| ((meta(role, "namespace"), meta(role, "name")), rules(role).into()))
            .collect();
        let mut compiled = Self::default();
        for binding in &objects.cluster_role_bindings {
            let role = &binding["roleRef"];
            if role["kind"] == "ClusterRole"
                && let Some(rules) = cluster_roles.get(role["name"].as_str().unwrap_or_default())
            {
                compiled.grant(binding, None, rules);
            }
        }
        for binding in &objects.role_bindings {
            let namespace = meta(binding, "namespace");
            let role = &binding["roleRef"];
            let name = role["name"].as_str().unwrap_or_default();
            let rules = match role["kind"].as_str() {
                Some("ClusterRole") => cluster_roles.get(name),
                Some("Role") => roles.get(&(namespace, name)),
                _ => None,
            };
            if let Some(rules) = rules {
                compiled.grant(binding, Some(namespace), rules);
            }
        }
        compiled
    }

    fn grant(&mut self, binding: &Value, namespace: Option<&str>, rules: &Arc<[Rule]>) {
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let name = subject["name"].as_str().unwrap_or_default();
            let subject = match subject["kind"].as_str() {
                Some("User") => Subject::User(name.to_owned()),
                Some("Group") => Subject::Group(name.to_owned()),
                Some("ServiceAccount") => {
                    let own = subject["namespace"].as_str().or(namespace).unwrap_or_default();
                    Subject::User(format!("system:serviceaccount:{own}:{name}"))
                }
                _ => continue,
            };
            self.grants.entry(subject).or_default().push((namespace.map(str::to_owned), Arc::clone(rules)));
        }
    }

    /// Whether a rule allows the user what is asked.
    pub(crate) fn allow(&self, user: &UserInfo, asked: &Attributes) -> bool {
        self.rules_of(user, Some(&asked.namespace)).any(|rule| rule.allows(asked))
    }

    /// The rules that hold for a user: everywhere, and in a namespace if one is given.
    pub(crate) fn rules_of<'a>(
        &'a self,
        user: &UserInfo,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Rule> + use<'a> {
        let mut subjects = vec![Subject::User(user.name.clone())];
        subjects.extend(user.groups.iter().cloned().map(Subject::Group));
        subjects
            .into_iter()
            .filter_map(|subject| self.grants.get(&subject))
            .flatten()
            .filter(move |(held, _)| held.is_none() || held.as_deref() == namespace.filter(|n| !n.is_empty()))
            .flat_map(|(_, rules)| rules.iter())
    }
}

impl Rule {
    /// Whether the rule allows what is asked, its namespace aside.
    pub(crate) fn allows(&self, asked: &Attributes) -> bool {
        if !has(&self.verbs, &asked.verb) {
            return false;
        }
        if let Some(path) = &asked.path {
            return self.urls.iter().any(|url| match url.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => url == path,
            });
        }
        has(&self.groups, &asked.group)
            && self.covers_resource(&asked.resource, &asked.subresource)
            && (self.names.is_empty() || self.names.contains(&asked.name))
    }

    fn covers_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|covered| {
            if covered == "*" {
                return true;
            }
            match covered.split_once('/') {
                None => subresource.is_empty() && covered == resource,
                Some((parent, child)) => child == subresource && (parent == resource || parent == "*"),
            }
        })
    }

    /// Whether the rule allows everything that `other` does, for one verb, group, resource and name
    /// of it at a time.
    fn covers(&self, other: &Attributes, any_name: bool) -> bool {
        let verb = has(&self.verbs, &other.verb);
        if let Some(path) = &other.path {
            return verb
                && self.urls.iter().any(|url| match url.strip_suffix('*') {
                    Some(prefix) => path.starts_with(prefix),
                    None => url == path,
                });
        }
        verb && has(&self.groups, &other.group)
            && (self.resources.iter().any(|r| r == "*")
                || self.resources.contains(&other.full_resource())
                || (!other.subresource.is_empty() && self.covers_resource(&other.resource, &other.subresource)))
            && (self.names.is_empty() || (!any_name && self.names.contains(&other.name)))
    }
}

/// Whether `held` rules together allow everything that `wanted` allows: who grants a role must have
/// what it grants.
pub(crate) fn covers(held: &[&Rule], wanted: &Rule) -> bool {
    let held_by = |asked: &Attributes, any_name: bool| held.iter().any(|rule| rule.covers(asked, any_name));
    wanted.verbs.iter().all(|verb| {
        let urls = wanted.urls.iter().all(|url| {
            held_by(&Attributes { verb: verb.clone(), path: Some(url.clone()), ..Attributes::default() }, true)
        });
        let resources = wanted.groups.iter().all(|group| {
            wanted.resources.iter().all(|resource| {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                let mut asked = Attributes {
                    verb: verb.clone(),
                    group: group.clone(),
                    resource: resource.to_owned(),
                    subresource: subresource.to_owned(),
                    ..Attributes::default()
                };
                if wanted.names.is_empty() {
                    return held_by(&asked, true);
                }
                wanted.names.iter().all(|name| {
                    asked.name.clone_from(name);
                    held_by(&asked, false)
                })
            })
        });
        urls && resources
    })
}

/// The rules of a role object.
pub(crate) fn rules(role: &Value) -> Vec<Rule> {
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    role["rules"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|rule| Rule {
            verbs: texts(rule, "verbs"),
            groups: texts(rule, "apiGroups"),
            resources: texts(rule, "resources"),
            names: texts(rule, "resourceNames"),
            urls: texts(rule, "nonResourceURLs"),
        })
        .collect()
}

/// Cluster roles by name. An aggregated role has the rules of those that it selects, besides its
/// own, so that nothing needs to keep it up to date.
fn cluster_roles(objects: &[Value]) -> BTreeMap<&str, Arc<[Rule]>> {
    objects
        .iter()
        .map(|role| {
            let mut all = rules(role);
            for selector in role["aggregationRule"]["clusterRoleSelectors"].as_array().into_iter().flatten() {
                let selected = objects.iter().filter(|other| selects(selector, other));
                all.extend(selected.filter(|other| meta(other, "name") != meta(role, "name")).flat_map(rules));
            }
            (meta(role, "name"), all.into())
        })
        .collect()
}

/// Whether a label selector selects an object.
fn selects(selector: &Value, object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    let equal =
        selector["matchLabels"].as_object().into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let expressions = selector["matchExpressions"].as_array();
    let matched = expressions.into_iter().flatten().all(|expression| {
        let label = expression["key"].as_str().and_then(|key| labels.get(key));
        let listed = || expression["values"].as_array().is_some_and(|values| label.is_some_and(|l| values.contains(l)));
        match expression["operator"].as_str() {
            Some("In") => listed(),
            Some("NotIn") => !listed(),
            Some("Exists") => label.is_some(),
            Some("DoesNotExist") => label.is_none(),
            _ => false,
        }
    });
    equal && matched
}

fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn has(list: &[String], word: &str) -> bool {
    list.iter().any(|item| item == "*" || item == word)
}

#[cfg(test)]
mod tests;
