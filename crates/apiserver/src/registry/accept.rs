//! What form of an answer a client asks for.

use apimachinery::status::ApiError;
use http::HeaderMap;
use http::header::ACCEPT;

/// How an object is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// As it is.
    Object,
    /// A `Table`.
    Table,
    /// `PartialObjectMetadata`.
    Partial,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Yaml,
}

/// What the client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accept {
    pub(super) shape: Shape,
    pub(super) encoding: Encoding,
}

const ACCEPTED: &[&str] = &["application/json", "application/yaml"];

impl Accept {
    /// Reads the header: the first form that is spoken here wins.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let mut any = false;
        for header in headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()) {
            for form in header.split(',').map(str::trim).filter(|form| !form.is_empty()) {
                any = true;
                if let Some(accept) = Self::form(form) {
                    return Ok(accept);
                }
            }
        }
        if any {
            return Err(ApiError::not_acceptable(ACCEPTED));
        }
        Ok(Self { shape: Shape::Object, encoding: Encoding::Json })
    }

    fn form(form: &str) -> Option<Self> {
        let mut parts = form.split(';').map(str::trim);
        let encoding = match parts.next()?.to_ascii_lowercase().as_str() {
            "application/json" | "application/*" | "*/*" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            _ => return None,
        };
        let (mut shape, mut group, mut version) = (Shape::Object, None, None);
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match (key, value) {
                ("as", "Table") => shape = Shape::Table,
                ("as", "PartialObjectMetadata" | "PartialObjectMetadataList") => shape = Shape::Partial,
                ("as", _) => return None,
                ("g", value) => group = Some(value),
                ("v", value) => version = Some(value),
                _ => {}
            }
        }
        let spoken = shape == Shape::Object
            || (group.is_none_or(|group| group == "meta.k8s.io") && version.is_none_or(|version| version == "v1"));
        spoken.then_some(Self { shape, encoding })
    }
}
