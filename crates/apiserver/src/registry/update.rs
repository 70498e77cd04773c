//! Update: optimistic concurrency, what stays, and what an update that ends a deletion removes.

use super::create::{has_generation, is_service};
use super::input::Input;
use super::services::Claims;
use super::write::{Slot, Target, Wrote, removal, written};
use super::{Call, Kind, Registry, input, meta, query, respond};
use apimachinery::status::{ApiError, FieldError, FieldErrorKind};
use controller_runtime::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use store::{Op, Txn};

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All but the status, if that is a subresource.
    Main,
    /// The status.
    Status,
    /// Whatever the registry itself changed.
    Own,
}

/// How often a write is tried when other writers are faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempts {
    /// Once: the client named the version that it has seen.
    One,
    /// As often as the options say.
    Many,
}

/// Metadata that no update changes.
const KEPT_FIELDS: [&str; 7] =
    ["creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "name", "namespace", "uid"];

impl Registry {
    pub(super) async fn serve_update(&self, call: &Call<'_>, target: &Target<'_>) -> Result<Response<Body>, ApiError> {
        self.update_part(call, target, Part::Main).await
    }

    pub(super) async fn update_part(
        &self,
        call: &Call<'_>,
        target: &Target<'_>,
        part: Part,
    ) -> Result<Response<Body>, ApiError> {
        let dry_run = query::dry_run(call.info)?;
        let input = input::read_object(call)?;
        check_names(target, &input.object)?;
        let unconditional = matches!(meta::field(&input.object, "resourceVersion"), "" | "0");
        if unconditional && !allows_unconditional(target.kind) {
            return Err(must_be_specified(target));
        }
        let attempts = if unconditional { Attempts::Many } else { Attempts::One };
        self.replace(call, target, part, attempts, dry_run, |_| Ok(input.clone())).await
    }

    /// Stores what `make` makes of the newest state, if it is still the object and the version that the
    /// client meant, and answers with the result.
    pub(super) async fn replace(
        &self,
        call: &Call<'_>,
        target: &Target<'_>,
        part: Part,
        attempts: Attempts,
        dry_run: bool,
        make: impl Fn(&Value) -> Result<Input, ApiError>,
    ) -> Result<Response<Body>, ApiError> {
        let attempts = match attempts {
            Attempts::One => 1,
            Attempts::Many => self.options().attempts.max(1),
        };
        for _ in 0..attempts {
            let slot = self.slot(target).await?;
            let old = slot.value.as_ref().ok_or_else(|| target.not_found())?;
            let Input { object, warnings } = make(old)?;
            target.check_uid(meta::field(&object, "uid"), old)?;
            target.check_revision(meta::field(&object, "resourceVersion"), &slot)?;
            let new = self.prepare_update(target, old, object, part)?;
            if let Some(updated) = self.store_update(target, &slot, new, dry_run).await? {
                return respond::object(StatusCode::OK, call.kind, call.info, call.headers, &updated, &warnings);
            }
        }
        Err(target.modified())
    }

    /// Makes the new state of an object from what a client sent, and checks it.
    pub(super) fn prepare_update(
        &self,
        target: &Target<'_>,
        old: &Value,
        mut new: Value,
        part: Part,
    ) -> Result<Value, ApiError> {
        let kind = target.kind;
        match part {
            Part::Main => keep_status(kind, &mut new, old),
            Part::Status => new = only_status(kind, &new, old),
            Part::Own => {}
        }
        if part != Part::Own && is_namespace(kind) {
            let finalizers = old["spec"].get("finalizers").cloned();
            meta::set(meta::section(&mut new, "spec"), "finalizers", finalizers);
        }
        if self.options().hosts.as_ref() == Some(kind.resource()) {
            let logical = old["status"].get("logicalCluster").cloned();
            meta::set(meta::section(&mut new, "status"), "logicalCluster", logical);
        }
        let metadata = meta::of(&mut new);
        for field in KEPT_FIELDS {
            // The registry itself sets deletion and name where it changes them.
            if part != Part::Own {
                meta::set(metadata, field, old["metadata"].get(field).cloned());
            }
        }
        for field in ["managedFields", "selfLink"] {
            metadata.remove(field);
        }
        meta::set(metadata, "resourceVersion", old["metadata"].get("resourceVersion").cloned());
        if kind.is_built_in() {
            kind.schema.drop_nulls(&mut new);
        }
        kind.schema.apply_defaults(&mut new);
        if let Some(default) = kind.rules.default {
            default(&mut new);
        }
        if part != Part::Own
            && let Some(prepare) = kind.rules.prepare
        {
            prepare(&mut new, Some(old));
        }
        self.violations(kind, &new, Some(old))?;
        check_new_finalizers(target, &new, old)?;
        if has_generation(kind) && wanted_differs(&new, old) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            meta::of(&mut new).insert("generation".into(), generation.into());
        }
        Ok(new)
    }

    /// Stores the new state, or removes the object if nothing holds it any more. `None` when
    /// another writer was faster.
    pub(super) async fn store_update(
        &self,
        target: &Target<'_>,
        slot: &Slot,
        mut new: Value,
        dry_run: bool,
    ) -> Result<Option<Value>, ApiError> {
        let Some(old) = &slot.value else { return Err(target.not_found()) };
        let gone = is_released(target.kind, &new);
        if !gone && new == *old {
            return Ok(Some(new));
        }
        let service = is_service(target.kind);
        let mut claims = Claims::default();
        if service && !gone {
            claims = self.claim(target, &mut new, Some(old))?;
        }
        if dry_run {
            return Ok(Some(new));
        }
        let key = target.key();
        let mut txn = Txn { conditions: vec![(key.clone(), slot.condition)], ops: Vec::new() };
        if gone {
            txn.ops.push(removal(target, slot));
            if service {
                txn.ops.extend(self.release(target, old));
            }
        } else {
            txn.ops.push(Op::Put { key: key.clone(), value: target.kind.encode(&new).bytes() });
            claims.add_to(&mut txn);
        }
        match self.commit(target.record, txn).await? {
            Wrote::Done(revision) => Ok(Some(written(new, revision))),
            Wrote::Conflict(conflict) => match claims.refusal(target, &conflict) {
                Some(refusal) => Err(refusal),
                None => Ok(None),
            },
        }
    }

    /// Changes an object as the registry itself wants it, as often as others are faster.
    pub(super) async fn change(
        &self,
        target: &Target<'_>,
        dry_run: bool,
        change: impl Fn(&mut Value, &Slot) -> Result<(), ApiError>,
    ) -> Result<Value, ApiError> {
        for _ in 0..self.options().attempts.max(1) {
            let slot = self.slot(target).await?;
            let old = slot.value.as_ref().ok_or_else(|| target.not_found())?;
            let mut new = old.clone();
            change(&mut new, &slot)?;
            let new = self.prepare_update(target, old, new, Part::Own)?;
            if let Some(updated) = self.store_update(target, &slot, new, dry_run).await? {
                return Ok(updated);
            }
        }
        Err(target.modified())
    }
}

pub(super) fn is_namespace(kind: &Kind) -> bool {
    kind.resource().group.is_empty() && kind.resource().resource == "namespaces"
}

/// Whether an object that is being deleted is held by nothing any more.
pub(super) fn is_released(kind: &Kind, object: &Value) -> bool {
    meta::is_deleting(object)
        && meta::finalizers(object).is_empty()
        && object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && !(is_namespace(kind) && object["spec"]["finalizers"].as_array().is_some_and(|held| !held.is_empty()))
}

/// The name and namespace of a body must be those of the path.
pub(super) fn check_names(target: &Target<'_>, object: &Value) -> Result<(), ApiError> {
    let name = meta::field(object, "name");
    if name.is_empty() {
        return Err(ApiError::bad_request("name must be provided"));
    }
    if name != target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    let namespace = meta::field(object, "namespace");
    if !namespace.is_empty() && target.namespace.is_some_and(|expected| expected != namespace) {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Whether an update may leave out the resource version.
fn allows_unconditional(kind: &Kind) -> bool {
    kind.is_built_in() && kind.resource().group != "coordination.k8s.io"
}

fn must_be_specified(target: &Target<'_>) -> ApiError {
    let error = FieldError {
        kind: FieldErrorKind::Invalid,
        field: "metadata.resourceVersion".into(),
        value: Some(0.into()),
        detail: "must be specified for an update".into(),
    };
    ApiError::invalid(&target.kind.gvk.group, &target.kind.gvk.kind, target.name, &[error])
}

fn keep_status(kind: &Kind, new: &mut Value, old: &Value) {
    if kind.subresources.status
        && let Some(fields) = new.as_object_mut()
    {
        meta::set(fields, "status", old.get("status").cloned());
    }
}

/// The old object with the new status; of a built-in kind, labels and annotations change too.
fn only_status(kind: &Kind, new: &Value, old: &Value) -> Value {
    let mut merged = old.clone();
    if let Some(fields) = merged.as_object_mut() {
        meta::set(fields, "status", new.get("status").cloned());
    }
    if kind.is_built_in() {
        for field in ["labels", "annotations"] {
            meta::set(meta::of(&mut merged), field, new["metadata"].get(field).cloned());
        }
    }
    merged
}

/// An object that is being deleted takes no new finalizers.
fn check_new_finalizers(target: &Target<'_>, new: &Value, old: &Value) -> Result<(), ApiError> {
    if !meta::is_deleting(old) {
        return Ok(());
    }
    let before = meta::finalizers(old);
    let added: Vec<String> = meta::finalizers(new).into_iter().filter(|new| !before.contains(new)).collect();
    // A second deletion may choose another propagation.
    if added.iter().all(|added| matches!(added.as_str(), "foregroundDeletion" | "orphan")) {
        return Ok(());
    }
    let error = FieldError {
        kind: FieldErrorKind::Forbidden,
        field: "metadata.finalizers".into(),
        value: None,
        detail: format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.iter().map(|added| format!("{added:?}")).collect::<Vec<_>>().join(", ")
        ),
    };
    Err(ApiError::invalid(&target.kind.gvk.group, &target.kind.gvk.kind, target.name, &[error]))
}

/// Whether anything but metadata and status differs.
fn wanted_differs(new: &Value, old: &Value) -> bool {
    let empty = serde_json::Map::new();
    let wanted = |object: &'_ Value| -> Vec<(String, Value)> {
        object
            .as_object()
            .unwrap_or(&empty)
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    json!(wanted(new)) != json!(wanted(old))
}
