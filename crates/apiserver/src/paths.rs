//! Paths that name no resource: health, version, discovery and OpenAPI.

use crate::discovery::{Catalog, Served};
use crate::request::{ROOT_CLUSTER, RequestInfo, truthy};
use crate::respond;
use apimachinery::status::ApiError;
use controller_runtime::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::json;
use std::sync::Arc;

/// Version of the Kubernetes API that is served.
const MINOR: &str = "36";
const GIT_VERSION: &str = concat!("v1.36.0+socialweb-computer.", env!("CARGO_PKG_VERSION"));
/// How aggregated discovery is asked for, and what it answers with.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether a path is open to everybody: health, version and discovery.
pub(crate) fn is_public(path: &str) -> bool {
    let discovery = path == "/api"
        || path == "/apis"
        || path.strip_prefix("/api/").is_some_and(|rest| !rest.contains('/'))
        || path.strip_prefix("/apis/").is_some_and(|rest| rest.matches('/').count() <= 1);
    discovery || matches!(path, "/version" | "/healthz" | "/livez" | "/readyz") || health_check(path).is_some()
}

/// The single check in `/livez/ping`.
fn health_check(path: &str) -> Option<&str> {
    ["/healthz/", "/livez/", "/readyz/"].iter().find_map(|prefix| path.strip_prefix(prefix))
}

/// The state of the server that its health tells.
pub(crate) struct Health {
    /// Whether the store answers.
    pub(crate) store: Result<(), ApiError>,
    /// Whether the server is shutting down.
    pub(crate) stopping: bool,
}

impl Health {
    fn checks(&self, path: &str) -> Vec<(&'static str, bool)> {
        let mut checks = vec![("ping", true), ("log", true), ("store", self.store.is_ok())];
        if path.starts_with("/readyz") {
            checks.push(("shutdown", !self.stopping));
        }
        checks
    }

    /// Answers a health path.
    pub(crate) fn answer(&self, info: &RequestInfo) -> Option<Response<Body>> {
        let endpoint = info.path.trim_start_matches('/').split('/').next()?;
        if !matches!(endpoint, "healthz" | "livez" | "readyz") {
            return None;
        }
        let excluded = |name: &str| info.query.iter().any(|(key, value)| key == "exclude" && value == name);
        let mut checks = self.checks(&info.path);
        match health_check(&info.path) {
            Some(wanted) => checks.retain(|(name, _)| *name == wanted),
            None => checks.retain(|(name, _)| !excluded(name)),
        }
        if checks.is_empty() {
            return Some(respond::status_error(&ApiError::no_such_path()));
        }
        let failed = checks.iter().any(|(_, ok)| !ok);
        let status = if failed { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
        let verbose = failed || info.query("verbose").is_some_and(truthy);
        if !verbose {
            return Some(respond::typed(status, "text/plain; charset=utf-8", "ok"));
        }
        let mut text: String = checks
            .iter()
            .map(
                |(name, ok)| {
                    if *ok { format!("[+]{name} ok\n") } else { format!("[-]{name} failed: reason withheld\n") }
                },
            )
            .collect();
        text.push_str(&format!("{endpoint} check {}\n", if failed { "failed" } else { "passed" }));
        Some(respond::typed(status, "text/plain; charset=utf-8", text))
    }
}

/// Answers `/version`, discovery and OpenAPI for one kind of logical cluster. `prefix` is the
/// `/clusters/<name>` of the request, if it had one.
pub(crate) async fn answer(
    catalog: &Arc<Catalog>,
    workspace: bool,
    prefix: &str,
    info: &RequestInfo,
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    if info.verb != "get" && info.verb != "head" {
        return Err(ApiError::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ));
    }
    let path = info.path.as_str();
    match path {
        "/" => return Ok(respond::json(StatusCode::OK, &index(catalog.served(workspace)))),
        "/version" => return Ok(respond::json(StatusCode::OK, &version())),
        _ => {}
    }
    if path.starts_with("/openapi/") {
        return openapi(Arc::clone(catalog), workspace, prefix.to_owned(), info, headers).await;
    }
    let documents = &catalog.served(workspace).documents;
    let (found, media_type) = match documents.aggregated(path) {
        Some(found) if wants_aggregated(headers) => (found, AGGREGATED),
        _ => (documents.at(path).ok_or_else(ApiError::no_such_path)?, "application/json"),
    };
    let mut response = tagged(headers, &found.etag, media_type, found.json.clone());
    response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

async fn openapi(
    catalog: Arc<Catalog>,
    workspace: bool,
    prefix: String,
    info: &RequestInfo,
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let path = info.path.clone();
    // Documents are made when first asked for, which takes a while.
    let made = tokio::task::spawn_blocking(move || {
        let openapi = &catalog.served(workspace).openapi;
        match path.as_str() {
            "/openapi/v2" => Some((openapi.v2().json, Some(openapi.v2().hash))),
            "/openapi/v3" => Some((openapi.v3_index(&prefix), None)),
            other => {
                let document = openapi.v3(other.strip_prefix("/openapi/v3/")?)?;
                Some((document.json, Some(document.hash)))
            }
        }
    });
    let made = made.await.map_err(|_| ApiError::internal("the document could not be made"))?;
    let (json, hash) = made.ok_or_else(ApiError::no_such_path)?;
    if !accepts_json(headers) {
        return Err(ApiError::not_acceptable(&["application/json"]));
    }
    let bytes = bytes::Bytes::from_owner(json);
    let Some(hash) = hash else { return Ok(respond::typed(StatusCode::OK, "application/json", bytes)) };
    let mut response = tagged(headers, &format!("\"{hash}\""), "application/json", bytes);
    if info.query("hash") == Some(&*hash) {
        response
            .headers_mut()
            .insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable, max-age=31536000"));
    }
    Ok(response)
}

/// A document with its `ETag`, or 304 for a client that has it.
fn tagged(headers: &HeaderMap, etag: &str, media_type: &'static str, json: bytes::Bytes) -> Response<Body> {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().any(|value| {
        value.to_str().is_ok_and(|text| text.split(',').any(|tag| tag.trim() == etag || tag.trim() == "*"))
    });
    let mut response = if known {
        respond::typed(StatusCode::NOT_MODIFIED, media_type, bytes::Bytes::new())
    } else {
        respond::typed(StatusCode::OK, media_type, json)
    };
    if let Ok(etag) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// Whether the first acceptable form of discovery is the aggregated one.
fn wants_aggregated(headers: &HeaderMap) -> bool {
    for range in accepted(headers) {
        let mut parts = range.split(';').map(str::trim);
        if !matches!(parts.next(), Some("application/json" | "application/*" | "*/*")) {
            continue;
        }
        let parameters: Vec<&str> = parts.collect();
        let aggregated = parameters.contains(&"as=APIGroupDiscoveryList");
        if !aggregated {
            return false;
        }
        if parameters.contains(&"g=apidiscovery.k8s.io") && parameters.contains(&"v=v2") {
            return true;
        }
    }
    false
}

fn accepts_json(headers: &HeaderMap) -> bool {
    let mut ranges = accepted(headers).peekable();
    ranges.peek().is_none()
        || ranges.any(|range| {
            let media = range.split(';').next().unwrap_or_default().trim();
            matches!(media, "application/json" | "application/*" | "*/*")
                || media.starts_with("application/com.github.proto-openapi") && media.ends_with("+json")
        })
}

fn accepted(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .map(str::trim)
}

fn version() -> serde_json::Value {
    json!({
        "major": "1", "minor": MINOR,
        "emulationMajor": "1", "emulationMinor": MINOR,
        "minCompatibilityMajor": "1", "minCompatibilityMinor": MINOR,
        "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    })
}

/// The machine's architecture in Go's words.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn index(served: &Served) -> serde_json::Value {
    let mut paths: Vec<String> = served.documents.paths().map(str::to_owned).collect();
    paths.extend(["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    paths.sort();
    json!({ "paths": paths })
}

/// The part of a path that names its logical cluster.
pub(crate) fn prefix(uri: &http::Uri) -> String {
    let mut segments = uri.path().split('/').skip(1);
    match (segments.next(), segments.next()) {
        (Some("clusters"), Some(name)) => format!("/clusters/{name}"),
        _ => String::new(),
    }
}

/// The cluster of requests that name none and carry no credential.
pub(crate) const DEFAULT_CLUSTER: &str = ROOT_CLUSTER;

#[cfg(test)]
mod tests {
    //! Which paths are open, and which form of discovery is asked for.

    use super::*;

    #[test]
    fn open_paths() {
        for open in [
            "/healthz",
            "/livez/ping",
            "/readyz",
            "/version",
            "/api",
            "/api/v1",
            "/apis",
            "/apis/apps",
            "/apis/apps/v1",
        ] {
            assert!(is_public(open), "{open}");
        }
        for closed in
            ["/", "/openapi/v2", "/openapi/v3", "/api/v1/pods", "/apis/apps/v1/deployments", "/metrics", "/versions"]
        {
            assert!(!is_public(closed), "{closed}");
        }
    }

    #[test]
    fn forms_of_discovery() {
        let wants = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            wants_aggregated(&headers)
        };
        assert!(wants(AGGREGATED));
        assert!(wants(&format!(
            "{AGGREGATED},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
        )));
        assert!(wants(&format!(
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,{AGGREGATED},application/json"
        )));
        assert!(!wants("application/json"));
        assert!(!wants("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"));
        assert!(!wants("*/*"));
    }
}
