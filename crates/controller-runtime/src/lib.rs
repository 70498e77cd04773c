//! What every controller is built from: a client for many logical clusters, shared informers, keyed
//! queues, workers, and a recorder of events.
//!
//! ```text
//! let informers = Informers::new(&client, InformerOptions::default());
//! let pods = informers.of::<Pod>();                       // one list and watch for all clusters
//! Controller::new("pods", ControllerOptions::default())
//!     .primary(&pods)                                     // key = the Pod itself
//!     .watch(&nodes, |change| keys_of(change))            // other changes mapped to keys
//!     .spawn(&mut tasks, Arc::new(reconciler));           // works when all informers have synced
//! informers.start(&mut tasks);
//! ```

mod client;
mod controller;
mod events;
#[cfg(feature = "test-util")]
mod fake;
mod http_transport;
mod informer;
mod key;
mod kind;
mod logical_clusters;
mod queue;
mod transport;

pub use client::{
    Client, ClientError, ClientOptions, DeleteOptions, ListOptions, Patch, Preconditions, Propagation, ResourceClient,
};
pub use controller::{Action, Controller, ControllerOptions, Reconciler};
pub use events::{EventOptions, EventRecorder, EventType, Note, reference};
#[cfg(feature = "test-util")]
pub use fake::FakeApi;
pub use http_transport::{HttpOptions, HttpTransport, HttpTransportError};
pub use informer::{Change, Indexer, Informer, InformerOptions, Informers, OWNER_INDEX, Store};
pub use key::{CLUSTER_ANNOTATION, ObjectKey};
pub use kind::{ApiKind, ApiResource, ScopeOf};
pub use logical_clusters::{ClientCredential, LogicalClusterError, LogicalClusters};
pub use queue::{Outcome, Queue, QueueOptions};
pub use transport::{Body, BoxError, Transport};
