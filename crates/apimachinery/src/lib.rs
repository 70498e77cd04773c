//! The Kubernetes object model, without I/O: definitions, schemas, selectors, patches, tables,
//! errors, and the built-in kinds.

pub mod auth;
pub mod builtin;
pub mod definition;
pub mod openapi;
pub mod parse;
pub mod patch;
pub mod protobuf;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;
pub mod validation;

pub use k8s_openapi;
