//! Watch: changes of the store as events of the objects that a client selected.

use super::accept::{Accept, Shape};
use super::definitions::Kind;
use super::keys::Place;
use super::logical::LogicalClusterRecord;
use super::query::{self, ListOptions, Selection};
use super::read::{Item, range};
use super::value::Stored;
use super::{Registry, failure, meta, respond};
use crate::request::{RequestInfo, ResourceRequest};
use apimachinery::status::ApiError;
use apimachinery::table::IncludeObject;
use bytes::Bytes;
use controller_runtime::{Body, BoxError};
use futures_util::StreamExt as _;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::{Value, json};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;
use store::{Change, Revision, WatchItem, WatchStream};
use tokio::time::Instant;

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";
/// Longest watch that a client can ask for.
const MAX_LIFETIME: u64 = 86_400;

/// What a watch shows, and how.
struct Watcher {
    registry: Registry,
    kind: Arc<Kind>,
    record: Option<LogicalClusterRecord>,
    selection: Selection,
    shape: Shape,
    include: IncludeObject,
    /// Whether a Table's columns were sent.
    described: bool,
    bookmarks: bool,
    /// When the next bookmark is due.
    next_bookmark: Instant,
    /// The revision that the client knows.
    seen: Revision,
}

/// How a watch goes on.
enum Next {
    Initial { items: std::vec::IntoIter<Item>, end: bool },
    Following,
    Ended,
}

impl Registry {
    pub(super) async fn serve_watch(
        &self,
        kind: &Arc<Kind>,
        record: Option<&LogicalClusterRecord>,
        request: &ResourceRequest,
        info: &RequestInfo,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, ApiError> {
        let accept = Accept::of(headers)?;
        let mut selection = Selection::parse(kind, request, info)?;
        if let Some(name) = &request.name {
            selection = selection.named(name)?;
        }
        let wanted = query::given(info, "resourceVersion").map(query::revision).transpose()?;
        let send_initial = initial_events(info)?;
        let range = range(kind, record, &selection);
        let mut watcher = Watcher {
            registry: self.clone(),
            kind: kind.clone(),
            record: record.cloned(),
            selection,
            shape: accept.shape,
            include: query::include_object(info)?,
            described: false,
            bookmarks: query::flag(info, "allowWatchBookmarks"),
            next_bookmark: Instant::now() + self.options().bookmark_interval,
            seen: Revision(0),
        };
        let from_now = wanted.is_none_or(|revision| revision.0 == 0);
        let state = send_initial.unwrap_or(from_now);
        let (after, next) = if state {
            let options = ListOptions { at_least: wanted, ..ListOptions::default() };
            let found = self.find(kind, record, &watcher.selection, &options).await?;
            let end = send_initial == Some(true);
            (found.revision, Next::Initial { items: found.items.into_iter(), end })
        } else if from_now {
            (self.store().revision(), Next::Following)
        } else {
            (wanted.unwrap_or_default(), Next::Following)
        };
        watcher.seen = after;
        let changes = match self.store().watch(&range, after).await {
            Ok(changes) => changes,
            // As upstream: what is too old is told in an event.
            Err(error @ store::Error::Compacted { .. }) => {
                return Ok(stream_response(respond::whole(error_event(&failure(error)))));
            }
            Err(error) => return Err(failure(error)),
        };
        let lifetime = lifetime(info, self.options().watch_lifetime)?;
        let events =
            futures_util::stream::unfold((watcher, changes, next), |(mut watcher, mut changes, mut next)| async {
                let frame = watcher.frame(&mut changes, &mut next).await?;
                Some((Ok::<_, BoxError>(Frame::data(Bytes::from(frame))), (watcher, changes, next)))
            });
        let events = events.take_until(tokio::time::sleep(lifetime));
        Ok(stream_response(StreamBody::new(events).boxed_unsync()))
    }
}

fn stream_response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// `sendInitialEvents`, which needs its companions.
fn initial_events(info: &RequestInfo) -> Result<Option<bool>, ApiError> {
    if query::given(info, "sendInitialEvents").is_none() {
        return Ok(None);
    }
    if query::given(info, "resourceVersionMatch") != Some("NotOlderThan") {
        return Err(ApiError::new(
            422,
            "Invalid",
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires \
             setting resourceVersionMatch to NotOlderThan",
        ));
    }
    Ok(Some(query::flag(info, "sendInitialEvents")))
}

fn lifetime(info: &RequestInfo, default: Duration) -> Result<Duration, ApiError> {
    if let Some(text) = query::given(info, "timeoutSeconds") {
        let seconds: u64 = text.parse().map_err(|_| query::not_a_number("timeoutSeconds", text))?;
        if seconds > 0 {
            return Ok(Duration::from_secs(seconds.min(MAX_LIFETIME)));
        }
    }
    let spread = meta::random() % 1000;
    Ok(default + default.mul_f64(f64::from(u32::try_from(spread).unwrap_or(0)) / 1000.0))
}

fn error_event(error: &ApiError) -> Vec<u8> {
    let mut line = json!({"type": "ERROR", "object": error.to_status()}).to_string().into_bytes();
    line.push(b'\n');
    line
}

impl Watcher {
    /// The next events; `None` when the watch has ended.
    async fn frame(&mut self, changes: &mut WatchStream, next: &mut Next) -> Option<Vec<u8>> {
        loop {
            let mut out = Vec::new();
            match next {
                Next::Initial { items, end } => match items.next() {
                    Some(item) => {
                        if let Err(error) = self.event(&mut out, "ADDED", &item) {
                            *next = Next::Ended;
                            return Some(error_event(&error));
                        }
                    }
                    None => {
                        if *end {
                            self.bookmark(&mut out, true);
                        }
                        *next = Next::Following;
                    }
                },
                Next::Following => match changes.next().await? {
                    Ok(WatchItem::Changes { revision, changes }) => {
                        self.seen = revision;
                        if let Err(error) = self.changes(&mut out, revision, &changes) {
                            *next = Next::Ended;
                            out.extend(error_event(&error));
                            return Some(out);
                        }
                    }
                    Ok(WatchItem::Progress(revision)) => {
                        let due = self.bookmarks && Instant::now() >= self.next_bookmark;
                        if due && revision >= self.seen {
                            self.seen = revision;
                            self.bookmark(&mut out, false);
                        }
                    }
                    // The client watches on from where it was.
                    Err(store::Error::WatchLagged | store::Error::Closed) => return None,
                    Err(error) => {
                        *next = Next::Ended;
                        return Some(error_event(&failure(error)));
                    }
                },
                Next::Ended => return None,
            }
            if !out.is_empty() {
                return Some(out);
            }
        }
    }

    fn changes(&mut self, out: &mut Vec<u8>, revision: Revision, changes: &[Change]) -> Result<(), ApiError> {
        for change in changes {
            if let Some((event, item)) = self.classify(change, revision)? {
                self.event(out, event, &item)?;
            }
        }
        Ok(())
    }

    /// What a change means to the client; `None` when nothing.
    fn classify(&self, change: &Change, revision: Revision) -> Result<Option<(&'static str, Item)>, ApiError> {
        let prefix = self.kind.prefix();
        let Some(place) = Place::parse(change.key(), prefix) else { return Ok(None) };
        let Some(key) = std::str::from_utf8(change.key()).ok().and_then(|key| key.strip_prefix(prefix)) else {
            return Ok(None);
        };
        let item = |object| Item { object, revision, key: key.to_owned() };
        let before = match change.previous() {
            Some(entry) => Stored::decode(&entry.value)?.object(),
            // A read of every cluster knows nothing of base objects.
            None => self.record.as_ref().and_then(|record| {
                let relative = super::keys::relative(place.namespace, place.name);
                self.registry.base().get(&self.kind, record, &relative)
            }),
        };
        let after = match change {
            Change::Put { entry, .. } => Stored::decode(&entry.value)?.object(),
            Change::Delete { .. } => None,
        };
        let before = before.filter(|object| self.selection.matches(place, object));
        let after = after.filter(|object| self.selection.matches(place, object));
        Ok(match (before, after) {
            (None, Some(after)) => Some(("ADDED", item(after))),
            (Some(_), Some(after)) => Some(("MODIFIED", item(after))),
            (Some(before), None) => Some(("DELETED", item(before))),
            (None, None) => None,
        })
    }

    fn event(&mut self, out: &mut Vec<u8>, event: &str, item: &Item) -> Result<(), ApiError> {
        let every = self.record.is_none();
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{{\"type\":\"{event}\",\"object\":");
        match self.shape {
            Shape::Object => item.write(out, every),
            Shape::Partial => {
                let _ = write!(out, "{}", respond::partial(&item.value(every)?));
            }
            Shape::Table => {
                let object = item.value(every)?;
                let mut table =
                    apimachinery::table::render(&self.kind, [&object], jiff::Timestamp::now(), self.include);
                table["metadata"]["resourceVersion"] = item.revision.to_string().into();
                if std::mem::replace(&mut self.described, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                let _ = write!(out, "{table}");
            }
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }

    fn bookmark(&mut self, out: &mut Vec<u8>, initial_end: bool) {
        self.next_bookmark = Instant::now() + self.registry.options().bookmark_interval;
        let mut metadata = json!({"resourceVersion": self.seen.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let object = match self.shape {
            Shape::Object => json!({
                "kind": self.kind.gvk.kind, "apiVersion": self.kind.gvk.api_version(), "metadata": metadata,
            }),
            Shape::Partial => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Shape::Table => {
                let partial =
                    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
                json!({
                    "kind": "Table", "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"resourceVersion": self.seen.to_string()},
                    "columnDefinitions": null, "rows": [{"cells": [], "object": partial}],
                })
            }
        };
        // Writing to a Vec cannot fail.
        let _ = writeln!(out, "{}", json!({"type": "BOOKMARK", "object": object}));
    }
}
