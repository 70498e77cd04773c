//! What a request asks for, once parsed: the facts that authentication, authorization and the
//! registry decide on.

mod parse;

pub(crate) use parse::{NodePath, parse, truthy};

use apimachinery::auth::UserInfo;
use apimachinery::definition::GroupResource;

/// The logical cluster of the server's first workspace.
pub const ROOT_CLUSTER: &str = "root";

/// Which logical clusters a request ranges over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterScope {
    /// One, by name.
    One(String),
    /// Every one (`/clusters/*`): list and watch only, of stored objects only.
    Every,
}

/// The request attributes of Kubernetes authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// Logical cluster.
    pub cluster: ClusterScope,
    /// `get list watch create update patch delete deletecollection`, or for non-resource paths the
    /// lower-case HTTP method.
    pub verb: String,
    /// Path below `/clusters/<name>`.
    pub path: String,
    /// Set for requests below `/api/<v>/` and `/apis/<g>/<v>/` that name a resource.
    pub resource: Option<ResourceRequest>,
    /// Decoded query parameters in order.
    pub query: Vec<(String, String)>,
}

/// The resource part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRequest {
    /// API group; empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural resource.
    pub resource: String,
    /// Namespace, if the path has one. For `/api/v1/namespaces/<name>` itself this is `None`, as
    /// the request is for a cluster-scoped object.
    pub namespace: Option<String>,
    /// Object name, if the path has one.
    pub name: Option<String>,
    /// Subresource, if the path has one.
    pub subresource: Option<String>,
}

impl ResourceRequest {
    /// Group and plural.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }
}

impl RequestInfo {
    /// The first value of a query parameter.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }
}

/// A request together with who makes it.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// What is asked.
    pub info: RequestInfo,
    /// By whom; already authorized.
    pub user: UserInfo,
}
