//! Puts a server together.

use crate::administration::Administration;
use crate::authentication::Authenticator;
use crate::authorization::Authorizer;
use crate::connect::ConnectHandler;
use crate::discovery::Catalog;
use crate::nodes::Joins;
use crate::options::Options;
use crate::pki::{self, ServerKeys};
use crate::registry::{self, LogicalClusterKind, Registry};
use crate::request::ROOT_CLUSTER;
use crate::server::Server;
use crate::service::Service;
use crate::token_request::TokenRequests;
use apimachinery::definition::{GroupResource, ResourceDefinition};
use runtime::Shutdown;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use store::Store;
use tokio::sync::Semaphore;

/// Why a server could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The server's keys could not be read or made.
    #[error("the server's keys could not be read or made")]
    Keys(#[from] pki::Error),
    /// The registry could not be opened.
    #[error("the registry could not be opened")]
    Registry(#[from] registry::OpenError),
    /// The first workspace could not be read or made.
    #[error("the workspace {ROOT_CLUSTER:?} could not be read or made: {0}")]
    Root(String),
}

/// A server under construction.
pub struct ServerBuilder {
    registry: Registry,
    keys: Arc<ServerKeys>,
    definitions: Vec<ResourceDefinition>,
    options: Options,
    handlers: HashMap<(GroupResource, String), Arc<dyn ConnectHandler>>,
    tunnel: Option<Arc<dyn ConnectHandler>>,
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl ServerBuilder {
    /// Opens the server's keys and its registry over `store`, and makes the workspace `root` if
    /// there is none. `base` makes the base layer's objects from the serving CA (PEM).
    ///
    /// # Errors
    /// When the store fails or what it holds is damaged.
    pub async fn open(
        store: Arc<dyn Store>,
        definitions: Vec<ResourceDefinition>,
        base: impl FnOnce(&str) -> Vec<Value>,
        options: Options,
        registry_options: registry::Options,
    ) -> Result<Self, OpenError> {
        let keys = Arc::new(ServerKeys::open(Arc::clone(&store), &options).await?);
        let base = base(&keys.certificate_authority());
        let registry = Registry::open(store, definitions.clone(), base, registry_options)?;
        let root = registry.logical_cluster(ROOT_CLUSTER).await.map_err(|error| OpenError::Root(error.to_string()))?;
        if root.is_none() {
            let authority = pki::new_client_authority(ROOT_CLUSTER)?;
            registry
                .create_logical_cluster(ROOT_CLUSTER, LogicalClusterKind::Workspace, authority)
                .await
                .map_err(|error| OpenError::Root(error.to_string()))?;
        }
        let accounts = GroupResource { group: String::new(), resource: "serviceaccounts".into() };
        let tokens = TokenRequests {
            registry: registry.clone(),
            keys: Arc::clone(&keys),
            max_lifetime: options.max_token_lifetime,
        };
        let builder = Self { registry, keys, definitions, options, handlers: HashMap::new(), tunnel: None };
        Ok(builder.connect(accounts, "token", Arc::new(tokens)))
    }

    /// The objects of every cluster, for handlers in this process.
    #[must_use]
    pub fn registry(&self) -> Registry {
        self.registry.clone()
    }

    /// Administration of the logical clusters.
    #[must_use]
    pub fn administration(&self) -> Administration {
        Administration::new(self.registry.clone(), Arc::clone(&self.keys), &self.options)
    }

    /// Has `handler` answer a connect subresource; one without a handler is not served.
    #[must_use]
    pub fn connect(mut self, resource: GroupResource, subresource: &str, handler: Arc<dyn ConnectHandler>) -> Self {
        self.handlers.insert((resource, subresource.to_owned()), handler);
        self
    }

    /// Has `handler` take the tunnels of nodes. Its object is null; the node is the user's name
    /// without `system:node:`.
    #[must_use]
    pub fn node_tunnel(mut self, handler: Arc<dyn ConnectHandler>) -> Self {
        self.tunnel = Some(handler);
        self
    }

    /// The server.
    #[must_use]
    pub fn build(self) -> Server {
        let administration = self.administration();
        let Self { registry, keys, definitions, options, handlers, tunnel } = self;
        let catalog = Catalog::new(&definitions, &handlers.keys().cloned().collect());
        let service = Service {
            authenticator: Authenticator::new(registry.clone(), Arc::clone(&keys), &options),
            authorizer: Authorizer::new(registry.clone(), &options),
            catalog: Arc::new(catalog),
            handlers,
            tunnel,
            joins: Joins { registry: registry.clone(), lifetime: options.node_certificate_lifetime },
            in_flight: Arc::new(Semaphore::new(options.max_requests_in_flight)),
            long_running: Arc::new(Semaphore::new(options.max_long_running)),
            grants: tokio::sync::Mutex::default(),
            stopping: Shutdown::new(),
            registry,
            options,
        };
        Server::new(Arc::new(service), keys, administration)
    }
}
