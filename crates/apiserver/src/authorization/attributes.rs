//! What authorization decides about: a verb on a resource or on a path.

use crate::request::RequestInfo;

/// The attributes of one request, as RBAC rules name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    /// Set for a request that is not for a resource.
    pub(crate) path: Option<String>,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Attributes {
    /// The attributes of a request. A list that is narrowed to one name counts as for that name.
    pub(crate) fn of(info: &RequestInfo) -> Self {
        let Some(resource) = &info.resource else {
            return Self { verb: info.verb.clone(), path: Some(info.path.clone()), ..Self::default() };
        };
        let name = resource.name.clone().or_else(|| match info.verb.as_str() {
            "list" | "watch" | "deletecollection" => field_selector(info, "metadata.name"),
            _ => None,
        });
        let is_namespace = resource.group.is_empty() && resource.resource == "namespaces";
        let namespace = match &resource.namespace {
            None if is_namespace => resource.name.clone(),
            other => other.clone(),
        };
        Self {
            verb: info.verb.clone(),
            path: None,
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.resource.clone(),
            subresource: resource.subresource.clone().unwrap_or_default(),
            namespace: namespace.unwrap_or_default(),
            name: name.unwrap_or_default(),
        }
    }

    /// `pods` or `pods/log`.
    pub(crate) fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// What a refusal says, in the words of a Kubernetes API server.
    pub(crate) fn refusal(&self, user: &str) -> String {
        if let Some(path) = &self.path {
            return format!("User {user:?} cannot {} path {path:?}", self.verb);
        }
        let scope = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", self.namespace)
        };
        format!(
            "User {user:?} cannot {} resource {:?} in API group {:?} {scope}",
            self.verb,
            self.full_resource(),
            self.group
        )
    }
}

/// The value that a request's field selector demands of a field.
pub(crate) fn field_selector(info: &RequestInfo, field: &str) -> Option<String> {
    info.query("fieldSelector")?.split(',').find_map(|requirement| {
        let (left, right) = requirement.split_once('=')?;
        (left == field).then(|| right.strip_prefix('=').unwrap_or(right).to_owned())
    })
}
