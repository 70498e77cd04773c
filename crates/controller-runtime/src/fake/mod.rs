//! `FakeApi`: a small API server in memory, for tests of controllers. It keeps no rules of any kind,
//! only what controllers build on: versions, uids, preconditions, finalizers, status subresources,
//! propagation policies, wildcard lists and watches.

mod store;

use crate::{Body, BoxError, Transport};
use apimachinery::status::ApiError;
use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{At, Stored};
use tokio::sync::watch;

/// An API server in memory. Clones share it.
#[derive(Clone)]
pub struct FakeApi {
    stored: Arc<Mutex<Stored>>,
    changed: Arc<watch::Sender<u64>>,
}

impl std::fmt::Debug for FakeApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeApi").finish_non_exhaustive()
    }
}

impl Default for FakeApi {
    fn default() -> Self {
        Self { stored: Arc::default(), changed: Arc::new(watch::channel(0).0) }
    }
}

/// A path that was taken apart.
struct Path {
    cluster: String,
    /// `v1` or `apps/v1`.
    api_version: String,
    plural: String,
    namespace: String,
    name: String,
    subresource: String,
    query: HashMap<String, String>,
}

impl Path {
    fn parse(uri: &http::Uri) -> Option<Self> {
        let mut segments = uri.path().strip_prefix("/clusters/")?.split('/');
        let cluster = segments.next()?.to_owned();
        let api_version = match segments.next()? {
            "api" => segments.next()?.to_owned(),
            _ => format!("{}/{}", segments.next()?, segments.next()?),
        };
        let mut rest: Vec<&str> = segments.collect();
        let mut namespace = String::new();
        let own = rest.len() <= 2 || matches!(rest.get(2), Some(&("status" | "finalize")));
        if rest.first() == Some(&"namespaces") && !own {
            namespace = rest[1].to_owned();
            rest.drain(..2);
        }
        let part = |at: usize| rest.get(at).map(|part| (*part).to_owned()).unwrap_or_default();
        let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let query = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Some(Self { cluster, api_version, plural: part(0), namespace, name: part(1), subresource: part(2), query })
    }

    fn kind(&self) -> String {
        format!("{}/{}", self.api_version, self.plural)
    }

    fn at(&self) -> At {
        At {
            kind: self.kind(),
            cluster: self.cluster.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

impl FakeApi {
    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the past: watches from any earlier version get 410.
    pub fn expire(&self) {
        self.lock().expire();
    }

    fn answer(&self, method: &Method, path: &Path, content_type: &str, body: &[u8]) -> Result<Value, ApiError> {
        let body: Value = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(body).map_err(|error| ApiError::bad_request(error.to_string()))?
        };
        let at = path.at();
        let mut stored = self.lock();
        let answer = match (method.as_str(), path.name.is_empty()) {
            ("GET", true) => Ok(stored.list(&path.kind(), &path.cluster, &path.namespace)),
            ("GET", false) => stored.get(&at),
            ("POST", true) => stored.create(at, &path.api_version, body),
            ("PUT", false) => stored.update(&at, &path.subresource, body),
            ("PATCH", false) => {
                let mut object = stored.get(&at)?;
                if content_type.starts_with("application/json-patch") {
                    // Only what the controllers use: replacing a field of the root.
                    for step in body.as_array().into_iter().flatten() {
                        let field = step["path"].as_str().unwrap_or_default().trim_start_matches('/').to_owned();
                        object[field] = step["value"].clone();
                    }
                } else {
                    merge(&mut object, &body);
                }
                stored.update(&at, &path.subresource, object)
            }
            ("DELETE", false) => stored.delete(&at, &body),
            ("DELETE", true) => {
                for at in stored.below(&path.kind(), &path.cluster, &path.namespace) {
                    stored.delete(&at, &body)?;
                }
                Ok(json!({"kind": "Status", "status": "Success"}))
            }
            _ => Err(ApiError::method_not_supported("", &path.plural, method.as_str())),
        };
        self.changed.send_replace(stored.version());
        answer
    }

    fn watch(&self, path: &Path) -> Body {
        let from: u64 = path.query.get("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
        let (stored, changed) = (self.stored.clone(), self.changed.subscribe());
        let (kind, cluster) = (path.kind(), path.cluster.clone());
        let lines = futures_util::stream::unfold((from, changed, false), move |(from, mut changed, over)| {
            let (stored, kind, cluster) = (stored.clone(), kind.clone(), cluster.clone());
            async move {
                if over {
                    return None;
                }
                loop {
                    changed.borrow_and_update();
                    let events = stored.lock().unwrap_or_else(PoisonError::into_inner).since(&kind, &cluster, from);
                    match events {
                        Ok((next, lines)) if !lines.is_empty() => {
                            return Some((frame(&lines), (next, changed, false)));
                        }
                        Ok(_) => {}
                        Err(error) => {
                            let line = json!({"type": "ERROR", "object": error.to_status()});
                            return Some((frame(&[line]), (from, changed, true)));
                        }
                    }
                    changed.changed().await.ok()?;
                }
            }
        });
        Body::new(StreamBody::new(lines))
    }
}

fn frame(lines: &[Value]) -> Result<http_body::Frame<Bytes>, BoxError> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Ok(http_body::Frame::data(Bytes::from(text)))
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            if let Some(target) = target.as_object_mut() {
                target.remove(key);
            }
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}

#[async_trait]
impl Transport for FakeApi {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        let path = Path::parse(request.uri()).ok_or("no such path")?;
        if path.query.get("watch").is_some_and(|watch| watch == "true") {
            return Ok(Response::new(self.watch(&path)));
        }
        let content_type = request.headers().get(http::header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (status, body) = match self.answer(request.method(), &path, content_type, request.body()) {
            Ok(body) => (200, body),
            Err(error) => (error.code, error.to_status()),
        };
        let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
        Ok(Response::builder().status(status).body(Body::new(body))?)
    }
}
