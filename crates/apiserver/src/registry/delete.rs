//! Delete and deletecollection: preconditions, propagation, finalizers and grace.

use super::base::IMMORTAL_NAMESPACES;
use super::create::has_generation;
use super::query::{self, ListOptions, Selection};
use super::update::{is_namespace, is_released};
use super::write::{Target, Wrote, removal, written};
use super::{Call, Kind, Registry, input, meta, respond};
use crate::request::{RequestInfo, ResourceRequest};
use apimachinery::status::{ApiError, FieldError, FieldErrorKind};
use controller_runtime::Body;
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use store::Txn;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// Longest grace that is a timestamp: a year.
const MAX_GRACE: i64 = 365 * 86_400;

/// How to delete.
#[derive(Clone, Debug, Default)]
pub(super) struct DeleteOptions {
    grace: Option<i64>,
    propagation: Option<Propagation>,
    uid: String,
    revision: String,
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    fn parse(text: &str) -> Result<Self, ApiError> {
        match text {
            "Background" => Ok(Self::Background),
            "Foreground" => Ok(Self::Foreground),
            "Orphan" => Ok(Self::Orphan),
            other => Err(options_error(
                "propagationPolicy",
                FieldErrorKind::NotSupported,
                other.into(),
                "supported values: \"Background\", \"Foreground\", \"Orphan\"",
            )),
        }
    }

    fn finalizer(self) -> Option<&'static str> {
        match self {
            Self::Background => None,
            Self::Foreground => Some(FOREGROUND),
            Self::Orphan => Some(ORPHAN),
        }
    }
}

fn options_error(field: &str, kind: FieldErrorKind, value: Value, detail: &str) -> ApiError {
    let error = FieldError { kind, field: field.into(), value: Some(value), detail: detail.into() };
    ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &[error])
}

impl DeleteOptions {
    /// Reads query parameters and, if there is one, the body.
    fn read(call: &Call<'_>) -> Result<Self, ApiError> {
        let mut options = Self::from_query(call.info)?;
        if !call.body.is_empty() {
            let (body, _) = input::parse_body(call, "DeleteOptions")?;
            options.add(&body)?;
        }
        options.check()
    }

    fn from_query(info: &RequestInfo) -> Result<Self, ApiError> {
        let mut options = Self { dry_run: query::dry_run(info)?, ..Self::default() };
        if let Some(text) = query::given(info, "gracePeriodSeconds") {
            options.grace = Some(text.parse().map_err(|_| query::not_a_number("gracePeriodSeconds", text))?);
        }
        if let Some(text) = query::given(info, "propagationPolicy") {
            options.propagation = Some(Propagation::parse(text)?);
        } else if info.query("orphanDependents").is_some() {
            options.orphan(query::flag(info, "orphanDependents"));
        }
        Ok(options)
    }

    fn orphan(&mut self, orphan: bool) {
        self.propagation = Some(if orphan { Propagation::Orphan } else { Propagation::Background });
    }

    /// Adds what a `DeleteOptions` object says.
    pub(super) fn add(&mut self, body: &Value) -> Result<(), ApiError> {
        if !body.is_object() {
            return Err(ApiError::bad_request("the body is not a DeleteOptions object"));
        }
        let kind = meta::text(body, "kind");
        if !matches!(kind, "" | "DeleteOptions") {
            return Err(ApiError::bad_request(format!("{kind} cannot be handled as a DeleteOptions")));
        }
        match body.get("gracePeriodSeconds") {
            None | Some(Value::Null) => {}
            Some(grace) => {
                let grace = grace.as_i64().ok_or_else(|| {
                    ApiError::bad_request("DeleteOptions.gracePeriodSeconds is not an integer of 64 bits")
                })?;
                self.grace = Some(grace);
            }
        }
        match body.get("propagationPolicy") {
            None | Some(Value::Null) => {
                if let Some(orphan) = body.get("orphanDependents").and_then(Value::as_bool) {
                    self.orphan(orphan);
                }
            }
            Some(policy) => self.propagation = Some(Propagation::parse(policy.as_str().unwrap_or_default())?),
        }
        if let Some(preconditions) = body.get("preconditions") {
            self.uid = meta::text(preconditions, "uid").to_owned();
            self.revision = meta::text(preconditions, "resourceVersion").to_owned();
        }
        for value in body.get("dryRun").and_then(Value::as_array).into_iter().flatten() {
            let value = value.as_str().unwrap_or("invalid");
            query::check_dry_run(value)?;
            self.dry_run |= !value.is_empty();
        }
        Ok(())
    }

    fn check(self) -> Result<Self, ApiError> {
        match self.grace {
            // As upstream: what is negative means at once, but not by force.
            Some(grace) if grace < 0 => Ok(Self { grace: Some(1), ..self }),
            Some(grace) if grace > MAX_GRACE => Ok(Self { grace: Some(MAX_GRACE), ..self }),
            _ => Ok(self),
        }
    }

    /// Options of an `Eviction`.
    pub(super) fn of_eviction(call: &Call<'_>, eviction: &Value) -> Result<Self, ApiError> {
        let mut options = Self { dry_run: query::dry_run(call.info)?, ..Self::default() };
        if let Some(body) = eviction.get("deleteOptions").filter(|body| !body.is_null()) {
            options.add(body)?;
        }
        options.check()
    }
}

/// What became of an object.
pub(super) struct Deleted {
    pub(super) object: Value,
    /// It is gone, not only marked.
    pub(super) removed: bool,
}

impl Registry {
    pub(super) async fn serve_delete(&self, call: &Call<'_>, target: &Target<'_>) -> Result<Response<Body>, ApiError> {
        let options = DeleteOptions::read(call)?;
        let deleted = self.delete(target, &options).await?;
        if !deleted.removed || returns_object(call.kind) {
            return respond::object(StatusCode::OK, call.kind, call.info, call.headers, &deleted.object, &[]);
        }
        let resource = call.kind.resource();
        let mut details = json!({
            "name": target.name, "kind": resource.resource, "uid": meta::field(&deleted.object, "uid"),
        });
        if !resource.group.is_empty() {
            details["group"] = resource.group.as_str().into();
        }
        let encoding = super::accept::Accept::of(call.headers)?.encoding;
        respond::plain(StatusCode::OK, encoding, &respond::success(Some(details)))
    }

    pub(super) async fn serve_delete_collection(
        &self,
        call: &Call<'_>,
        request: &ResourceRequest,
    ) -> Result<Response<Body>, ApiError> {
        let options = DeleteOptions::read(call)?;
        let selection = Selection::parse(call.kind, request, call.info)?;
        let list = ListOptions::parse(call.info)?;
        let found = self.find(call.kind, Some(call.record), &selection, &list).await?;
        let mut items = Vec::with_capacity(found.items.len());
        for item in &found.items {
            let Some(place) = item.place() else { continue };
            match self.delete(&call.target(place.name), &options).await {
                Ok(deleted) => items.push(deleted.object),
                Err(error) if error.reason == "NotFound" => {}
                Err(error) => return Err(error),
            }
        }
        let gvk = &call.kind.gvk;
        let list = json!({
            "kind": format!("{}List", gvk.kind), "apiVersion": gvk.api_version(),
            "metadata": {"resourceVersion": self.store().revision().to_string()}, "items": items,
        });
        respond::plain(StatusCode::OK, super::accept::Accept::of(call.headers)?.encoding, &list)
    }

    /// Deletes an object, or marks it when something still holds it.
    pub(super) async fn delete(&self, target: &Target<'_>, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        for _ in 0..self.options().attempts.max(1) {
            let slot = self.slot(target).await?;
            let old = slot.value.as_ref().ok_or_else(|| target.not_found())?;
            target.check_uid(&options.uid, old)?;
            target.check_revision(&options.revision, &slot)?;
            if is_namespace(target.kind) && IMMORTAL_NAMESPACES.contains(&target.name) {
                let why = "this namespace may not be deleted";
                return Err(ApiError::forbidden("", "namespaces", target.name, why));
            }
            let marked = mark(target.kind, old, options, meta::now(), self.options().default_grace_seconds);
            if !is_released(target.kind, &marked) {
                match self.store_update(target, &slot, marked, options.dry_run).await? {
                    Some(object) => return Ok(Deleted { object, removed: false }),
                    None => continue,
                }
            }
            if options.dry_run {
                return Ok(Deleted { object: old.clone(), removed: true });
            }
            let mut txn = Txn { conditions: vec![(target.key(), slot.condition)], ops: vec![removal(target, &slot)] };
            if super::create::is_service(target.kind) {
                txn.ops.extend(self.release(target, old));
            }
            if let Wrote::Done(revision) = self.commit(target.record, txn).await? {
                return Ok(Deleted { object: written(old.clone(), revision), removed: true });
            }
        }
        Err(target.modified())
    }
}

/// Kinds whose removal answers with the object, as upstream.
fn returns_object(kind: &Kind) -> bool {
    kind.resource().group.is_empty()
        && matches!(kind.resource().resource.as_str(), "pods" | "services" | "serviceaccounts")
}

/// The object with the marks of its deletion; one that [`is_released`] by them goes at once.
fn mark(kind: &Kind, old: &Value, options: &DeleteOptions, now: Timestamp, default_grace: i64) -> Value {
    let mut new = old.clone();
    if let Some(propagation) = options.propagation {
        let mut finalizers = meta::finalizers(old);
        finalizers.retain(|finalizer| !matches!(finalizer.as_str(), FOREGROUND | ORPHAN));
        finalizers.extend(propagation.finalizer().map(str::to_owned));
        let finalizers = (!finalizers.is_empty()).then(|| json!(finalizers));
        meta::set(meta::of(&mut new), "finalizers", finalizers);
    }
    let grace = grace(kind, old, options, default_grace);
    let already = meta::is_deleting(old);
    if already {
        let left = old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        if grace >= left {
            return new;
        }
    }
    let begun = if already {
        // A shorter grace counts from when the deletion was asked for.
        let left = old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        meta::field(old, "deletionTimestamp")
            .parse::<Timestamp>()
            .ok()
            .and_then(|end| end.checked_sub(SignedDuration::from_secs(left)).ok())
            .unwrap_or(now)
    } else {
        now
    };
    let end = begun.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    let generation = old["metadata"]["generation"].as_i64();
    let metadata = meta::of(&mut new);
    metadata.insert("deletionTimestamp".into(), meta::rfc3339(end).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    if !already
        && has_generation(kind)
        && let Some(generation) = generation
    {
        metadata.insert("generation".into(), (generation + 1).into());
    }
    if is_namespace(kind) {
        meta::section(&mut new, "status").insert("phase".into(), "Terminating".into());
    }
    new
}

/// Seconds that an object is given: only Pods that may run have any.
fn grace(kind: &Kind, old: &Value, options: &DeleteOptions, default_grace: i64) -> i64 {
    let is_pod = kind.resource().group.is_empty() && kind.resource().resource == "pods";
    let may_run = !meta::text(&old["spec"], "nodeName").is_empty()
        && !matches!(meta::text(&old["status"], "phase"), "Succeeded" | "Failed");
    if !is_pod || !may_run {
        return 0;
    }
    let own = old["spec"]["terminationGracePeriodSeconds"].as_i64();
    options.grace.or(own).unwrap_or(default_grace).clamp(0, MAX_GRACE)
}
