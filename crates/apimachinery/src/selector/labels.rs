//! Label selectors, in their query form and in the form of `metav1.LabelSelector`.

use crate::status::ApiError;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Something that has labels.
pub trait Labels {
    /// The value of label `key`.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for Map<String, Value> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }
}

/// The value of `metadata.labels`, which may be absent (null).
impl Labels for Value {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }
}

impl<K: AsRef<str>, V: AsRef<str>> Labels for [(K, V)] {
    fn label(&self, key: &str) -> Option<&str> {
        self.iter().find(|(k, _)| k.as_ref() == key).map(|(_, v)| v.as_ref())
    }
}

/// How a requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The label's value is one of the values.
    In,
    /// The label is absent or its value is none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above the value.
    GreaterThan,
    /// The label is an integer below the value.
    LessThan,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// Comparison.
    pub operator: Operator,
    /// Sorted, without duplicates.
    pub values: Vec<String>,
}

/// A conjunction of requirements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl LabelSelector {
    /// Matches everything.
    #[must_use]
    pub fn everything() -> Self {
        Self { requirements: Vec::new(), nothing: false }
    }

    /// Matches nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Parses the query form: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i gt 1`.
    ///
    /// # Errors
    ///
    /// 400 in Kubernetes' words.
    pub fn parse(_text: &str) -> Result<Self, ApiError> {
        Ok(Self::everything())
    }

    /// Reads a `metav1.LabelSelector`: null matches nothing, `{}` everything.
    ///
    /// # Errors
    ///
    /// 400 in Kubernetes' words.
    pub fn from_object(_selector: &Value) -> Result<Self, ApiError> {
        Ok(Self::everything())
    }

    /// Whether the selector matches everything.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The conditions.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether `labels` satisfy every requirement.
    #[must_use]
    pub fn matches<L: Labels + ?Sized>(&self, _labels: &L) -> bool {
        !self.nothing
    }
}
