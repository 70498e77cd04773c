//! Get and list.

use super::accept::{Accept, Encoding, Shape};
use super::base::in_cluster;
use super::definitions::Kind;
use super::keys::{self, Place};
use super::logical::LogicalClusterRecord;
use super::query::{self, Continue, ListOptions, Selection};
use super::value::{Object, Stored};
use super::write::Target;
use super::{Call, Registry, failure, respond};
use crate::request::{RequestInfo, ResourceRequest};
use apimachinery::status::ApiError;
use controller_runtime::Body;
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::Write as _;
use std::num::NonZeroUsize;
use store::{Entry, KeyRange, RangeOptions, Revision};

/// An object that a read found.
pub(super) struct Item {
    pub(super) object: Object,
    pub(super) revision: Revision,
    /// Cluster, namespace and name, as a key behind the prefix of the kind.
    pub(super) key: String,
}

impl Item {
    /// Whose it is.
    pub(super) fn place(&self) -> Option<Place<'_>> {
        Place::parse(self.key.as_bytes(), "")
    }

    /// The cluster to name in a read of every cluster.
    fn cluster(&self, every: bool) -> Option<&str> {
        self.place().filter(|_| every).map(|place| place.cluster)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, every: bool) {
        self.object.write(out, self.revision, self.cluster(every));
    }

    pub(super) fn value(&self, every: bool) -> Result<Value, ApiError> {
        self.object.value(self.revision, self.cluster(every))
    }
}

/// A consistent read of some objects.
pub(super) struct Found {
    pub(super) items: Vec<Item>,
    pub(super) revision: Revision,
    pub(super) rest: Option<Continue>,
}

/// Which keys a selection can touch.
pub(super) fn range(kind: &Kind, record: Option<&LogicalClusterRecord>, selection: &Selection) -> KeyRange {
    let Some(record) = record else { return KeyRange::prefix(kind.prefix().to_owned()) };
    let namespace = selection.namespace.as_deref();
    match selection.exact_name() {
        Some(name) if namespace.is_some() == kind.is_namespaced() => {
            KeyRange::key(keys::object(kind.resource(), &record.name, namespace, name))
        }
        _ => KeyRange::prefix(keys::within(kind.resource(), &record.name, namespace)),
    }
}

impl Registry {
    pub(super) async fn serve_get(&self, call: &Call<'_>, target: &Target<'_>) -> Result<Response<Body>, ApiError> {
        if let Some(wanted) = query::given(call.info, "resourceVersion") {
            self.at_least(query::revision(wanted)?)?;
        }
        let accept = Accept::of(call.headers)?;
        let slot = self.slot_object(target).await?;
        let Some((object, revision)) = slot.object else { return Err(target.not_found()) };
        if accept == (Accept { shape: Shape::Object, encoding: Encoding::Json }) {
            let mut bytes = Vec::new();
            object.write(&mut bytes, revision, None);
            return Ok(respond::json_bytes(StatusCode::OK, bytes));
        }
        let value = object.value(revision, None)?;
        respond::object(StatusCode::OK, call.kind, call.info, call.headers, &value, &[])
    }

    pub(super) async fn serve_list(
        &self,
        kind: &Kind,
        record: Option<&LogicalClusterRecord>,
        request: &ResourceRequest,
        info: &RequestInfo,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, ApiError> {
        let accept = Accept::of(headers)?;
        let selection = Selection::parse(kind, request, info)?;
        let options = ListOptions::parse(info)?;
        let found = self.find(kind, record, &selection, &options).await?;
        let every = record.is_none();
        let mut metadata = json!({"resourceVersion": found.revision.to_string()});
        if let Some(rest) = &found.rest {
            metadata["continue"] = rest.encode().into();
        }
        if accept == (Accept { shape: Shape::Object, encoding: Encoding::Json }) {
            let mut out = Vec::new();
            // Writing to a Vec cannot fail.
            let _ = write!(
                out,
                "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
                kind.gvk.kind,
                kind.gvk.api_version()
            );
            for (index, item) in found.items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                item.write(&mut out, every);
            }
            out.extend_from_slice(b"]}");
            return Ok(respond::json_bytes(StatusCode::OK, out));
        }
        let items: Vec<Value> = found.items.iter().map(|item| item.value(every)).collect::<Result<_, _>>()?;
        let list = match accept.shape {
            Shape::Object => json!({
                "kind": format!("{}List", kind.gvk.kind), "apiVersion": kind.gvk.api_version(),
                "metadata": metadata, "items": items,
            }),
            Shape::Partial => json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata, "items": items.iter().map(respond::partial).collect::<Vec<_>>(),
            }),
            Shape::Table => {
                let include = query::include_object(info)?;
                let mut table = apimachinery::table::render(kind, &items, jiff::Timestamp::now(), include);
                table["metadata"] = metadata;
                table
            }
        };
        respond::plain(StatusCode::OK, accept.encoding, &list)
    }

    pub(super) async fn list_values(
        &self,
        kind: &Kind,
        record: &LogicalClusterRecord,
        namespace: Option<&str>,
    ) -> Result<Vec<Value>, ApiError> {
        let selection = Selection::everything(namespace);
        let found = self.find(kind, Some(record), &selection, &ListOptions::default()).await?;
        found.items.iter().map(|item| item.value(false)).collect()
    }

    /// Refuses to answer from before `wanted`.
    pub(super) fn at_least(&self, wanted: Revision) -> Result<(), ApiError> {
        let newest = self.store().revision();
        if wanted > newest { Err(failure(store::Error::Future { requested: wanted, newest })) } else { Ok(()) }
    }

    /// Reads the objects of a selection at one revision, in key order, stored ones merged with
    /// those of the base layer.
    pub(super) async fn find(
        &self,
        kind: &Kind,
        record: Option<&LogicalClusterRecord>,
        selection: &Selection,
        options: &ListOptions,
    ) -> Result<Found, ApiError> {
        if let Some(wanted) = options.at_least {
            self.at_least(wanted)?;
        }
        let mut range = range(kind, record, selection);
        let mut at = options.at;
        if let Some(from) = &options.from {
            at = Some(Revision(from.rv));
            let start = format!("{}{}", kind.prefix(), from.start);
            if !range.contains(start.as_bytes()) {
                return Err(ApiError::bad_request("continue key is not valid: it belongs to another list"));
            }
            range.start = start.into();
        }
        let mut base = match record {
            Some(record) => self.base_items(kind, record, &range),
            None => VecDeque::new(),
        };
        let limit = options.limit.unwrap_or(usize::MAX);
        let page = NonZeroUsize::new(self.options().page_entries.min(limit.saturating_add(1)));
        let mut items: Vec<Item> = Vec::new();
        loop {
            let read = self.store().range(&range, RangeOptions { at, limit: page }).await.map_err(|error| {
                match (error, &options.from) {
                    (store::Error::Compacted { .. }, Some(_)) => ApiError::expired(
                        "The provided continue parameter is too old to display a consistent list result. You must \
                         start a new list without the continue parameter.",
                    ),
                    (error, _) => failure(error),
                }
            })?;
            let revision = read.revision;
            if at.is_none() && record.is_some_and(|record| record.revision() > revision) {
                base.clear();
            }
            at = Some(revision);
            let more = read.more;
            let last = read.entries.last().map(|entry| entry.key.clone());
            for item in Self::merge(kind, read.entries, &mut base, !more)? {
                if !item.place().is_some_and(|place| selection.matches(place, &item.object)) {
                    continue;
                }
                if items.len() == limit {
                    return Ok(Found { items, revision, rest: Some(Continue::new(revision, item.key)) });
                }
                items.push(item);
            }
            match last {
                Some(last) if more => {
                    let mut next = last.to_vec();
                    next.push(0);
                    range.start = next.into();
                }
                _ => return Ok(Found { items, revision, rest: None }),
            }
        }
    }

    /// The base objects in a range, in key order.
    fn base_items(&self, kind: &Kind, record: &LogicalClusterRecord, range: &KeyRange) -> VecDeque<Item> {
        let cluster = format!("{}{}/", kind.prefix(), record.name);
        let start = std::str::from_utf8(&range.start).unwrap_or_default();
        let from = start.strip_prefix(&cluster).unwrap_or_default();
        self.base()
            .range(kind, "", from)
            .filter(|(key, _)| range.contains(format!("{cluster}{key}").as_bytes()))
            .map(|(key, object)| Item {
                object: in_cluster(kind, record, key, object),
                revision: record.revision(),
                key: format!("{}/{key}", record.name),
            })
            .collect()
    }

    /// Merges stored entries with the base objects up to the last entry, or all when this is the
    /// end. What is stored wins over the base.
    fn merge(kind: &Kind, entries: Vec<Entry>, base: &mut VecDeque<Item>, end: bool) -> Result<Vec<Item>, ApiError> {
        let mut items = Vec::with_capacity(entries.len());
        for entry in entries {
            let Some(key) = entry.key.strip_prefix(kind.prefix().as_bytes()) else { continue };
            let key = String::from_utf8_lossy(key).into_owned();
            let before = base.iter().take_while(|item| item.key < key).count();
            items.extend(base.drain(..before));
            if base.front().is_some_and(|item| item.key == key) {
                base.pop_front();
            }
            if let Some(object) = Stored::decode(&entry.value)?.object() {
                items.push(Item { object, revision: entry.modified, key });
            }
        }
        if end {
            items.extend(base.drain(..));
        }
        Ok(items)
    }
}
