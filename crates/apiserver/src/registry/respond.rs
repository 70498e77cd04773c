//! Answers: objects, lists and Tables, in the form that was asked for.

use super::accept::{Accept, Encoding, Shape};
use super::definitions::Kind;
use super::query::include_object;
use crate::request::RequestInfo;
use apimachinery::status::ApiError;
use bytes::Bytes;
use controller_runtime::Body;
use http::header::{CONTENT_TYPE, HeaderValue, WARNING};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

/// Warnings sent with one answer.
const MAX_WARNINGS: usize = 20;

/// A body that is there as a whole.
pub(super) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// An answer of JSON bytes.
pub(super) fn json_bytes(code: StatusCode, bytes: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(whole(bytes));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An answer of one value as it is.
pub(super) fn plain(code: StatusCode, encoding: Encoding, value: &Value) -> Result<Response<Body>, ApiError> {
    match encoding {
        Encoding::Json => Ok(json_bytes(code, serde_json::to_vec(value).map_err(ApiError::internal)?)),
        Encoding::Yaml => {
            let mut response = json_bytes(code, serde_yaml_ng::to_string(value).map_err(ApiError::internal)?.into());
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
            Ok(response)
        }
    }
}

/// An answer of one object of a kind.
pub(super) fn object(
    code: StatusCode,
    kind: &Kind,
    info: &RequestInfo,
    headers: &HeaderMap,
    object: &Value,
    warnings: &[String],
) -> Result<Response<Body>, ApiError> {
    let accept = Accept::of(headers)?;
    let shown = match accept.shape {
        Shape::Object => None,
        Shape::Partial => Some(partial(object)),
        Shape::Table => {
            let mut table = apimachinery::table::render(kind, [object], jiff::Timestamp::now(), include_object(info)?);
            table["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
            Some(table)
        }
    };
    let mut response = plain(code, accept.encoding, shown.as_ref().unwrap_or(object))?;
    warn(&mut response, warnings);
    Ok(response)
}

/// The metadata of an object, as an object.
pub(super) fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_default(),
    })
}

/// The `Status` of something that was done.
pub(super) fn success(details: Option<Value>) -> Value {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    if let Some(details) = details {
        status["details"] = details;
    }
    status
}

/// Adds warnings, RFC 7234 code 299.
fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings.iter().take(MAX_WARNINGS) {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        let clean: String = quoted.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{clean}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}
