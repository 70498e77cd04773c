//! The `scale` subresource.

use super::input;
use super::patch::Patch;
use super::update::check_names;
use super::write::{Slot, Target};
use super::{Call, Registry, meta, query, respond};
use apimachinery::definition::Scale;
use apimachinery::selector::LabelSelector;
use apimachinery::status::{ApiError, FieldError, FieldErrorKind};
use apimachinery::table::JsonPath;
use controller_runtime::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};

impl Registry {
    pub(super) async fn serve_scale(
        &self,
        call: &Call<'_>,
        target: &Target<'_>,
        scale: &Scale,
    ) -> Result<Response<Body>, ApiError> {
        let shown = match call.info.verb.as_str() {
            "get" => {
                let object = self.slot(target).await?.value.ok_or_else(|| target.not_found())?;
                view(&object, scale)
            }
            "update" => {
                let body = input::parse_body(call, "Scale")?.0;
                check_kind(&body)?;
                self.set_scale(call, target, scale, |_| Ok(body.clone())).await?
            }
            _ => {
                let patch = Patch::read(call, true)?;
                self.set_scale(call, target, scale, |object| match &patch {
                    // A Scale has no lists, so both merge alike.
                    Patch::Strategic(patch) => apimachinery::patch::merge_patch(&view(object, scale), patch),
                    patch => patch.apply(&view(object, scale), target.kind),
                })
                .await?
            }
        };
        respond::plain(StatusCode::OK, super::accept::Accept::of(call.headers)?.encoding, &shown)
    }

    async fn set_scale(
        &self,
        call: &Call<'_>,
        target: &Target<'_>,
        scale: &Scale,
        wanted: impl Fn(&Value) -> Result<Value, ApiError>,
    ) -> Result<Value, ApiError> {
        let dry_run = query::dry_run(call.info)?;
        let change = |object: &mut Value, slot: &Slot| {
            let wanted = wanted(object)?;
            check_names(target, &wanted)?;
            target.check_uid(meta::field(&wanted, "uid"), object)?;
            target.check_revision(meta::field(&wanted, "resourceVersion"), slot)?;
            let replicas = replicas(target, &wanted)?;
            set_path(object, &scale.spec_replicas, replicas.into());
            Ok(())
        };
        Ok(view(&self.change(target, dry_run, change).await?, scale))
    }
}

fn check_kind(body: &Value) -> Result<(), ApiError> {
    let (version, kind) = (meta::text(body, "apiVersion"), meta::text(body, "kind"));
    if body.is_object() && matches!(version, "" | "autoscaling/v1") && matches!(kind, "" | "Scale") {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a Scale")))
}

fn replicas(target: &Target<'_>, scale: &Value) -> Result<i64, ApiError> {
    let given = scale["spec"].get("replicas").cloned().unwrap_or(Value::Null);
    let number = match &given {
        Value::Null => Some(0),
        given => given.as_i64().filter(|number| i32::try_from(*number).is_ok()),
    };
    let Some(number) = number else {
        return Err(ApiError::bad_request("Scale.spec.replicas is not an integer of 32 bits"));
    };
    if number >= 0 {
        return Ok(number);
    }
    let error = FieldError {
        kind: FieldErrorKind::Invalid,
        field: "spec.replicas".into(),
        value: Some(given),
        detail: "must be greater than or equal to 0".into(),
    };
    Err(ApiError::invalid("autoscaling", "Scale", target.name, &[error]))
}

/// The object as a `Scale`.
fn view(object: &Value, scale: &Scale) -> Value {
    let read = |path: &str| JsonPath::parse(path).ok().and_then(|path| path.first(object).cloned());
    let number = |path: &str| read(path).and_then(|value| value.as_i64()).unwrap_or(0);
    let mut metadata = serde_json::Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        meta::set(&mut metadata, field, object["metadata"].get(field).cloned());
    }
    let mut view = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": number(&scale.spec_replicas)},
        "status": {"replicas": number(&scale.status_replicas)},
    });
    let selector = match scale.selector.as_deref().and_then(read) {
        Some(Value::String(text)) => Some(text),
        Some(selector) => LabelSelector::from_object(&selector).ok().map(|selector| selector.to_string()),
        None => None,
    };
    if let Some(selector) = selector {
        view["status"]["selector"] = selector.into();
    }
    view
}

fn set_path(object: &mut Value, path: &str, value: Value) {
    let Ok(path) = JsonPath::parse(path) else { return };
    let Some(fields) = path.fields() else { return };
    let Some((last, parents)) = fields.split_last() else { return };
    let mut at = object;
    for field in parents {
        meta::section(at, field);
        at = &mut at[*field];
    }
    if let Some(fields) = at.as_object_mut() {
        fields.insert((*last).to_owned(), value);
    }
}
