//! Query parameters and options of the verbs.

use super::definitions::Kind;
use super::keys::Place;
use super::value::Object;
use crate::request::{RequestInfo, ResourceRequest};
use apimachinery::selector::{FieldSelector, LabelSelector};
use apimachinery::status::{ApiError, FieldError, FieldErrorKind};
use apimachinery::table::IncludeObject;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::Revision;

/// Which objects of a kind a list or watch is about.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    /// In this namespace.
    pub(super) namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(super) fn parse(kind: &Kind, request: &ResourceRequest, info: &RequestInfo) -> Result<Self, ApiError> {
        let labels = LabelSelector::parse(info.query("labelSelector").unwrap_or_default())?;
        let fields = FieldSelector::parse(info.query("fieldSelector").unwrap_or_default())?;
        fields.check(&kind.selectable_fields)?;
        Ok(Self { namespace: request.namespace.clone(), labels, fields })
    }

    /// Everything of a kind, in one namespace or in all.
    pub(super) fn everything(namespace: Option<&str>) -> Self {
        Self {
            namespace: namespace.map(str::to_owned),
            labels: LabelSelector::everything(),
            fields: FieldSelector::default(),
        }
    }

    /// Only the object of this name.
    pub(super) fn named(mut self, name: &str) -> Result<Self, ApiError> {
        let others = self.fields.to_string();
        let name = name.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        let comma = if others.is_empty() { "" } else { "," };
        self.fields = FieldSelector::parse(&format!("metadata.name={name}{comma}{others}"))?;
        Ok(self)
    }

    /// The one name that is selected, if there is one.
    pub(super) fn exact_name(&self) -> Option<&str> {
        self.fields.exact("metadata.name").filter(|name| !name.is_empty() && !name.contains('/'))
    }

    /// Whether the object is selected.
    pub(super) fn matches(&self, place: Place<'_>, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| place.namespace == Some(namespace))
            && self.labels.matches(object)
            && self.fields.matches(|path| match path {
                "metadata.name" => Some(place.name.to_owned()),
                "metadata.namespace" => place.namespace.map(str::to_owned),
                path => object.field(path).map(str::to_owned),
            })
    }
}

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Continue {
    /// Version of the token.
    v: String,
    /// The revision of the whole list.
    pub(super) rv: u64,
    /// The first key that may follow, without the prefix of the kind.
    pub(super) start: String,
}

impl Continue {
    pub(super) fn new(revision: Revision, start: String) -> Self {
        Self { v: "meta.k8s.io/v1".into(), rv: revision.0, start }
    }

    pub(super) fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(json!(self).to_string())
    }

    fn decode(token: &str) -> Result<Self, ApiError> {
        URL_SAFE_NO_PAD
            .decode(token.trim_end_matches('='))
            .ok()
            .and_then(|json| serde_json::from_slice::<Self>(&json).ok())
            .filter(|token| token.v == "meta.k8s.io/v1")
            .ok_or_else(|| ApiError::bad_request("continue key is not valid: encoded version is unknown or damaged"))
    }
}

/// How a list is read.
#[derive(Clone, Debug, Default)]
pub(super) struct ListOptions {
    /// At this revision; `None` is the newest.
    pub(super) at: Option<Revision>,
    /// The newest must be at least this.
    pub(super) at_least: Option<Revision>,
    /// At most this many; `None` is all.
    pub(super) limit: Option<usize>,
    /// Behind an earlier part.
    pub(super) from: Option<Continue>,
}

impl ListOptions {
    pub(super) fn parse(info: &RequestInfo) -> Result<Self, ApiError> {
        let limit = match info.query("limit") {
            None | Some("") => None,
            Some(text) => {
                let limit: i64 = text.parse().map_err(|_| not_a_number("limit", text))?;
                usize::try_from(limit).ok().filter(|limit| *limit > 0)
            }
        };
        let wanted = given(info, "resourceVersion");
        let matching = given(info, "resourceVersionMatch");
        let from = given(info, "continue").map(Continue::decode).transpose()?;
        if from.is_some() {
            if wanted.is_some_and(|version| version != "0") {
                return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
            }
            if matching.is_some() {
                return Err(match_error("resourceVersionMatch is forbidden when continue is provided"));
            }
            return Ok(Self { limit, from, ..Self::default() });
        }
        let revision = wanted.map(revision).transpose()?;
        let options = match (matching, revision) {
            (Some(_), None) => {
                return Err(match_error("resourceVersionMatch is forbidden unless resourceVersion is provided"));
            }
            (Some("Exact"), Some(Revision(0))) => {
                return Err(match_error("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
            }
            (Some("Exact"), Some(revision)) => Self { at: Some(revision), limit, ..Self::default() },
            (Some("NotOlderThan"), Some(revision)) => Self { at_least: Some(revision), limit, ..Self::default() },
            (Some(other), Some(_)) => {
                let supported = "supported values: \"Exact\", \"NotOlderThan\"";
                return Err(option_error(
                    "ListOptions",
                    "resourceVersionMatch",
                    FieldErrorKind::NotSupported,
                    other,
                    supported,
                ));
            }
            // What a limited list meant before there was resourceVersionMatch.
            (None, Some(revision)) if limit.is_some() && revision.0 > 0 => {
                Self { at: Some(revision), limit, ..Self::default() }
            }
            (None, revision) => Self { at_least: revision, limit, ..Self::default() },
        };
        Ok(options)
    }
}

/// How objects of a Table are shown.
pub(super) fn include_object(info: &RequestInfo) -> Result<IncludeObject, ApiError> {
    let text = info.query("includeObject").unwrap_or_default();
    IncludeObject::parse(text)
        .ok_or_else(|| ApiError::bad_request(format!("unrecognized includeObject value: {text:?}")))
}

/// Whether the request is a dry run.
pub(super) fn dry_run(info: &RequestInfo) -> Result<bool, ApiError> {
    let mut dry = false;
    for (_, value) in info.query.iter().filter(|(key, _)| key == "dryRun") {
        check_dry_run(value)?;
        dry |= !value.is_empty();
    }
    Ok(dry)
}

pub(super) fn check_dry_run(value: &str) -> Result<(), ApiError> {
    match value {
        "" | "All" => Ok(()),
        other => {
            Err(option_error("Options", "dryRun", FieldErrorKind::NotSupported, other, "supported values: \"All\""))
        }
    }
}

/// What becomes of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    pub(super) fn parse(info: &RequestInfo) -> Result<Self, ApiError> {
        match info.query("fieldValidation").unwrap_or_default() {
            "" | "Warn" => Ok(Self::Warn),
            "Ignore" => Ok(Self::Ignore),
            "Strict" => Ok(Self::Strict),
            other => {
                let supported = "supported values: \"Ignore\", \"Strict\", \"Warn\"";
                Err(option_error("Options", "fieldValidation", FieldErrorKind::NotSupported, other, supported))
            }
        }
    }
}

/// A boolean parameter.
pub(super) fn flag(info: &RequestInfo, name: &str) -> bool {
    matches!(info.query(name), Some("true" | "1" | "True" | "TRUE" | "t" | "T"))
}

/// A parameter that is present and not empty.
pub(super) fn given<'a>(info: &'a RequestInfo, name: &str) -> Option<&'a str> {
    info.query(name).filter(|text| !text.is_empty())
}

/// Reads a resource version.
pub(super) fn revision(text: &str) -> Result<Revision, ApiError> {
    text.parse().map(Revision).map_err(|_| {
        let detail = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        option_error("ListOptions", "resourceVersion", FieldErrorKind::Invalid, text, &detail)
    })
}

pub(super) fn not_a_number(name: &str, text: &str) -> ApiError {
    ApiError::bad_request(format!("{name}: strconv.ParseInt: parsing {text:?}: invalid syntax"))
}

fn match_error(why: &str) -> ApiError {
    let error = FieldError {
        kind: FieldErrorKind::Forbidden,
        field: "resourceVersionMatch".into(),
        value: None,
        detail: why.into(),
    };
    ApiError::invalid("meta.k8s.io", "ListOptions", "", &[error])
}

fn option_error(kind: &str, field: &str, error: FieldErrorKind, value: &str, detail: &str) -> ApiError {
    let error = FieldError { kind: error, field: field.into(), value: Some(value.into()), detail: detail.into() };
    ApiError::invalid("meta.k8s.io", kind, "", &[error])
}
