//! The loop behind an informer: list, then watch from the list's version, and list again when that
//! version is too old.

use super::{InformerOptions, Store};
use crate::client::{Call, api_error};
use crate::{ApiKind, ApiResource, CLUSTER_ANNOTATION, Client, ClientError, ListOptions};
use apimachinery::status::ApiError;
use bytes::{Bytes, BytesMut};
use http::Method;
use http_body_util::BodyExt;
use runtime::{Backoff, error_chain};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// Lists and watches for ever.
pub(super) async fn run<K: ApiResource>(
    client: &Client,
    options: &InformerOptions,
    store: &Store<K>,
    synced: &watch::Sender<bool>,
) {
    let kind = ApiKind::of::<K>();
    let resource = kind.qualified();
    let mut backoff = Backoff::new(options.backoff);
    loop {
        let mut version = match list(client, &kind, store).await {
            Ok(version) => version,
            Err(error) => {
                // What is known stays: a failed list is no observation.
                let delay = backoff.next_delay();
                tracing::warn!(resource, error = error_chain(&error), ?delay, "cannot list");
                tokio::time::sleep(delay).await;
                continue;
            }
        };
        synced.send_replace(true);
        loop {
            let began = version.clone();
            match follow(client, options, &kind, store, &mut version).await {
                Ok(()) => backoff.reset(),
                Err(error) if error.is_expired() => {
                    tracing::debug!(resource, version, "the watch's version is too old");
                    // A server that expires at once is not asked in a tight loop.
                    tokio::time::sleep(backoff.next_delay()).await;
                    break;
                }
                Err(error) => {
                    if version != began {
                        backoff.reset();
                    }
                    let delay = backoff.next_delay();
                    tracing::debug!(resource, error = error_chain(&error), ?delay, "the watch broke off");
                    tokio::time::sleep(delay).await;
                }
            }
        }
    }
}

/// Replaces what is known by a whole list and returns its version.
async fn list<K: ApiResource>(client: &Client, kind: &ApiKind, store: &Store<K>) -> Result<String, ClientError> {
    let mut objects = Vec::new();
    let mut take = |item: Value| {
        if let Some(object) = decode::<K>(kind, || serde_json::from_value(item)) {
            objects.push(object);
        }
        Ok(())
    };
    let version = client.dynamic(kind.clone()).for_each("", &ListOptions::default(), &mut take).await?;
    store.replace(&version, objects);
    Ok(version)
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    what: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta,
}

/// Watches until the server ends the watch.
async fn follow<K: ApiResource>(
    client: &Client,
    options: &InformerOptions,
    kind: &ApiKind,
    store: &Store<K>,
    version: &mut String,
) -> Result<(), ClientError> {
    let path = format!(
        "{}?watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={}",
        kind.path(""),
        options.watch_timeout.as_secs()
    );
    let call = Call::new(Method::GET, path.clone(), Bytes::new());
    let broken = |source: crate::BoxError| ClientError::Transport { method: Method::GET, path: path.clone(), source };
    let deadline = Instant::now() + options.watch_timeout + options.watch_grace;
    let response = client.send(&call).await?;
    let status = response.status();
    let mut body = response.into_body();
    let mut buffer = BytesMut::new();
    loop {
        let frame = match tokio::time::timeout_at(deadline, body.frame()).await {
            Ok(Some(frame)) => frame.map_err(broken)?,
            Ok(None) => break,
            Err(_) => return Err(broken("the watch outlived its time".into())),
        };
        let Ok(data) = frame.into_data() else { continue };
        buffer.extend_from_slice(&data);
        if status.is_success() {
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(end + 1);
                take(kind, store, version, &line).map_err(|error| match error {
                    EventError::Api(error) => ClientError::Api(error),
                    EventError::Decode(source) => {
                        ClientError::Decode { method: Method::GET, path: path.clone(), source }
                    }
                })?;
            }
        }
        if buffer.len() > options.max_event_bytes {
            return Err(broken(format!("an event is longer than {} bytes", options.max_event_bytes).into()));
        }
    }
    if status.is_success() { Ok(()) } else { Err(ClientError::Api(api_error(status, &buffer))) }
}

enum EventError {
    Api(ApiError),
    Decode(serde_json::Error),
}

/// Takes one event in.
fn take<K: ApiResource>(kind: &ApiKind, store: &Store<K>, version: &mut String, line: &[u8]) -> Result<(), EventError> {
    if line.trim_ascii().is_empty() {
        return Ok(());
    }
    let event: Event<'_> = serde_json::from_slice(line).map_err(EventError::Decode)?;
    let text = event.object.get();
    if event.what == "ERROR" {
        let status: Value = serde_json::from_str(text).map_err(EventError::Decode)?;
        return Err(EventError::Api(
            ApiError::from_status(&status).unwrap_or_else(|| ApiError::internal("the watch failed")),
        ));
    }
    let told: Bookmark = serde_json::from_str(text).map_err(EventError::Decode)?;
    match &*event.what {
        "ADDED" | "MODIFIED" => {
            if let Some((cluster, object)) = decode::<K>(kind, || serde_json::from_str(text)) {
                store.apply(&cluster, object);
            }
        }
        "DELETED" => {
            if let Some((cluster, object)) = decode::<K>(kind, || serde_json::from_str(text)) {
                store.remove(&cluster, &object);
            }
        }
        _ => {}
    }
    if let Some(told) = told.metadata.resource_version.filter(|told| !told.is_empty()) {
        store.advance_to(&told);
        *version = told;
    }
    Ok(())
}

/// Reads an object and its logical cluster. An object that is not what its kind looks like is left
/// out: one tenant's object must not stop the others.
fn decode<K: ApiResource>(
    kind: &ApiKind,
    read: impl FnOnce() -> Result<K, serde_json::Error>,
) -> Option<(Arc<str>, K)> {
    let mut object = match read() {
        Ok(object) => object,
        Err(error) => {
            tracing::error!(resource = kind.qualified(), error = error_chain(&error), "left out an unreadable object");
            return None;
        }
    };
    // The annotation is the wildcard's, not the object's: it must not be written back.
    let metadata = object.metadata_mut();
    let cluster = metadata.annotations.as_mut().and_then(|annotations| annotations.remove(CLUSTER_ANNOTATION));
    if metadata.annotations.as_ref().is_some_and(std::collections::BTreeMap::is_empty) {
        metadata.annotations = None;
    }
    match cluster {
        Some(cluster) => Some((cluster.into(), object)),
        None => {
            tracing::error!(resource = kind.qualified(), "left out an object that does not say its cluster");
            None
        }
    }
}
