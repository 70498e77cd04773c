//! Create.

use super::logical::{LogicalClusterKind, LogicalClusterRecord, new_authority};
use super::services::Claims;
use super::write::{Target, Wrote, written};
use super::{Call, Kind, Registry, input, meta, query, respond};
use apimachinery::status::{ApiError, FieldError, FieldErrorKind};
use controller_runtime::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use std::fmt::Write as _;
use store::{Op, Txn};

/// Fields of metadata that a client does not choose.
const SYSTEM_FIELDS: [&str; 7] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "uid",
];

/// Whether the generation of its objects counts the changes of what is wanted.
pub(super) fn has_generation(kind: &Kind) -> bool {
    let resource = kind.resource();
    !kind.is_built_in()
        || (kind.subresources.status
            && (matches!(resource.group.as_str(), "apps" | "batch")
                || (resource.group.is_empty() && resource.resource == "pods")))
}

impl Registry {
    pub(super) async fn serve_create(&self, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        let dry_run = query::dry_run(call.info)?;
        let input = input::read_object(call)?;
        let created = self.create(call.record, call.kind, call.namespace, input.object, dry_run).await?;
        respond::object(StatusCode::CREATED, call.kind, call.info, call.headers, &created, &input.warnings)
    }

    /// Creates an object that [`input::admit`] let pass.
    pub(super) async fn create(
        &self,
        record: &LogicalClusterRecord,
        kind: &Kind,
        namespace: Option<&str>,
        mut object: Value,
        dry_run: bool,
    ) -> Result<Value, ApiError> {
        let metadata = meta::of(&mut object);
        if let Some(namespace) = namespace {
            let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
            if !given.is_empty() && given != namespace {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            metadata.insert("namespace".into(), namespace.into());
        }
        if metadata.remove("resourceVersion").is_some_and(|version| version.as_str().is_some_and(|v| !v.is_empty())) {
            return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
        }
        for field in SYSTEM_FIELDS {
            metadata.remove(field);
        }
        let generate = if meta::field(&object, "name").is_empty() {
            Some(meta::field(&object, "generateName").to_owned()).filter(|base| !base.is_empty())
        } else {
            None
        };
        for _ in 0..self.options().attempts.max(1) {
            let mut object = object.clone();
            if let Some(base) = &generate {
                meta::of(&mut object).insert("name".into(), meta::generate_name(base).into());
            }
            let mut object = self.prepare_create(kind, object)?;
            self.admit_create(record, kind, namespace, &mut object).await?;
            let name = meta::field(&object, "name").to_owned();
            let target = Target { record, kind, namespace, name: &name };
            match self.try_create(&target, object, dry_run, generate.is_some()).await? {
                Some(created) => return Ok(created),
                None => continue,
            }
        }
        let name = meta::field(&object, "name");
        let name = if name.is_empty() { meta::field(&object, "generateName") } else { name };
        Err(ApiError::too_many_requests(format!("{name:?} could not be created, please try again"), 1))
    }

    /// Sets what a new object begins with, and checks it.
    fn prepare_create(&self, kind: &Kind, mut object: Value) -> Result<Value, ApiError> {
        let metadata = meta::of(&mut object);
        metadata.insert("uid".into(), meta::new_uid().into());
        metadata.insert("creationTimestamp".into(), meta::rfc3339(meta::now()).into());
        if has_generation(kind) {
            metadata.insert("generation".into(), 1.into());
        }
        if !kind.is_built_in()
            && kind.subresources.status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        kind.schema.apply_defaults(&mut object);
        if let Some(default) = kind.rules.default {
            default(&mut object);
        }
        if let Some(prepare) = kind.rules.prepare {
            prepare(&mut object, None);
        }
        self.violations(kind, &object, None)?;
        Ok(object)
    }

    /// `None` when another writer was faster and it should be tried again.
    async fn try_create(
        &self,
        target: &Target<'_>,
        mut object: Value,
        dry_run: bool,
        generated: bool,
    ) -> Result<Option<Value>, ApiError> {
        let Target { record, kind, namespace, name } = *target;
        let resource = kind.resource();
        let already_exists = || ApiError::already_exists(&resource.group, &resource.resource, name);
        let mut txn = Txn::default();
        if let Some(namespace) = namespace {
            txn.conditions.extend(self.open_namespace(record, namespace, kind, name).await?);
        }
        let slot = self.slot(target).await?;
        if slot.value.is_some() {
            return if generated { Ok(None) } else { Err(already_exists()) };
        }
        let mut claims = Claims::default();
        if is_service(kind) {
            claims = self.claim(target, &mut object, None)?;
        }
        let hosted = self.options().hosts.as_ref() == Some(resource) && record.kind == LogicalClusterKind::Workspace;
        if hosted {
            let logical = host(&mut object)?;
            if !dry_run {
                let authority = new_authority(&logical)?;
                let record =
                    LogicalClusterRecord::new(&logical, meta::new_uid(), LogicalClusterKind::Cluster, authority);
                let creation = record.creation()?;
                txn.conditions.extend(creation.conditions);
                txn.ops.extend(creation.ops);
            }
        }
        if dry_run {
            return Ok(Some(object));
        }
        let key = target.key();
        txn.conditions.push((key.clone(), slot.condition));
        txn.ops.push(Op::Put { key: key.clone(), value: kind.encode(&object).bytes() });
        claims.add_to(&mut txn);
        match self.commit(record, txn).await? {
            Wrote::Done(revision) => Ok(Some(written(object, revision))),
            Wrote::Conflict(conflict) if conflict == key && !generated => Err(already_exists()),
            Wrote::Conflict(conflict) => match claims.refusal(target, &conflict) {
                Some(refusal) => Err(refusal),
                None => Ok(None),
            },
        }
    }
}

/// Whether a kind's objects take addresses.
pub(super) fn is_service(kind: &Kind) -> bool {
    kind.resource().group.is_empty() && kind.resource().resource == "services"
}

/// Names the logical cluster of a new object of the hosting kind, and holds the object until the
/// cluster is drained.
fn host(object: &mut Value) -> Result<String, ApiError> {
    let name = meta::field(object, "name").to_owned();
    let digest = ring::digest::digest(&ring::digest::SHA256, meta::field(object, "uid").as_bytes());
    let mut logical = format!("{name}-");
    for byte in digest.as_ref().iter().take(4) {
        // Writing to a String cannot fail.
        let _ = write!(logical, "{byte:02x}");
    }
    let wrong = apimachinery::validation::dns1123_label(&logical);
    if let Some(why) = wrong.first() {
        let error = FieldError {
            kind: FieldErrorKind::Invalid,
            field: "metadata.name".into(),
            value: Some(name.as_str().into()),
            detail: why.clone(),
        };
        return Err(ApiError::invalid(api::GROUP, meta::text(object, "kind"), &name, &[error]));
    }
    let mut finalizers = meta::finalizers(object);
    if !finalizers.iter().any(|finalizer| finalizer == api::CLUSTER_FINALIZER) {
        finalizers.push(api::CLUSTER_FINALIZER.into());
    }
    meta::of(object).insert("finalizers".into(), json!(finalizers));
    meta::section(object, "status").insert("logicalCluster".into(), logical.as_str().into());
    Ok(logical)
}
