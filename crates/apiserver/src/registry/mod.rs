//! The generic registry: every verb for every kind, over the store and the base layer.
//!
//! A request is served by [`Registry::serve`]; the rest of the server reads with [`Registry::get`]
//! and [`Registry::list`]. Nothing is kept in memory per cluster: what a cluster is, is read from
//! the store when it is asked for.

mod accept;
mod admission;
mod base;
mod create;
mod definitions;
mod delete;
pub(crate) mod expire;
mod input;
mod keys;
mod logical;
mod meta;
mod options;
mod patch;
mod query;
mod read;
mod respond;
mod scale;
mod services;
mod subresource;
#[cfg(test)]
mod tests;
mod update;
mod value;
mod watch;
mod write;

pub use definitions::{Definitions, Kind};
pub use logical::{LogicalClusterKind, LogicalClusterRecord};
pub use options::Options;
pub use value::CLUSTER_ANNOTATION;

use crate::request::{ClusterScope, RequestContext};
use apimachinery::definition::{GroupResource, ResourceDefinition};
use apimachinery::status::ApiError;
use base::Base;
use bytes::Bytes;
use controller_runtime::Body;
use http::{HeaderMap, Response};
use serde_json::Value;
use std::sync::Arc;
use store::Store;
use write::Target;

/// Why a registry cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Two definitions claim the same storage.
    #[error("two definitions of {0}")]
    DuplicateDefinition(String),
    /// A base object cannot be served.
    #[error("base object: {0}")]
    BaseObject(String),
}

/// Serves every kind of every logical cluster. Cloning shares it.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    definitions: Definitions,
    base: Base,
    options: Options,
}

impl Registry {
    /// A registry over `store` that serves `definitions`; `base` is what every cluster has from
    /// birth.
    ///
    /// # Errors
    /// When definitions or base objects contradict each other.
    pub fn open(
        store: Arc<dyn Store>,
        definitions: Vec<ResourceDefinition>,
        base: Vec<Value>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let definitions = Definitions::new(definitions)?;
        let base = Base::new(base, &definitions)?;
        Ok(Self(Arc::new(Inner { store, definitions, base, options })))
    }

    /// The kinds that are served.
    #[must_use]
    pub fn definitions(&self) -> &Definitions {
        &self.0.definitions
    }

    /// Where everything is kept.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    pub(super) fn options(&self) -> &Options {
        &self.0.options
    }

    fn base(&self) -> &Base {
        &self.0.base
    }

    /// Answers a request for a resource that has been authorized.
    ///
    /// # Errors
    /// What becomes a `Status` response.
    pub async fn serve(
        &self,
        context: &RequestContext,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Body>, ApiError> {
        let info = &context.info;
        let request = info.resource.as_ref().ok_or_else(ApiError::no_such_path)?;
        let kind = self
            .definitions()
            .find(&request.group, &request.version, &request.resource)
            .filter(|kind| kind.is_stored())
            .ok_or_else(ApiError::no_such_path)?
            .clone();
        let method_error = || ApiError::method_not_supported(&request.group, &request.resource, &info.verb);
        if request.subresource.is_none() && !kind.verbs.contains(&info.verb) {
            return Err(method_error());
        }
        if request.namespace.is_some() && !kind.is_namespaced() {
            return Err(ApiError::no_such_path());
        }
        let ClusterScope::One(cluster) = &info.cluster else {
            return match (info.verb.as_str(), &request.subresource) {
                ("list", None) => self.serve_list(&kind, None, request, info, headers).await,
                ("watch", None) => self.serve_watch(&kind, None, request, info, headers).await,
                _ => Err(method_error()),
            };
        };
        let record = self.logical_cluster(cluster).await?.ok_or_else(|| no_such_cluster(cluster))?;
        if !kind.is_served_in(record.kind) {
            return Err(ApiError::no_such_path());
        }
        match (info.verb.as_str(), &request.subresource) {
            ("list", None) => return self.serve_list(&kind, Some(&record), request, info, headers).await,
            ("watch", None) => return self.serve_watch(&kind, Some(&record), request, info, headers).await,
            _ => {}
        }
        if kind.is_namespaced() && request.namespace.is_none() {
            return Err(method_error());
        }
        let call = Call {
            record: &record,
            kind: &kind,
            namespace: request.namespace.as_deref(),
            info,
            headers,
            body: &body,
            max_body_bytes: self.options().max_body_bytes,
        };
        let target = request.name.as_deref().map(|name| call.target(name));
        match (info.verb.as_str(), request.subresource.as_deref(), target) {
            ("create", None, None) => self.serve_create(&call).await,
            ("deletecollection", None, None) => self.serve_delete_collection(&call, request).await,
            ("get", None | Some("status"), Some(target)) => self.serve_get(&call, &target).await,
            ("update", None, Some(target)) => self.serve_update(&call, &target).await,
            ("patch", None, Some(target)) => self.serve_patch(&call, &target).await,
            ("delete", None, Some(target)) => self.serve_delete(&call, &target).await,
            (_, Some(subresource), Some(target)) => self.serve_subresource(&call, &target, subresource).await,
            _ => Err(method_error()),
        }
    }

    /// Reads one object; base objects too.
    ///
    /// # Errors
    /// When there is no such kind, or the store fails.
    pub async fn get(
        &self,
        cluster: &str,
        resource: &GroupResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, ApiError> {
        let kind = self.definitions().resource(resource).ok_or_else(ApiError::no_such_path)?.clone();
        let Some(record) = self.logical_cluster(cluster).await? else { return Ok(None) };
        let target = Target { record: &record, kind: &kind, namespace, name };
        Ok(self.slot(&target).await?.value)
    }

    /// Reads every object of a kind, in one namespace or in all; base objects too.
    ///
    /// # Errors
    /// When there is no such kind, or the store fails.
    pub async fn list(
        &self,
        cluster: &str,
        resource: &GroupResource,
        namespace: Option<&str>,
    ) -> Result<Vec<Value>, ApiError> {
        let kind = self.definitions().resource(resource).ok_or_else(ApiError::no_such_path)?.clone();
        let Some(record) = self.logical_cluster(cluster).await? else { return Ok(Vec::new()) };
        self.list_values(&kind, &record, namespace).await
    }
}

/// A request for something in one cluster.
struct Call<'a> {
    record: &'a LogicalClusterRecord,
    kind: &'a Kind,
    namespace: Option<&'a str>,
    info: &'a crate::request::RequestInfo,
    headers: &'a HeaderMap,
    body: &'a Bytes,
    max_body_bytes: usize,
}

impl<'a> Call<'a> {
    fn target(&self, name: &'a str) -> Target<'a> {
        Target { record: self.record, kind: self.kind, namespace: self.namespace, name }
    }
}

fn no_such_cluster(cluster: &str) -> ApiError {
    ApiError::new(404, "NotFound", format!("logical cluster {cluster:?} not found"))
}

/// What a client is told of a failure of the store.
fn failure(error: store::Error) -> ApiError {
    match error {
        store::Error::Compacted { requested, oldest } => {
            ApiError::expired(format!("too old resource version: {requested} ({oldest})"))
        }
        store::Error::Future { requested, newest } => {
            ApiError::new(504, "Timeout", format!("Too large resource version: {requested}, current: {newest}"))
                .with_details(serde_json::json!({
                    "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                    "retryAfterSeconds": 1,
                }))
        }
        store::Error::OutOfSpace => {
            ApiError::new(507, "InsufficientStorage", "the server has no room left to store the object")
        }
        store::Error::Invalid(why) => ApiError::new(413, "RequestEntityTooLarge", why),
        store::Error::WatchLagged => ApiError::expired("the watch fell behind"),
        store::Error::Closed => ApiError::unavailable("the server is shutting down"),
        error => {
            tracing::error!(%error, "the store failed");
            ApiError::internal("the store failed")
        }
    }
}
