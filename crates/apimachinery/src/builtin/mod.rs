//! The built-in kinds of Kubernetes: definitions, schemas, rules, columns, and the base layer.
//!
//! A kind is data ([`ResourceDefinition`]) plus pure functions ([`crate::definition::Rules`]). Nothing
//! here knows a store or a request. `kinds` lists the kinds; one module per API group holds their
//! rules and columns; `base` holds the objects that every cluster has from birth.

pub mod schemas;

mod facts;
mod kinds;

pub use kinds::components;

#[cfg(test)]
mod tests;

use crate::definition::ResourceDefinition;
use std::sync::OnceLock;

/// Every built-in kind. Built on first use; cloning shares the schemas.
#[must_use]
pub fn definitions() -> Vec<ResourceDefinition> {
    all().to_vec()
}

/// Every built-in kind, without a copy.
#[must_use]
pub fn all() -> &'static [ResourceDefinition] {
    static DEFINITIONS: OnceLock<Vec<ResourceDefinition>> = OnceLock::new();
    DEFINITIONS.get_or_init(kinds::build)
}
