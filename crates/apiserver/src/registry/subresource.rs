//! Subresources that the registry itself serves: status, scale, binding, eviction, finalize.

use super::delete::DeleteOptions;
use super::update::{Part, check_names, is_namespace};
use super::write::Target;
use super::{Call, Registry, input, meta, query, respond};
use apimachinery::status::ApiError;
use controller_runtime::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};

impl Registry {
    pub(super) async fn serve_subresource(
        &self,
        call: &Call<'_>,
        target: &Target<'_>,
        subresource: &str,
    ) -> Result<Response<Body>, ApiError> {
        let known = &call.kind.subresources;
        let resource = call.kind.resource();
        let is_pod = resource.group.is_empty() && resource.resource == "pods";
        match (call.info.verb.as_str(), subresource) {
            ("update", "status") if known.status => self.update_part(call, target, Part::Status).await,
            ("patch", "status") if known.status => self.patch_part(call, target, Part::Status).await,
            ("get" | "update" | "patch", "scale") => match &known.scale {
                Some(scale) => self.serve_scale(call, target, scale).await,
                None => Err(ApiError::no_such_path()),
            },
            ("create", "binding") if is_pod => self.bind(call, target).await,
            ("create", "eviction") if is_pod => self.evict(call, target).await,
            ("update", "finalize") if is_namespace(call.kind) => self.finalize(call, target).await,
            _ if known.connect.iter().any(|known| known.name == subresource)
                || subresource == "status" && known.status =>
            {
                let path = format!("{}/{subresource}", resource.resource);
                Err(ApiError::method_not_supported(&resource.group, &path, &call.info.verb))
            }
            _ => Err(ApiError::no_such_path()),
        }
    }

    /// Assigns a Pod to a node.
    async fn bind(&self, call: &Call<'_>, target: &Target<'_>) -> Result<Response<Body>, ApiError> {
        let dry_run = query::dry_run(call.info)?;
        let binding = input::parse_body(call, "Binding")?.0;
        expect(&binding, "v1", "Binding")?;
        let node = meta::text(&binding["target"], "name").to_owned();
        let kind = meta::text(&binding["target"], "kind");
        if node.is_empty() || !matches!(kind, "" | "Node") {
            return Err(ApiError::bad_request("target.name and target.kind must name a Node"));
        }
        let uid = meta::field(&binding, "uid");
        let annotations = binding["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        let conflict = |why: String| ApiError::conflict("", "pods/binding", target.name, &why);
        self.change(target, dry_run, |pod, _| {
            target.check_uid(uid, pod)?;
            if meta::is_deleting(pod) {
                return Err(conflict(format!("pod {} is being deleted, cannot be assigned to a host", target.name)));
            }
            let present = meta::text(&pod["spec"], "nodeName");
            if !present.is_empty() {
                return Err(conflict(format!("pod {} is already assigned to node {present:?}", target.name)));
            }
            if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
                return Err(conflict(format!("pod {} has non-empty .spec.schedulingGates", target.name)));
            }
            meta::section(pod, "spec").insert("nodeName".into(), node.as_str().into());
            if !annotations.is_empty() {
                let metadata = &mut pod["metadata"];
                meta::section(metadata, "annotations").extend(annotations.clone());
            }
            set_scheduled(pod);
            Ok(())
        })
        .await?;
        respond::plain(StatusCode::CREATED, super::accept::Accept::of(call.headers)?.encoding, &respond::success(None))
    }

    /// Deletes a Pod. There are no disruption budgets that could refuse.
    async fn evict(&self, call: &Call<'_>, target: &Target<'_>) -> Result<Response<Body>, ApiError> {
        let eviction = input::parse_body(call, "Eviction")?.0;
        expect(&eviction, "policy/v1", "Eviction")?;
        let name = meta::field(&eviction, "name");
        if !name.is_empty() && name != target.name {
            return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
        }
        let options = DeleteOptions::of_eviction(call, &eviction)?;
        self.delete(target, &options).await?;
        respond::plain(StatusCode::CREATED, super::accept::Accept::of(call.headers)?.encoding, &respond::success(None))
    }

    /// Sets what still holds a Namespace.
    async fn finalize(&self, call: &Call<'_>, target: &Target<'_>) -> Result<Response<Body>, ApiError> {
        let dry_run = query::dry_run(call.info)?;
        let input = input::read_object(call)?;
        check_names(target, &input.object)?;
        let version = meta::field(&input.object, "resourceVersion");
        let finalizers = input.object["spec"].get("finalizers").cloned();
        let updated = self
            .change(target, dry_run, |namespace, slot| {
                target.check_uid(meta::field(&input.object, "uid"), namespace)?;
                target.check_revision(version, slot)?;
                meta::set(meta::section(namespace, "spec"), "finalizers", finalizers.clone());
                Ok(())
            })
            .await?;
        respond::object(StatusCode::OK, call.kind, call.info, call.headers, &updated, &input.warnings)
    }
}

/// Refuses a body of another kind; what is left out is taken for granted.
fn expect(object: &Value, api_version: &str, kind: &str) -> Result<(), ApiError> {
    let (given_version, given_kind) = (meta::text(object, "apiVersion"), meta::text(object, "kind"));
    let fits = |given: &str, wanted: &str| given.is_empty() || given == wanted;
    if object.is_object() && fits(given_version, api_version) && fits(given_kind, kind) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "{given_kind} in version {given_version:?} cannot be handled as a {kind} in version {api_version:?}"
    )))
}

/// Says that a Pod has a node.
fn set_scheduled(pod: &mut Value) {
    let condition = json!({
        "type": "PodScheduled", "status": "True",
        "lastTransitionTime": meta::rfc3339(meta::now()),
    });
    let status = meta::section(pod, "status");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|condition| meta::text(condition, "type") != "PodScheduled");
        conditions.push(condition);
    }
}
