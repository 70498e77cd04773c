//! Request bodies: from bytes to an object of the kind, with what is wrong about it told.

use super::definitions::Kind;
use super::meta;
use super::query::FieldValidation;
use super::value::CLUSTER_ANNOTATION;
use super::{Call, Registry};
use apimachinery::parse;
use apimachinery::status::ApiError;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};

/// Bytes of a body that an error shows.
const SHOWN_BYTES: usize = 30;

/// What was read, and what to warn about.
#[derive(Clone)]
pub(super) struct Input {
    pub(super) object: Value,
    pub(super) warnings: Vec<String>,
}

/// The media type of a body, without parameters.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let header = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Parses a body of JSON or YAML; duplicate fields are named.
pub(super) fn parse_body(call: &Call<'_>, kind: &str) -> Result<(Value, Vec<String>), ApiError> {
    check_size(call)?;
    let unrecognized = |why: String| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            summary(call.body)
        ))
    };
    match media_type(call.headers).as_str() {
        "" | "application/json" => parse::strict(call.body).map_err(unrecognized),
        "application/yaml" | "text/yaml" | "application/x-yaml" => {
            let value = yaml(call.body).map_err(|why| unrecognized(format!("yaml: {why}")))?;
            Ok((value, Vec::new()))
        }
        _ => Err(ApiError::unsupported_media_type(&["application/json", "application/yaml"])),
    }
}

/// Refuses a body over the limit.
pub(super) fn check_size(call: &Call<'_>) -> Result<(), ApiError> {
    if call.body.len() > call.max_body_bytes { Err(ApiError::too_large(call.max_body_bytes)) } else { Ok(()) }
}

/// YAML as the JSON it stands for; nested no deeper than JSON may be.
pub(super) fn yaml(bytes: &[u8]) -> Result<Value, String> {
    let value: Value = serde_yaml_ng::from_slice(bytes).map_err(|error| error.to_string())?;
    if parse::depth_within(&value, parse::MAX_DEPTH) { Ok(value) } else { Err("exceeded max depth".into()) }
}

fn summary(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]).into_owned();
    match body.len() {
        0 => "empty".into(),
        length if length > SHOWN_BYTES => format!("{text} ..."),
        _ => text,
    }
}

/// Reads an object of the kind from a request's body.
pub(super) fn read_object(call: &Call<'_>) -> Result<Input, ApiError> {
    let validation = FieldValidation::parse(call.info)?;
    let (object, duplicates) = parse_body(call, &call.kind.gvk.kind)?;
    admit(call.kind, object, &duplicates, validation)
}

/// Makes an untyped object one of the kind: the right type, no unknown fields.
pub(super) fn admit(
    kind: &Kind,
    mut object: Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<Input, ApiError> {
    let gvk = &kind.gvk;
    if !object.is_object() {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: \
             json: cannot unmarshal into Go value of type struct {{ APIVersion string; Kind string }}",
            gvk.kind
        )));
    }
    let api_version = gvk.api_version();
    let given = meta::text(&object, "apiVersion");
    if !given.is_empty() && given != api_version {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({api_version})"
        )));
    }
    let given = meta::text(&object, "kind");
    if !given.is_empty() && given != gvk.kind {
        return Err(ApiError::bad_request(format!(
            "{given} in version {:?} cannot be handled as a {}: the kind in the data ({given}) does not match the \
             expected kind ({})",
            gvk.version, gvk.kind, gvk.kind
        )));
    }
    if kind.is_built_in()
        && let Some(why) = kind.schema.decode_error(&object, &gvk.kind, &gvk.version)
    {
        return Err(ApiError::bad_request(why));
    }
    if !object["metadata"].is_null() && !object["metadata"].is_object() {
        return Err(ApiError::bad_request(format!("{}: metadata is not an object", gvk.kind)));
    }
    if kind.is_built_in() {
        kind.schema.drop_nulls(&mut object);
    }
    object["apiVersion"] = api_version.into();
    object["kind"] = gvk.kind.as_str().into();
    strip_cluster(meta::of(&mut object));
    let mut warnings = Vec::new();
    if validation != FieldValidation::Ignore {
        let unknown = kind.schema.unknown_fields(&object);
        if validation == FieldValidation::Warn {
            warnings = parse::complaints(&unknown, duplicates);
        } else if let Some(why) = parse::strict_decoding_error(&unknown, duplicates) {
            return Err(ApiError::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: {why}",
                gvk.kind, gvk.version, gvk.kind
            )));
        }
    }
    kind.schema.prune(&mut object);
    Ok(Input { object, warnings })
}

/// Removes the annotation of reads of every cluster, which controllers send back.
fn strip_cluster(metadata: &mut Map<String, Value>) {
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
        && annotations.remove(CLUSTER_ANNOTATION).is_some()
        && annotations.is_empty()
    {
        metadata.remove("annotations");
    }
}

impl Registry {
    /// Every violation of an object that is about to be stored.
    pub(super) fn violations(&self, kind: &Kind, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        let mut errors =
            apimachinery::validation::validate_object_meta(&new["metadata"], kind.is_namespaced(), kind.name_rule());
        if let Some(validate) = kind.rules.validate {
            errors.extend(validate(new, old));
        }
        // The kind's own words come first: they are upstream's.
        for error in kind.schema.validate(new) {
            if !errors.iter().any(|known| known.field == error.field) {
                errors.push(error);
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid(&kind.gvk.group, &kind.gvk.kind, meta::field(new, "name"), &errors))
    }
}
