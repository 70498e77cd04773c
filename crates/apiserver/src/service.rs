//! The path of a request: parse, authenticate, authorize, route.

use crate::GROUP_CONTROLLERS;
use crate::authentication::{Authenticator, Identity, Peer, impersonation};
use crate::authorization::attributes::field_selector;
use crate::authorization::{Attributes, Authorizer, escalation, node, refuse};
use crate::connect::ConnectHandler;
use crate::discovery::Catalog;
use crate::metrics;
use crate::nodes::Joins;
use crate::options::Options;
use crate::paths::{self, DEFAULT_CLUSTER, Health};
use crate::registry::{LogicalClusterKind, Registry};
use crate::request::{ClusterScope, NodePath, RequestContext, RequestInfo, ResourceRequest, parse};
use crate::respond::{self, Holding};
use crate::reviews::{self, Asker};
use apimachinery::auth::{USER_ANONYMOUS, UserInfo};
use apimachinery::definition::{GroupResource, ResourceDefinition};
use apimachinery::protobuf;
use apimachinery::status::ApiError;
use bytes::Bytes;
use controller_runtime::Body;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use runtime::Shutdown;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Subresources whose answers last as long as the client wants.
const STREAMS: [&str; 5] = ["log", "exec", "attach", "portforward", "proxy"];
/// Subresources that a client enters with GET and that nevertheless change something.
const ENTERED: [&str; 3] = ["exec", "attach", "portforward"];

/// Who sends a request: somebody in this process, or a connection.
pub(crate) enum Caller<'a> {
    Local(&'a UserInfo),
    Network(&'a Peer),
}

/// Everything that answers requests.
pub(crate) struct Service {
    pub(crate) registry: Registry,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Authorizer,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) handlers: HashMap<(GroupResource, String), Arc<dyn ConnectHandler>>,
    pub(crate) tunnel: Option<Arc<dyn ConnectHandler>>,
    pub(crate) joins: Joins,
    pub(crate) options: Options,
    pub(crate) in_flight: Arc<Semaphore>,
    pub(crate) long_running: Arc<Semaphore>,
    /// One write of roles and bindings by people at a time: it is checked, then done.
    pub(crate) grants: tokio::sync::Mutex<()>,
    /// Given when the server stops, for `/readyz`.
    pub(crate) stopping: Shutdown,
}

impl Service {
    /// Answers a request; errors are `Status` responses.
    pub(crate) async fn answer(&self, caller: Caller<'_>, request: Request<Body>) -> Response<Body> {
        let accepts = request.headers().get(header::ACCEPT_ENCODING).cloned();
        let network = matches!(caller, Caller::Network(_));
        let response = match self.handle(caller, request).await {
            Ok(response) => response,
            Err(error) => respond::status_error(&error),
        };
        if !network {
            return response;
        }
        let mut headers = HeaderMap::new();
        if let Some(accepts) = accepts {
            headers.insert(header::ACCEPT_ENCODING, accepts);
        }
        let mut response = respond::compress(&headers, response, self.options.gzip_threshold).await;
        if let Ok(id) = HeaderValue::try_from(uuid::Uuid::new_v4().to_string()) {
            response.headers_mut().insert("audit-id", id);
        }
        response
    }

    async fn handle(&self, caller: Caller<'_>, request: Request<Body>) -> Result<Response<Body>, ApiError> {
        let parsed = parse(request.method(), request.uri())?;
        if let (Some(NodePath { node, endpoint }), Some(ClusterScope::One(cluster)), Caller::Network(peer)) =
            (&parsed.node, &parsed.cluster, &caller)
        {
            let (node, cluster) = (node.clone(), cluster.clone());
            return match endpoint.as_str() {
                "join" if request.method() == http::Method::POST => {
                    let _permit = self.permit(&self.in_flight)?;
                    let headers = request.headers().clone();
                    let work = async {
                        let body = self.body(request).await?;
                        self.joins.join(&self.authenticator, &cluster, &node, peer, &headers, &body).await
                    };
                    self.in_time(work).await
                }
                "tunnel" => self.tunnel(peer, cluster, &node, parsed.resolve(DEFAULT_CLUSTER), request).await,
                _ => Err(ApiError::no_such_path()),
            };
        }
        let (user, info) = match caller {
            Caller::Local(user) => (user.clone(), parsed.resolve(DEFAULT_CLUSTER)),
            Caller::Network(peer) => {
                let identity = self.authenticator.identify(peer, request.headers()).await?;
                let home = identity.as_ref().map_or(DEFAULT_CLUSTER, |identity| &identity.cluster).to_owned();
                let info = parsed.resolve(&home);
                let user = admit(identity, &info)?;
                (self.acting_as(user, &info, request.headers()).await?, info)
            }
        };
        let network = matches!(caller, Caller::Network(_));
        let long = is_long_running(&info);
        let permit =
            if network { Some(self.permit(if long { &self.long_running } else { &self.in_flight })?) } else { None };
        let context = RequestContext { info, user };
        if long {
            let response = self.route(context, request).await?;
            return Ok(match permit {
                Some(permit) => response.map(|body| Holding::wrap(body, permit)),
                None => response,
            });
        }
        self.in_time(self.route(context, request)).await
    }

    /// The user on whose behalf a request is: its sender, or whom the sender may act as.
    async fn acting_as(&self, user: UserInfo, info: &RequestInfo, headers: &HeaderMap) -> Result<UserInfo, ApiError> {
        let (Some(wanted), ClusterScope::One(cluster)) = (impersonation::requested(headers)?, &info.cluster) else {
            return Ok(user);
        };
        for need in &wanted.needs {
            self.authorizer.check(cluster, &user, need, None).await?;
        }
        tracing::debug!(user = user.name, acting_as = wanted.user.name, cluster, "impersonation");
        Ok(wanted.user)
    }

    fn permit(&self, of: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
        let busy = "too many requests, please try again later";
        Arc::clone(of).try_acquire_owned().map_err(|_| ApiError::too_many_requests(busy, 1))
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
        match tokio::time::timeout(self.options.request_timeout, work).await {
            Ok(result) => result,
            Err(_) => {
                Err(ApiError::new(504, "Timeout", "Timeout: request did not complete within the allotted timeout"))
            }
        }
    }

    /// Reads a whole request body.
    async fn body(&self, request: Request<Body>) -> Result<Bytes, ApiError> {
        let limit = self.options.max_body_bytes;
        let declared =
            request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
        if declared.is_some_and(|declared| declared > limit) {
            return Err(ApiError::too_large(limit));
        }
        let body = respond::limited(request.into_body(), limit);
        Ok(body.collect().await.map_err(respond::body_error)?.to_bytes())
    }

    async fn route(&self, context: RequestContext, request: Request<Body>) -> Result<Response<Body>, ApiError> {
        let ClusterScope::One(cluster) = context.info.cluster.clone() else {
            return self.every_cluster(&context, request).await;
        };
        let asked = Attributes::of(&context.info);
        let public = asked.path.as_deref().is_some_and(paths::is_public);
        if !public {
            if context.user.name == USER_ANONYMOUS {
                return Err(refuse(&context.user, &asked));
            }
            let selector = field_selector(&context.info, "spec.nodeName");
            self.authorizer.check(&cluster, &context.user, &asked, selector.as_deref()).await?;
            if asked.verb == "get" && ENTERED.contains(&asked.subresource.as_str()) {
                let entering = Attributes { verb: "create".into(), ..asked.clone() };
                self.authorizer.check(&cluster, &context.user, &entering, None).await?;
            }
        }
        let record = self.registry.logical_cluster(&cluster).await;
        if asked.path.is_some() {
            let store = record.as_ref().map(|_| ()).map_err(Clone::clone);
            let health = Health { store, stopping: self.stopping.is_triggered() };
            if let Some(response) = health.answer(&context.info) {
                return Ok(response);
            }
        }
        let record = record?.ok_or_else(ApiError::no_such_path)?;
        let workspace = record.kind == LogicalClusterKind::Workspace;
        let Some(resource) = context.info.resource.clone() else {
            if context.info.path == "/metrics" && context.info.verb == "get" && cluster == DEFAULT_CLUSTER {
                return Ok(respond::typed(StatusCode::OK, metrics::MEDIA_TYPE, metrics::text()));
            }
            let prefix = paths::prefix(request.uri());
            return paths::answer(&self.catalog, workspace, &prefix, &context.info, request.headers()).await;
        };
        self.resource(context, &cluster, workspace, &resource, &asked, request).await
    }

    /// A request whose body is protobuf, with the body that it stands for.
    async fn as_json(&self, request: Request<Body>) -> Result<Request<Body>, ApiError> {
        let (mut parts, body) = request.into_parts();
        let body = self.body(Request::from_parts(parts.clone(), body)).await?;
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if body.is_empty() {
            return Ok(Request::from_parts(parts, respond::whole(body)));
        }
        let object = protobuf::decode(&body).map_err(|error| match error {
            protobuf::Error::Malformed(_) => ApiError::bad_request(error.to_string()),
            protobuf::Error::UnknownType(_) => {
                ApiError::unsupported_media_type(&["application/json", "application/yaml"])
            }
        })?;
        Ok(Request::from_parts(parts, respond::whole(object.to_string())))
    }

    /// A list or watch of every cluster at once: for controllers in this process.
    async fn every_cluster(
        &self,
        context: &RequestContext,
        request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let asked = Attributes::of(&context.info);
        let reads = matches!(context.info.verb.as_str(), "list" | "watch") && asked.path.is_none();
        if !context.user.in_group(GROUP_CONTROLLERS) || !reads {
            return Err(refuse(&context.user, &asked));
        }
        let headers = request.headers().clone();
        self.registry.serve(context, &headers, Bytes::new()).await
    }

    async fn resource(
        &self,
        context: RequestContext,
        cluster: &str,
        workspace: bool,
        resource: &ResourceRequest,
        asked: &Attributes,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let served = self.catalog.served(workspace);
        let definition = served
            .definition(&resource.group, &resource.version, &resource.resource)
            .ok_or_else(ApiError::no_such_path)?;
        if is_protobuf(request.headers()) {
            request = self.as_json(request).await?;
        }
        if reviews::is_review(definition) {
            if asked.verb != "create" || resource.subresource.is_some() || resource.name.is_some() {
                return Err(ApiError::method_not_supported(&resource.group, &resource.resource, &asked.verb));
            }
            let body = self.body(request).await?;
            let asker = Asker {
                authenticator: &self.authenticator,
                authorizer: &self.authorizer,
                cluster,
                user: &context.user,
                namespace: resource.namespace.as_deref(),
            };
            return asker.answer(definition, &body).await;
        }
        if let Some(subresource) = &resource.subresource
            && !serves(definition, subresource)
        {
            return Err(ApiError::no_such_path());
        }
        if let Some(subresource) = &resource.subresource
            && let Some(handler) = self.handlers.get(&(resource.group_resource(), subresource.clone()))
        {
            let connect = definition.subresources.connect.iter().find(|connect| connect.name == *subresource);
            if connect.is_none_or(|connect| !connect.verbs.contains(&asked.verb)) {
                return Err(ApiError::method_not_supported(&resource.group, &resource.resource, &asked.verb));
            }
            let name = resource.name.as_deref().unwrap_or_default();
            let kind = resource.group_resource();
            let object = self.registry.get(cluster, &kind, resource.namespace.as_deref(), name).await?;
            let object = object.ok_or_else(|| ApiError::not_found(&resource.group, &resource.resource, name))?;
            let limit = self.options.max_body_bytes;
            request = request.map(|body| respond::limited(body, limit));
            return handler.connect(&context, object, request).await;
        }
        let headers = request.headers().clone();
        let writes = !matches!(asked.verb.as_str(), "get" | "list" | "watch");
        let body = if writes { self.body(request).await? } else { Bytes::new() };
        if let Some(node) = node::node_of(&context.user) {
            node::check_body(node, asked, &body)?;
        }
        if escalation::applies(&context.user, asked) {
            let _one = self.grants.lock().await;
            self.check_grant(&context, cluster, asked, &headers, &body).await?;
            return self.registry.serve(&context, &headers, body).await;
        }
        self.registry.serve(&context, &headers, body).await
    }

    /// Checks a role or binding as it would be after the write, which is tried without effect.
    async fn check_grant(
        &self,
        context: &RequestContext,
        cluster: &str,
        asked: &Attributes,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<(), ApiError> {
        let mut trial = context.clone();
        trial.info.query.retain(|(name, _)| name != "dryRun");
        trial.info.query.push(("dryRun".into(), "All".into()));
        let mut headers = headers.clone();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let response = self.registry.serve(&trial, &headers, body.clone()).await?;
        let bytes = response.into_body().collect().await.map_err(ApiError::internal)?.to_bytes();
        let object: Value = serde_json::from_slice(&bytes).map_err(ApiError::internal)?;
        escalation::check(&self.authorizer, &self.registry, cluster, &context.user, asked, &object).await
    }

    async fn tunnel(
        &self,
        peer: &Peer,
        cluster: String,
        node: &str,
        info: RequestInfo,
        request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let handler = self.tunnel.as_ref().ok_or_else(ApiError::no_such_path)?;
        let identity = self.authenticator.certificate(peer).await?.ok_or_else(ApiError::unauthorized)?;
        if identity.cluster != cluster || node::node_of(&identity.user) != Some(node) {
            return Err(ApiError::unauthorized());
        }
        let permit = self.permit(&self.long_running)?;
        let context = RequestContext { info, user: identity.user };
        let response = handler.connect(&context, Value::Null, request).await?;
        Ok(response.map(|body| Holding::wrap(body, permit)))
    }
}

/// The user of a request from the network, if its credential is valid where the request goes.
fn admit(identity: Option<Identity>, info: &RequestInfo) -> Result<UserInfo, ApiError> {
    match (identity, &info.cluster) {
        (None, ClusterScope::One(_)) => Ok(UserInfo::anonymous()),
        (Some(identity), ClusterScope::One(cluster)) if identity.cluster == *cluster => Ok(identity.user),
        (Some(identity), ClusterScope::Every) => Err(refuse(&identity.user, &Attributes::of(info))),
        (None, ClusterScope::Every) | (Some(_), ClusterScope::One(_)) => Err(ApiError::unauthorized()),
    }
}

/// Whether a body is in Kubernetes' protobuf encoding.
fn is_protobuf(headers: &HeaderMap) -> bool {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(protobuf::MEDIA_TYPE)
}

/// Whether a subresource of a kind is served by anybody.
fn serves(definition: &ResourceDefinition, subresource: &str) -> bool {
    let known = &definition.subresources;
    match subresource {
        "status" => known.status,
        "scale" => known.scale.is_some(),
        other => known.connect.iter().any(|connect| connect.name == other),
    }
}

/// Whether a request ends when the client wants and not when it is answered.
fn is_long_running(info: &RequestInfo) -> bool {
    info.verb == "watch"
        || info
            .resource
            .as_ref()
            .and_then(|resource| resource.subresource.as_deref())
            .is_some_and(|s| STREAMS.contains(&s))
}
