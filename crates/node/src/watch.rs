//! Follows the objects of one kind in this node's cluster: a list, then changes, for ever.

use controller_runtime::{ApiKind, ApiResource, Client, ClientError, ListOptions};
use http_body_util::BodyExt;
use runtime::{Backoff, BackoffOptions};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::sync::mpsc;

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum Change<K> {
    /// Everything that there is; whatever is not in it is gone.
    All(Vec<K>),
    /// An object as it is now.
    Now(K),
    /// An object that is gone, as it was last.
    Gone(K),
}

/// Limits of a watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchOptions {
    /// How long one request watches.
    pub(crate) duration: Duration,
    /// Largest event, bytes.
    pub(crate) max_event: usize,
    /// Delays after failures.
    pub(crate) backoff: BackoffOptions,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(300),
            max_event: 8 << 20,
            backoff: BackoffOptions {
                initial: Duration::from_millis(100),
                max: Duration::from_secs(5),
                ..BackoffOptions::default()
            },
        }
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Why a watch ended; the next one starts where it says.
enum Ended {
    /// From this version on.
    At(String),
    /// With a list.
    Relist,
    /// The receiver is gone.
    Unwanted,
}

/// Follows until the receiver is dropped. Failures are retried for ever: whoever needs to know that
/// the cluster is out of reach watches the lease.
pub(crate) async fn follow<K: ApiResource>(
    client: Client,
    which: ListOptions,
    options: WatchOptions,
    changes: mpsc::Sender<Change<K>>,
) {
    let mut backoff = Backoff::new(options.backoff);
    let mut version: Option<String> = None;
    loop {
        let from = match version.take() {
            Some(version) => version,
            None => match client.resource::<K>().list_versioned("", &which).await {
                Ok((objects, version)) => {
                    if changes.send(Change::All(objects)).await.is_err() {
                        return;
                    }
                    version
                }
                Err(error) => {
                    tracing::warn!(kind = K::KIND, error = runtime::error_chain(&error), "cannot list");
                    tokio::time::sleep(backoff.next_delay()).await;
                    continue;
                }
            },
        };
        match watch_once(&client, &which, &options, &from, &changes).await {
            Ok(Ended::Unwanted) => return,
            Ok(Ended::At(next)) => {
                if next == from {
                    // Nothing came: a server that ends watches at once must not be asked in a loop.
                    tokio::time::sleep(backoff.next_delay()).await;
                } else {
                    backoff.reset();
                }
                version = Some(next);
            }
            Ok(Ended::Relist) => tokio::time::sleep(backoff.next_delay()).await,
            Err(error) => {
                tracing::warn!(kind = K::KIND, error = runtime::error_chain(&error), "cannot watch");
                tokio::time::sleep(backoff.next_delay()).await;
                version = if error.api().is_some() { None } else { Some(from) };
            }
        }
    }
}

async fn watch_once<K: ApiResource>(
    client: &Client,
    which: &ListOptions,
    options: &WatchOptions,
    from: &str,
    changes: &mpsc::Sender<Change<K>>,
) -> Result<Ended, ClientError> {
    let mut path = format!(
        "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={from}",
        ApiKind::of::<K>().path(""),
        options.duration.as_secs()
    );
    if !which.field_selector.is_empty() {
        path.push_str("&fieldSelector=");
        path.push_str(&which.field_selector.replace('=', "%3D"));
    }
    let response = client.raw(http::Method::GET, &path, "application/json", bytes::Bytes::new()).await?;
    let status = response.status();
    let mut body = response.into_body();
    if !status.is_success() {
        return Err(ClientError::Api(apimachinery::status::ApiError::new(
            status.as_u16(),
            status.canonical_reason().unwrap_or("Unknown"),
            "the server refused the watch",
        )));
    }
    let mut version = from.to_owned();
    let mut buffer = Vec::new();
    // The server ends the watch after its duration; a connection that died unnoticed ends it later.
    let deadline = tokio::time::Instant::now() + options.duration + Duration::from_secs(30);
    loop {
        let frame = tokio::select! {
            frame = tokio::time::timeout_at(deadline, body.frame()) => frame,
            () = changes.closed() => return Ok(Ended::Unwanted),
        };
        let Ok(Some(Ok(frame))) = frame else { return Ok(Ended::At(version)) };
        let Ok(data) = frame.into_data() else { continue };
        buffer.extend_from_slice(&data);
        let mut start = 0;
        while let Some(length) = buffer[start..].iter().position(|byte| *byte == b'\n') {
            let line = &buffer[start..start + length];
            start += length + 1;
            if line.is_empty() {
                continue;
            }
            match read::<K>(line) {
                Some((change, next)) => {
                    if let Some(change) = change
                        && changes.send(change).await.is_err()
                    {
                        return Ok(Ended::Unwanted);
                    }
                    if let Some(next) = next {
                        version = next;
                    }
                }
                None => return Ok(Ended::Relist),
            }
        }
        buffer.drain(..start);
        if buffer.len() > options.max_event {
            return Ok(Ended::Relist);
        }
    }
}

/// One event: the change that it means, if any, and its version. `None` when the watch is broken.
fn read<K: ApiResource>(line: &[u8]) -> Option<(Option<Change<K>>, Option<String>)> {
    let event: Event<'_> = serde_json::from_slice(line).ok()?;
    let text = event.object.get();
    if event.kind == "BOOKMARK" {
        let object: serde_json::Value = serde_json::from_str(text).ok()?;
        return Some((None, object["metadata"]["resourceVersion"].as_str().map(str::to_owned)));
    }
    let object: K = match event.kind {
        "ADDED" | "MODIFIED" | "DELETED" => serde_json::from_str(text).ok()?,
        _ => return None,
    };
    let version = object.metadata().resource_version.clone();
    Some((Some(if event.kind == "DELETED" { Change::Gone(object) } else { Change::Now(object) }), version))
}

#[cfg(test)]
mod tests {
    use super::{Change, read};
    use k8s_openapi::api::core::v1::Pod;

    #[test]
    fn events_are_changes_bookmarks_and_the_end() {
        let line = |kind: &str| {
            format!(
                r#"{{"type":"{kind}","object":{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","resourceVersion":"7"}}}}}}"#
            )
        };
        assert!(matches!(read::<Pod>(line("ADDED").as_bytes()), Some((Some(Change::Now(_)), Some(v))) if v == "7"));
        assert!(matches!(read::<Pod>(line("DELETED").as_bytes()), Some((Some(Change::Gone(_)), Some(_)))));
        assert!(matches!(read::<Pod>(line("BOOKMARK").as_bytes()), Some((None, Some(v))) if v == "7"));
        assert!(read::<Pod>(line("ERROR").as_bytes()).is_none());
        assert!(read::<Pod>(b"{").is_none());
    }
}
