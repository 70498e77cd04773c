//! The built-in kinds of Kubernetes: definitions, schemas, rules, columns, and the base layer.
//!
//! A kind is data ([`ResourceDefinition`]) plus pure functions ([`crate::definition::Rules`]). Nothing
//! here knows a store or a request. `kinds` lists the kinds; one module per API group holds their
//! rules and columns; `base` holds the objects that every cluster has from birth.

pub mod admission;
pub mod base;
pub mod schemas;

mod apps;
mod batch;
mod cluster;
mod columns;
mod config;
mod endpoints;
mod errors;
mod facts;
mod kinds;
mod names;
mod pod;
mod printers;
mod rbac;
mod service;
mod template;
mod value;

pub use batch::{CONTROLLER_UID_LABEL, JOB_NAME_LABEL};
pub use cluster::{NAMESPACE_FINALIZER, NAMESPACE_NAME_LABEL};
pub use kinds::components;
pub use pod::qos_class;

#[cfg(test)]
mod printer_tests;
#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod tests;

use crate::definition::{GroupResource, ResourceDefinition};
use crate::validation::{self, NameRule};
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

/// The rule for names of a kind: for `validation::validate_object_meta`.
#[must_use]
pub fn name_rule(kind: &GroupResource) -> NameRule {
    match (kind.group.as_str(), kind.resource.as_str()) {
        ("", "namespaces") => validation::dns1123_label,
        ("", "services") => validation::dns1035_label,
        (rbac::GROUP, _) => validation::path_segment,
        _ => validation::dns1123_subdomain,
    }
}
