//! What every controller is built from: a client for many logical clusters, shared informers and
//! keyed queues.

mod logical_clusters;
mod transport;

pub use logical_clusters::{ClientCredential, LogicalClusterError, LogicalClusters};
pub use transport::{Body, BoxError, Transport};
