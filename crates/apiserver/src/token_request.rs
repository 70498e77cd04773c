//! `serviceaccounts/token`: mints the tokens of ServiceAccounts.

use crate::authentication::tokens::{self, Bound, Claims, ISSUER, Reference};
use crate::authorization::node;
use crate::connect::ConnectHandler;
use crate::pki::ServerKeys;
use crate::registry::Registry;
use crate::request::{ClusterScope, RequestContext};
use crate::respond;
use apimachinery::definition::GroupResource;
use apimachinery::status::{ApiError, FieldError, FieldErrorKind};
use async_trait::async_trait;
use controller_runtime::Body;
use http::StatusCode;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Shortest lifetime that may be asked for, seconds.
const MIN_SECONDS: i64 = 600;
/// Lifetime of a request that asks for none.
const DEFAULT_SECONDS: i64 = 3600;
/// Longest lifetime that may be asked for; what is given is bounded by the server's options.
const MAX_SECONDS: i64 = 1 << 32;

/// Answers TokenRequests.
pub(crate) struct TokenRequests {
    pub(crate) registry: Registry,
    pub(crate) keys: Arc<ServerKeys>,
    pub(crate) max_lifetime: Duration,
}

#[async_trait]
impl ConnectHandler for TokenRequests {
    async fn connect(
        &self,
        context: &RequestContext,
        object: Value,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, ApiError> {
        let ClusterScope::One(cluster) = &context.info.cluster else { return Err(ApiError::no_such_path()) };
        let body = request.into_body().collect().await.map_err(respond::body_error)?.to_bytes();
        let (mut asked, _) = apimachinery::parse::strict(&body).map_err(ApiError::bad_request)?;
        let (name, namespace) = (text(&object, "name"), text(&object, "namespace"));
        let seconds = lifetime(&asked, &name)?;
        let granted = seconds.min(i64::try_from(self.max_lifetime.as_secs()).unwrap_or(i64::MAX));
        let mut bound = Bound {
            namespace: namespace.clone(),
            serviceaccount: Reference { name: name.clone(), uid: text(&object, "uid") },
            ..Bound::default()
        };
        let reference = asked["spec"]["boundObjectRef"].clone();
        if !reference.is_null() {
            self.bind(cluster, &mut bound, &reference).await?;
        }
        if let Some(node) = node::node_of(&context.user) {
            let own = bound.pod.is_some() && bound.node.as_ref().is_some_and(|bound| bound.name == node);
            if !own {
                let why = "node requested token not bound to a pod that runs on it";
                return Err(ApiError::forbidden("", "serviceaccounts", &name, why));
            }
        }
        let now = jiff::Timestamp::now().as_second();
        let audiences: Vec<String> = asked["spec"]["audiences"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        let claims = Claims {
            aud: if audiences.is_empty() { vec![ISSUER.to_owned()] } else { audiences },
            exp: now + granted,
            iat: now,
            nbf: now,
            iss: ISSUER.into(),
            jti: uuid::Uuid::new_v4().to_string(),
            sub: format!("system:serviceaccount:{namespace}:{name}"),
            cluster: cluster.clone(),
            kubernetes: Some(bound),
        };
        let token = tokens::sign(self.keys.signing(), &claims).map_err(ApiError::internal)?;
        let expiration = jiff::Timestamp::from_second(claims.exp).map_err(ApiError::internal)?;
        asked["apiVersion"] = "authentication.k8s.io/v1".into();
        asked["kind"] = "TokenRequest".into();
        asked["metadata"] = json!({"name": name, "namespace": namespace, "creationTimestamp": jiff::Timestamp::from_second(now).map_err(ApiError::internal)?.to_string()});
        asked["spec"]["audiences"] = json!(claims.aud);
        asked["spec"]["expirationSeconds"] = granted.into();
        asked["status"] = json!({"token": token, "expirationTimestamp": expiration.to_string()});
        Ok(respond::json(StatusCode::CREATED, &asked))
    }
}

impl TokenRequests {
    /// Reads the object that a token is to be bound to.
    async fn bind(&self, cluster: &str, bound: &mut Bound, asked: &Value) -> Result<(), ApiError> {
        let (kind, version) =
            (asked["kind"].as_str().unwrap_or_default(), asked["apiVersion"].as_str().unwrap_or_default());
        let name = asked["name"].as_str().unwrap_or_default();
        let (resource, namespace) = match (version, kind) {
            ("v1", "Pod") => ("pods", Some(bound.namespace.as_str())),
            ("v1", "Secret") => ("secrets", Some(bound.namespace.as_str())),
            ("v1", "Node") => ("nodes", None),
            _ => {
                let why = format!("cannot bind token to object of type {version}, Kind={kind}");
                return Err(ApiError::bad_request(why));
            }
        };
        let resource = GroupResource { group: String::new(), resource: resource.into() };
        let object = self.registry.get(cluster, &resource, namespace, name).await?;
        let object = object.ok_or_else(|| ApiError::not_found("", &resource.resource, name))?;
        let uid = text(&object, "uid");
        if asked["uid"].as_str().is_some_and(|wanted| !wanted.is_empty() && wanted != uid) {
            let wanted = asked["uid"].as_str().unwrap_or_default();
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(ApiError::conflict("", &resource.resource, name, &why));
        }
        let reference = Some(Reference { name: name.to_owned(), uid });
        match kind {
            "Pod" => {
                let account = object["spec"]["serviceAccountName"].as_str().unwrap_or_default();
                if account != bound.serviceaccount.name {
                    return Err(ApiError::bad_request(format!(
                        "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                        bound.serviceaccount.name
                    )));
                }
                bound.pod = reference;
                if let Some(node) = object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
                    let nodes = GroupResource { group: String::new(), resource: "nodes".into() };
                    let found = self.registry.get(cluster, &nodes, None, node).await?;
                    let uid = found.map(|found| text(&found, "uid")).unwrap_or_default();
                    bound.node = Some(Reference { name: node.to_owned(), uid });
                }
            }
            "Secret" => bound.secret = reference,
            _ => bound.node = reference,
        }
        Ok(())
    }
}

/// The lifetime that is asked for, seconds.
fn lifetime(asked: &Value, name: &str) -> Result<i64, ApiError> {
    let seconds = match &asked["spec"]["expirationSeconds"] {
        Value::Null => return Ok(DEFAULT_SECONDS),
        value => value.as_i64().unwrap_or(0),
    };
    let detail = if seconds < MIN_SECONDS {
        "may not specify a duration less than 10 minutes"
    } else if seconds > MAX_SECONDS {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(seconds);
    };
    let error = FieldError {
        kind: FieldErrorKind::Invalid,
        field: "spec.expirationSeconds".into(),
        value: Some(seconds.into()),
        detail: detail.into(),
    };
    Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", name, &[error]))
}

fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}
