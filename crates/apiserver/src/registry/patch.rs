//! Patch: the patch types, and their application to the newest state.

use super::query::FieldValidation;
use super::update::{Attempts, Part, check_names};
use super::write::Target;
use super::{Call, Kind, Registry, input, query};
use apimachinery::patch::{json_patch, merge_patch, strategic_merge};
use apimachinery::status::ApiError;
use controller_runtime::Body;
use http::Response;
use serde_json::Value;

/// A patch that was read.
pub(super) enum Patch<'a> {
    Json(&'a [u8]),
    Merge(Value),
    Strategic(Value),
}

impl<'a> Patch<'a> {
    /// Reads the body by its media type; `strategic` says whether the object has merge keys.
    pub(super) fn read(call: &Call<'a>, strategic: bool) -> Result<Self, ApiError> {
        input::check_size(call)?;
        match input::media_type(call.headers).as_str() {
            "application/json-patch+json" => Ok(Self::Json(call.body)),
            "application/merge-patch+json" => Ok(Self::Merge(parse(call)?)),
            "application/strategic-merge-patch+json" if strategic => Ok(Self::Strategic(parse(call)?)),
            _ => {
                let all = [
                    "application/json-patch+json",
                    "application/merge-patch+json",
                    "application/strategic-merge-patch+json",
                ];
                Err(ApiError::unsupported_media_type(if strategic { &all } else { &all[..2] }))
            }
        }
    }

    /// The object with the patch applied.
    pub(super) fn apply(&self, object: &Value, kind: &Kind) -> Result<Value, ApiError> {
        match self {
            Self::Json(patch) => json_patch(object, patch),
            Self::Merge(patch) => merge_patch(object, patch),
            Self::Strategic(patch) => strategic_merge(object, patch, &kind.schema),
        }
    }
}

fn parse(call: &Call<'_>) -> Result<Value, ApiError> {
    apimachinery::parse::value(call.body)
        .map(|(value, _)| value)
        .map_err(|why| ApiError::bad_request(format!("error decoding patch: {why}")))
}

impl Registry {
    pub(super) async fn serve_patch(&self, call: &Call<'_>, target: &Target<'_>) -> Result<Response<Body>, ApiError> {
        self.patch_part(call, target, Part::Main).await
    }

    pub(super) async fn patch_part(
        &self,
        call: &Call<'_>,
        target: &Target<'_>,
        part: Part,
    ) -> Result<Response<Body>, ApiError> {
        let dry_run = query::dry_run(call.info)?;
        let validation = FieldValidation::parse(call.info)?;
        let patch = Patch::read(call, call.kind.is_built_in())?;
        self.replace(call, target, part, Attempts::Many, dry_run, |old| {
            let input = input::admit(call.kind, patch.apply(old, call.kind)?, &[], validation)?;
            check_names(target, &input.object)?;
            Ok(input)
        })
        .await
    }
}
