//! Why a request failed.

use apimachinery::status::ApiError;
use http::Method;
use std::time::Duration;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The API server refused it.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// There was no answer. Whether the request took effect is unknown.
    #[error("{method} {path}: no answer from the API server")]
    Transport {
        /// HTTP method.
        method: Method,
        /// Path.
        path: String,
        /// Why.
        #[source]
        source: crate::BoxError,
    },
    /// There was no answer in time. Whether the request took effect is unknown.
    #[error("{method} {path}: no answer from the API server within {limit:?}")]
    Timeout {
        /// HTTP method.
        method: Method,
        /// Path.
        path: String,
        /// How long the client waited.
        limit: Duration,
    },
    /// The answer is not what the kind looks like.
    #[error("{method} {path}: cannot read the answer")]
    Decode {
        /// HTTP method.
        method: Method,
        /// Path.
        path: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The object cannot be written as JSON.
    #[error("cannot write the request as JSON")]
    Encode(#[source] serde_json::Error),
}

impl ClientError {
    /// The API server's own error, if it gave one.
    #[must_use]
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            _ => None,
        }
    }

    fn has_reason(&self, reason: &str) -> bool {
        self.api().is_some_and(|error| error.reason == reason)
    }

    /// The object (or its namespace, or its kind) does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.api().is_some_and(|error| error.code == 404)
    }

    /// The object has changed since it was read, or a precondition failed.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.has_reason("Conflict")
    }

    /// An object of that name exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.has_reason("AlreadyExists")
    }

    /// The object breaks a rule of its kind; the same request will fail again.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.has_reason("Invalid")
    }

    /// The caller may not do it, or the namespace is being deleted.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.has_reason("Forbidden")
    }

    /// The resourceVersion or continue token is too old: list again.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.api().is_some_and(|error| error.code == 410)
    }

    /// A disruption budget or a rate limit refuses it for now.
    #[must_use]
    pub fn is_too_many_requests(&self) -> bool {
        self.api().is_some_and(|error| error.code == 429)
    }

    /// What the request is about is not there, or is going with its namespace or its whole cluster: for
    /// a controller that is an end, not a failure. What remains is told by the watch.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_not_found() || self.is_namespace_terminating()
    }

    /// Creation was refused because the namespace is being deleted.
    #[must_use]
    pub fn is_namespace_terminating(&self) -> bool {
        self.api().is_some_and(|error| {
            error.code == 403
                && error
                    .details
                    .as_ref()
                    .and_then(|details| details["causes"].as_array())
                    .is_some_and(|causes| causes.iter().any(|cause| cause["reason"] == "NamespaceTerminating"))
        })
    }
}
