//! An embeddable Kubernetes API server for many logical clusters.
//!
//! One generic path serves every kind from its `ResourceDefinition`; there is no handler per
//! resource. A request goes: parse ([`request`]), authenticate, authorize, then either a
//! [`connect`] handler (log, exec, token ...) or the [`registry`] (everything else).

mod administration;
mod authentication;
mod authorization;
mod builder;
pub mod connect;
mod discovery;
mod expiry;
mod local;
mod metrics;
mod nodes;
mod options;
mod paths;
pub mod pki;
pub mod registry;
pub mod request;
mod respond;
mod reviews;
mod server;
mod service;
pub mod streams;
mod tls;
mod token_request;

pub use administration::Administration;
pub use builder::{OpenError, ServerBuilder};
pub use local::LocalTransport;
pub use options::Options;
pub use server::Server;

/// Group of the controllers in this process: with `system:masters` they read every cluster at
/// once. No credential from the network is in it.
pub const GROUP_CONTROLLERS: &str = "system:socialweb:controllers";
