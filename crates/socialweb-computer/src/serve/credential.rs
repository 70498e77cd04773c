//! Credentials that the server hands out: the administrator's file, and kubeconfigs of clusters.

use crate::kubeconfig;
use crate::paths::write_private;
use anyhow::{Context, Result};
use apimachinery::status::ApiError;
use apiserver::connect::ConnectHandler;
use apiserver::request::RequestContext;
use async_trait::async_trait;
use bytes::Bytes;
use controller_runtime::{Body, LogicalClusters};
use http_body_util::{BodyExt, Full};
use runtime::{BackoffOptions, TaskPolicy, TaskSet, error_chain};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
const ADMIN_LIFETIME: Duration = Duration::from_secs(7 * 86_400);
const DEFAULT_LIFETIME: u64 = 3600;
const MAX_LIFETIME: u64 = 7 * 86_400;
/// A shorter certificate is more likely a mistake than a wish; Kubernetes has the same bound.
const MIN_LIFETIME: u64 = 600;
const MAX_BODY: usize = 64 * 1024;

/// Issues the administrator's kubeconfig for the workspace `root`.
#[derive(Clone)]
pub(super) struct Admin {
    pub(super) logical_clusters: Arc<dyn LogicalClusters>,
    pub(super) url: String,
}

impl Admin {
    pub(super) async fn issue(&self) -> Result<String> {
        let workspace = apiserver::request::ROOT_CLUSTER;
        let groups = [apimachinery::auth::GROUP_MASTERS.to_owned()];
        let credential = self
            .logical_clusters
            .issue_credential(workspace, "admin", &groups, ADMIN_LIFETIME)
            .await
            .context("cannot issue the administrator's credential")?;
        let url = format!("{}/clusters/{workspace}", self.url);
        let authority = self.logical_clusters.certificate_authority();
        Ok(kubeconfig::render("socialweb-computer", &url, &authority, "admin", &credential))
    }
}

/// Writes the administrator's kubeconfig anew every day, long before it expires.
pub(super) fn keep_fresh(tasks: &mut TaskSet, admin: Admin, file: PathBuf) {
    let shutdown = tasks.shutdown().clone();
    tasks.spawn("administrator's credential", TaskPolicy::Restart(BackoffOptions::default()), move || {
        let (admin, file, shutdown) = (admin.clone(), file.clone(), shutdown.clone());
        async move {
            while shutdown.unless_triggered(tokio::time::sleep(DAY)).await.is_some() {
                let text = admin.issue().await?;
                write_private(&file, &text)?;
            }
            Ok(())
        }
    });
}

/// The subresource `kubeconfig` of a `Cluster`: a client certificate for its administrator.
pub(super) struct Kubeconfig {
    pub(super) logical_clusters: Arc<dyn LogicalClusters>,
}

#[async_trait]
impl ConnectHandler for Kubeconfig {
    async fn connect(
        &self,
        _context: &RequestContext,
        object: Value,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, ApiError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let (Some(logical), Some(url)) =
            (object["status"]["logicalCluster"].as_str(), object["status"]["url"].as_str())
        else {
            return Err(ApiError::unavailable(format!("cluster {name:?} is not Ready yet; try again")));
        };
        let body = read(request.into_body()).await?;
        let seconds = lifetime(&body)?;
        let groups = [apimachinery::auth::GROUP_MASTERS.to_owned()];
        let credential = self
            .logical_clusters
            .issue_credential(logical, "admin", &groups, Duration::from_secs(seconds))
            .await
            .map_err(|error| ApiError::internal(error_chain(&error)))?;
        let authority = self.logical_clusters.certificate_authority();
        let expires = jiff::Timestamp::now() + Duration::from_secs(seconds);
        let answer = json!({
            "apiVersion": api::API_VERSION,
            "kind": "Kubeconfig",
            "metadata": {"name": name, "creationTimestamp": null},
            "spec": {"expirationSeconds": seconds},
            "status": {
                "kubeconfig": kubeconfig::render(name, url, &authority, "admin", &credential),
                "expirationTimestamp": format!("{expires:.0}"),
            },
        });
        let body = Full::new(Bytes::from(answer.to_string())).map_err(|never| match never {}).boxed_unsync();
        http::Response::builder()
            .status(http::StatusCode::CREATED)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| ApiError::internal(error.to_string()))
    }
}

/// A small body, whole.
async fn read(mut body: Body) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::bad_request(error.to_string()))?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| &data[..]));
        if bytes.len() > MAX_BODY {
            return Err(ApiError::too_large(MAX_BODY));
        }
    }
    Ok(bytes)
}

/// The lifetime that a request asks for, seconds.
fn lifetime(body: &[u8]) -> Result<u64, ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(DEFAULT_LIFETIME);
    }
    let value: Value = serde_json::from_slice(body).map_err(|error| ApiError::bad_request(format!("body: {error}")))?;
    match &value["spec"]["expirationSeconds"] {
        Value::Null => Ok(DEFAULT_LIFETIME),
        seconds => seconds.as_u64().filter(|s| (MIN_LIFETIME..=MAX_LIFETIME).contains(s)).ok_or_else(|| {
            ApiError::bad_request(format!(
                "spec.expirationSeconds: must be between {MIN_LIFETIME} and {MAX_LIFETIME}, not {seconds}"
            ))
        }),
    }
}

#[cfg(test)]
mod tests;
