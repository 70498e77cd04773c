//! Who may do what: administrators, nodes, and RBAC over the objects of the request's own cluster.

pub(crate) mod attributes;
mod cache;
pub(crate) mod escalation;
pub(crate) mod node;
pub(crate) mod rbac;

pub(crate) use attributes::Attributes;

use crate::options::Options;
use crate::registry::Registry;
use apimachinery::auth::{GROUP_MASTERS, UserInfo};
use apimachinery::definition::GroupResource;
use apimachinery::status::ApiError;
use cache::Cache;
use rbac::{Objects, Rules};
use std::sync::Arc;

/// API group of the RBAC kinds.
pub(crate) const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Decides about requests in one logical cluster.
pub(crate) struct Authorizer {
    registry: Registry,
    cache: Cache,
}

impl Authorizer {
    pub(crate) fn new(registry: Registry, options: &Options) -> Self {
        Self { registry, cache: Cache::new(options.rbac_cache_clusters, options.rbac_cache_idle) }
    }

    /// Whether `user` may do what is asked in `cluster`. `node_selector` is what a list's field
    /// selector demands of `spec.nodeName`.
    pub(crate) async fn allows(
        &self,
        cluster: &str,
        user: &UserInfo,
        asked: &Attributes,
        node_selector: Option<&str>,
    ) -> Result<bool, ApiError> {
        if user.in_group(GROUP_MASTERS) {
            return Ok(true);
        }
        if let Some(node) = node::node_of(user) {
            match node::decide(node, asked, node_selector) {
                node::Verdict::Allow => return Ok(true),
                node::Verdict::IfOwnPod if self.runs_on(cluster, asked, node).await? => return Ok(true),
                node::Verdict::IfOwnPod | node::Verdict::NoOpinion => {}
            }
        }
        Ok(self.rules(cluster).await?.allow(user, asked))
    }

    /// Refuses what `user` may not do.
    pub(crate) async fn check(
        &self,
        cluster: &str,
        user: &UserInfo,
        asked: &Attributes,
        node_selector: Option<&str>,
    ) -> Result<(), ApiError> {
        if self.allows(cluster, user, asked, node_selector).await? { Ok(()) } else { Err(refuse(user, asked)) }
    }

    /// The compiled rules of a cluster.
    pub(crate) async fn rules(&self, cluster: &str) -> Result<Arc<Rules>, ApiError> {
        self.cache.follow(self.registry.store()).await;
        if let Some(rules) = self.cache.get(cluster) {
            return Ok(rules);
        }
        let changes = self.cache.changes();
        let rules = Arc::new(Rules::compile(&self.objects(cluster).await?));
        self.cache.insert(cluster, &rules, changes);
        Ok(rules)
    }

    /// Drops what has not been used for long.
    pub(crate) async fn sweep(&self) {
        self.cache.sweep().await;
    }

    async fn objects(&self, cluster: &str) -> Result<Objects, ApiError> {
        let list = async |resource: &str| {
            let kind = GroupResource { group: RBAC_GROUP.into(), resource: resource.into() };
            self.registry.list(cluster, &kind, None).await
        };
        Ok(Objects {
            roles: list("roles").await?,
            role_bindings: list("rolebindings").await?,
            cluster_roles: list("clusterroles").await?,
            cluster_role_bindings: list("clusterrolebindings").await?,
        })
    }

    /// Whether the Pod that is asked for is bound to the node.
    async fn runs_on(&self, cluster: &str, asked: &Attributes, node: &str) -> Result<bool, ApiError> {
        let pods = GroupResource { group: String::new(), resource: "pods".into() };
        let pod = self.registry.get(cluster, &pods, Some(&asked.namespace), &asked.name).await?;
        Ok(pod.is_some_and(|pod| pod["spec"]["nodeName"] == node))
    }
}

/// The 403 for a request.
pub(crate) fn refuse(user: &UserInfo, asked: &Attributes) -> ApiError {
    let why = asked.refusal(&user.name);
    if asked.path.is_some() {
        return ApiError::new(403, "Forbidden", format!("forbidden: {why}")).with_details(serde_json::json!({}));
    }
    ApiError::forbidden(&asked.group, &asked.resource, &asked.name, &why)
}
