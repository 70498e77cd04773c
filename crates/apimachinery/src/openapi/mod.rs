//! OpenAPI v2 and v3 documents, generated from definitions when first asked for.

use crate::definition::ResourceDefinition;
use std::sync::Arc;

/// The OpenAPI documents of one set of definitions.
#[derive(Debug)]
pub struct OpenApi {
    definitions: Vec<Arc<ResourceDefinition>>,
}

impl OpenApi {
    /// Documents for `definitions`; nothing is generated yet.
    #[must_use]
    pub fn new(definitions: Vec<Arc<ResourceDefinition>>) -> Self {
        Self { definitions }
    }

    /// The index at `/openapi/v3`. `prefix` is put before each URL: empty, or
    /// `/clusters/<name>`.
    #[must_use]
    pub fn v3_index(&self, _prefix: &str) -> Arc<[u8]> {
        let _ = &self.definitions;
        Arc::from(&b"{}"[..])
    }

    /// The document of a group-version, by the path of the index: `api/v1`, `apis/apps/v1`.
    #[must_use]
    pub fn v3(&self, _path: &str) -> Option<Document> {
        None
    }

    /// The document at `/openapi/v2`.
    #[must_use]
    pub fn v2(&self) -> Document {
        Document { json: Arc::from(&b"{}"[..]), hash: Arc::from("") }
    }
}

/// A generated document.
#[derive(Clone, Debug)]
pub struct Document {
    /// JSON.
    pub json: Arc<[u8]>,
    /// Hash of the content, for `ETag` and the index's `?hash=`.
    pub hash: Arc<str>,
}
