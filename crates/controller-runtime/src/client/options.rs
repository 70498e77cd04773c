//! What a caller may say besides which object it means.

use crate::kind::encode;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// Limits of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// Longest wait for the head of an answer, and again for its body.
    pub request_timeout: Duration,
    /// Largest answer that is read whole, bytes.
    pub max_response_bytes: usize,
    /// Objects asked for in one page of a list.
    pub page_size: u32,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { request_timeout: Duration::from_secs(30), max_response_bytes: 64 << 20, page_size: 500 }
    }
}

/// Which objects of a list. Empty selects everything.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Label selector such as `app=web,tier!=db`.
    pub label_selector: String,
    /// Field selector such as `spec.nodeName=node-1`.
    pub field_selector: String,
}

impl ListOptions {
    /// Selects by labels.
    #[must_use]
    pub fn labels(selector: impl Into<String>) -> Self {
        Self { label_selector: selector.into(), ..Self::default() }
    }

    /// Selects by fields.
    #[must_use]
    pub fn fields(selector: impl Into<String>) -> Self {
        Self { field_selector: selector.into(), ..Self::default() }
    }

    /// The query parameters, each `name=value`.
    pub(crate) fn parameters(&self) -> Vec<String> {
        let mut parameters = Vec::new();
        if !self.label_selector.is_empty() {
            parameters.push(format!("labelSelector={}", encode(&self.label_selector)));
        }
        if !self.field_selector.is_empty() {
            parameters.push(format!("fieldSelector={}", encode(&self.field_selector)));
        }
        parameters
    }
}

/// `metav1.DeleteOptions`.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Seconds that the object may take to stop; zero is at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// What happens to dependents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<Propagation>,
    /// What must hold for the delete to happen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
}

impl DeleteOptions {
    /// Deletes only the object with that uid.
    #[must_use]
    pub fn of_uid(uid: impl Into<String>) -> Self {
        Self::default().with_uid(uid)
    }

    /// Adds the precondition that the object still has that uid.
    #[must_use]
    pub fn with_uid(mut self, uid: impl Into<String>) -> Self {
        self.preconditions.get_or_insert_default().uid = Some(uid.into());
        self
    }

    /// Adds the precondition that the object is still at that version.
    #[must_use]
    pub fn with_resource_version(mut self, version: impl Into<String>) -> Self {
        self.preconditions.get_or_insert_default().resource_version = Some(version.into());
        self
    }

    /// Says what happens to dependents.
    #[must_use]
    pub fn with_propagation(mut self, propagation: Propagation) -> Self {
        self.propagation_policy = Some(propagation);
        self
    }

    /// Says how long the object may take to stop, seconds.
    #[must_use]
    pub fn with_grace_period(mut self, seconds: i64) -> Self {
        self.grace_period_seconds = Some(seconds);
        self
    }
}

/// What must hold for a delete to happen.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// The object still has that uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The object is still at that version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// The garbage collector deletes them afterwards.
    Background,
    /// The object stays until they are gone.
    Foreground,
    /// They stay and lose the reference.
    Orphan,
}

/// A patch of one of the kinds that Kubernetes knows.
#[derive(Clone, Debug)]
pub enum Patch {
    /// RFC 7386: fields are replaced, null removes.
    Merge(Value),
    /// RFC 6902: a list of operations.
    Json(Value),
    /// Kubernetes' own: lists with merge keys are merged.
    Strategic(Value),
}

impl Patch {
    pub(crate) fn content_type(&self) -> &'static str {
        match self {
            Self::Merge(_) => "application/merge-patch+json",
            Self::Json(_) => "application/json-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
        }
    }

    pub(crate) fn body(&self) -> &Value {
        match self {
            Self::Merge(body) | Self::Json(body) | Self::Strategic(body) => body,
        }
    }
}
