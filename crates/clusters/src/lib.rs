//! Virtual clusters: their life, how their nodes scale, and the machines that are claimed for them.
//!
//! Three controllers over the home workspaces: the life of a `Cluster` ([`Clusters`] starts them
//! all), the scaler, which turns the pure decision of [`scale`] into `NodeClaim`s, and the fulfilment
//! of claims by a `compute_api::NodeProvider`.

mod change;
mod claims;
mod conditions;
mod homes;
mod lifecycle;
mod observe;
mod options;
pub mod scale;
mod scaler;
mod service;

pub use options::Options;
pub use service::Clusters;
