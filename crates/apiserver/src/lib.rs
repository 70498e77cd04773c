//! An embeddable Kubernetes API server for many logical clusters.
//!
//! One generic path serves every kind from its `ResourceDefinition`; there is no handler per
//! resource. A request goes: parse ([`request`]), authenticate, authorize, then either a
//! [`connect`] handler (log, exec, token ...) or the [`registry`] (everything else).

pub mod connect;
mod options;
pub mod pki;
pub mod registry;
pub mod request;
pub mod streams;

pub use options::Options;
