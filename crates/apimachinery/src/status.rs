//! Kubernetes `Status` errors: the reasons, codes and messages that a Kubernetes user knows.
//!
//! Source: k8s.io/apimachinery `pkg/api/errors` and `meta/v1.StatusReason`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Kind of violation.
    pub kind: FieldErrorKind,
    /// Path such as `spec.template.spec.containers[0].name`.
    pub field: String,
    /// The offending value, printed as Kubernetes prints it; `None` where it prints none.
    pub value: Option<Value>,
    /// What was expected.
    pub detail: String,
}

/// `field.ErrorType` of apimachinery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// A required value is missing.
    Required,
    /// A value that must be unique is not.
    Duplicate,
    /// The value breaks a rule.
    Invalid,
    /// Not one of the allowed values.
    NotSupported,
    /// May not be set.
    Forbidden,
    /// Longer than allowed.
    TooLong,
    /// More items than allowed.
    TooMany,
    /// Refers to something that does not exist.
    NotFound,
    /// Of the wrong type.
    TypeInvalid,
}

impl FieldErrorKind {
    /// `(cause reason, message prefix)`.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Required => ("FieldValueRequired", "Required value"),
            Self::Duplicate => ("FieldValueDuplicate", "Duplicate value"),
            Self::Invalid => ("FieldValueInvalid", "Invalid value"),
            Self::NotSupported => ("FieldValueNotSupported", "Unsupported value"),
            Self::Forbidden => ("FieldValueForbidden", "Forbidden"),
            Self::TooLong => ("FieldValueTooLong", "Too long"),
            Self::TooMany => ("FieldValueTooMany", "Too many"),
            Self::NotFound => ("FieldValueNotFound", "Not found"),
            Self::TypeInvalid => ("FieldValueTypeInvalid", "Invalid value"),
        }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.kind.words().1)?;
        if let Some(value) = &self.value {
            write!(f, ": {value}")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

/// An error that becomes a `Status` response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, `NotFound` ...
    pub reason: String,
    /// For people.
    pub message: String,
    /// `StatusDetails`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl ApiError {
    /// An error with the given code, reason and message.
    #[must_use]
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), message: message.into(), details: None }
    }

    /// Adds `details`.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// 404 for a named object. `resource` is `pods` or `deployments.apps`.
    #[must_use]
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", qualified(group, resource)))
            .with_details(details(group, resource, name))
    }

    /// 404 for a path that names nothing.
    #[must_use]
    pub fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_details(json!({}))
    }

    /// 409 on create.
    #[must_use]
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", qualified(group, resource)))
            .with_details(details(group, resource, name))
    }

    /// 409 on a stale resourceVersion or a failed precondition.
    #[must_use]
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified(group, resource)),
        )
        .with_details(details(group, resource, name))
    }

    /// 409 with the words Kubernetes uses for a stale resourceVersion.
    #[must_use]
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        Self::conflict(
            group,
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 403. `verb_on` is such as `cannot get resource "pods" in API group "" in the namespace "x"`.
    #[must_use]
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let subject = if name.is_empty() {
            qualified(group, resource)
        } else {
            format!("{} {name:?}", qualified(group, resource))
        };
        Self::new(403, "Forbidden", format!("{subject} is forbidden: {why}"))
            .with_details(details(group, resource, name))
    }

    /// 401.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 422 with every violation. `group` and `kind` name the object.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let text = match &texts[..] {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let subject = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let causes: Vec<Value> = errors
            .iter()
            .map(|e| {
                let full = e.to_string();
                let message = full.strip_prefix(&format!("{}: ", e.field)).unwrap_or(&full).to_owned();
                json!({"reason": e.kind.words().0, "message": message, "field": e.field})
            })
            .collect();
        let mut details = json!({"name": name, "kind": kind, "causes": causes});
        if !group.is_empty() {
            details["group"] = group.into();
        }
        Self::new(422, "Invalid", format!("{subject} {name:?} is invalid: {text}")).with_details(details)
    }

    /// 410: the resourceVersion is too old.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 405.
    #[must_use]
    pub fn method_not_supported(group: &str, resource: &str, verb: &str) -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            format!("{verb} is not supported on resources of kind {:?}", qualified(group, resource)),
        )
        .with_details(details(group, resource, ""))
    }

    /// 413.
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    /// 415.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                accepted.join(", ")
            ),
        )
    }

    /// 406.
    #[must_use]
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        Self::new(406, "NotAcceptable", format!("only the following media types are accepted: {}", accepted.join(", ")))
    }

    /// 429 with a Retry-After hint in seconds.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        Self::new(429, "TooManyRequests", message).with_details(json!({"retryAfterSeconds": retry_after}))
    }

    /// 500. The message is shown to the client: keep internals out of it.
    #[must_use]
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }

    /// 503.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// The `Status` object of a response body or of a watch's ERROR event.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }

    /// Reads a `Status` body as a client does; `None` when it is none.
    #[must_use]
    pub fn from_status(status: &Value) -> Option<Self> {
        (status["kind"] == "Status").then(|| Self {
            code: u16::try_from(status["code"].as_u64().unwrap_or(500)).unwrap_or(500),
            reason: status["reason"].as_str().unwrap_or_default().to_owned(),
            message: status["message"].as_str().unwrap_or_default().to_owned(),
            details: status.get("details").cloned(),
        })
    }
}

fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn details(group: &str, resource: &str, name: &str) -> Value {
    let mut details = json!({"kind": resource});
    if !name.is_empty() {
        details["name"] = name.into();
    }
    if !group.is_empty() {
        details["group"] = group.into();
    }
    details
}
