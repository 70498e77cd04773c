//! What every write shares: what a key holds, and transactions that prove their cluster exists.

use super::definitions::Kind;
use super::logical::LogicalClusterRecord;
use super::value::{Object, Stored, tombstone};
use super::{Registry, failure, keys, meta, no_such_cluster};
use apimachinery::definition::GroupResource;
use apimachinery::status::ApiError;
use bytes::Bytes;
use serde_json::{Value, json};
use store::{Commit, Condition, Op, Revision, Txn};

/// One object by name.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) record: &'a LogicalClusterRecord,
    pub(super) kind: &'a Kind,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: &'a str,
}

impl Target<'_> {
    /// Its key in the store.
    pub(super) fn key(&self) -> Bytes {
        keys::object(self.kind.resource(), &self.record.name, self.namespace, self.name)
    }

    fn relative(&self) -> String {
        keys::relative(self.namespace, self.name)
    }

    /// 404.
    pub(super) fn not_found(&self) -> ApiError {
        let GroupResource { group, resource } = self.kind.resource();
        ApiError::not_found(group, resource, self.name)
    }

    /// 409 with a reason.
    pub(super) fn conflict(&self, why: &str) -> ApiError {
        let GroupResource { group, resource } = self.kind.resource();
        ApiError::conflict(group, resource, self.name, why)
    }

    /// 409 on a stale resource version.
    pub(super) fn modified(&self) -> ApiError {
        let GroupResource { group, resource } = self.kind.resource();
        ApiError::modified(group, resource, self.name)
    }

    /// 409 when the uid is not the one that was expected.
    pub(super) fn check_uid(&self, expected: &str, object: &Value) -> Result<(), ApiError> {
        let found = meta::field(object, "uid");
        if expected.is_empty() || expected == found {
            return Ok(());
        }
        Err(self
            .conflict(&format!("Precondition failed: UID in precondition: {expected}, UID in object meta: {found}")))
    }

    /// 409 when the resource version is not the one that was expected.
    pub(super) fn check_revision(&self, expected: &str, slot: &Slot) -> Result<(), ApiError> {
        if expected.is_empty() || expected == "0" {
            return Ok(());
        }
        let expected: u64 = expected.parse().map_err(|_| {
            ApiError::bad_request(format!("metadata.resourceVersion: Invalid value: {expected:?}: must be a number"))
        })?;
        if Revision(expected) == slot.revision { Ok(()) } else { Err(self.modified()) }
    }
}

/// What a key holds, undecoded.
pub(super) struct ObjectSlot {
    pub(super) object: Option<(Object, Revision)>,
    condition: Condition,
    in_base: bool,
}

/// What a key holds.
pub(super) struct Slot {
    /// The object as clients see it.
    pub(super) value: Option<Value>,
    /// Its resource version.
    pub(super) revision: Revision,
    /// What must still hold when it is changed.
    pub(super) condition: Condition,
    /// Whether the base layer has such an object.
    pub(super) in_base: bool,
}

/// The outcome of a transaction.
pub(super) enum Wrote {
    Done(Revision),
    /// Another writer was faster with this key.
    Conflict(Bytes),
}

impl Registry {
    /// Reads a key, falling through to the base layer.
    pub(super) async fn slot_object(&self, target: &Target<'_>) -> Result<ObjectSlot, ApiError> {
        let relative = target.relative();
        let in_base = self.base().contains(target.kind, &relative);
        let entry = self.store().get(&target.key(), None).await.map_err(failure)?;
        let (object, condition) = match entry {
            Some(entry) => {
                let object = Stored::decode(&entry.value)?.object().map(|object| (object, entry.modified));
                (object, Condition::ModifiedAt(entry.modified))
            }
            None => {
                let object = self.base().get(target.kind, target.record, &relative);
                (object.map(|object| (object, target.record.revision())), Condition::Absent)
            }
        };
        Ok(ObjectSlot { object, condition, in_base })
    }

    /// Reads a key, falling through to the base layer.
    pub(super) async fn slot(&self, target: &Target<'_>) -> Result<Slot, ApiError> {
        let ObjectSlot { object, condition, in_base } = self.slot_object(target).await?;
        let (value, revision) = match object {
            Some((object, revision)) => (Some(object.value(revision, None)?), revision),
            None => (None, Revision(0)),
        };
        Ok(Slot { value, revision, condition, in_base })
    }

    /// What must hold so that a namespace takes new objects.
    ///
    /// # Errors
    /// When it does not exist or is being deleted.
    pub(super) async fn open_namespace(
        &self,
        record: &LogicalClusterRecord,
        namespace: &str,
        created: &Kind,
        name: &str,
    ) -> Result<Option<(Bytes, Condition)>, ApiError> {
        let resource = GroupResource { group: String::new(), resource: "namespaces".into() };
        let Some(kind) = self.definitions().resource(&resource) else { return Ok(None) };
        let target = Target { record, kind, namespace: None, name: namespace };
        let slot = self.slot(&target).await?;
        let object = slot.value.ok_or_else(|| target.not_found())?;
        if meta::is_deleting(&object) {
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let mut error = ApiError::forbidden(&created.resource().group, &created.resource().resource, name, &why);
            if let Some(details) = &mut error.details {
                details["causes"] = json!([{
                    "reason": "NamespaceTerminating",
                    "message": format!("namespace {namespace} is being terminated"),
                    "field": "metadata.namespace",
                }]);
            }
            return Err(error);
        }
        Ok(Some((target.key(), slot.condition)))
    }

    /// Commits changes to a cluster that exists.
    pub(super) async fn commit(&self, record: &LogicalClusterRecord, mut txn: Txn) -> Result<Wrote, ApiError> {
        let cluster = keys::logical_cluster(&record.name);
        txn.conditions.push((cluster.clone(), Condition::Present));
        match self.store().commit(txn).await.map_err(failure)? {
            Commit::Done { revision } => Ok(Wrote::Done(revision)),
            Commit::Conflict { key, .. } if key == cluster => Err(no_such_cluster(&record.name)),
            Commit::Conflict { key, .. } => Ok(Wrote::Conflict(key)),
        }
    }
}

/// What removes an object: one of the base layer leaves a tombstone.
pub(super) fn removal(target: &Target<'_>, slot: &Slot) -> Op {
    let key = target.key();
    if slot.in_base { Op::Put { key, value: tombstone() } } else { Op::Delete { key } }
}

/// Sets the resource version of an object that was written.
pub(super) fn written(mut object: Value, revision: Revision) -> Value {
    meta::of(&mut object).insert("resourceVersion".into(), revision.to_string().into());
    object
}
