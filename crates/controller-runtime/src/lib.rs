//! What every controller is built from: a client for many logical clusters, shared informers and
//! keyed queues.

mod client;
mod http_transport;
mod kind;
mod logical_clusters;
mod transport;

pub use client::{
    Client, ClientError, ClientOptions, DeleteOptions, ListOptions, Patch, Preconditions, Propagation, ResourceClient,
};
pub use http_transport::{HttpOptions, HttpTransport, HttpTransportError};
pub use kind::{ApiKind, ApiResource, ScopeOf};
pub use logical_clusters::{ClientCredential, LogicalClusterError, LogicalClusters};
pub use transport::{Body, BoxError, Transport};
