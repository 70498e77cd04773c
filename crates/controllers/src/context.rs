//! What every controller is started with.

use apimachinery::definition::ResourceDefinition;
use controller_runtime::{Client, ControllerOptions, EventOptions, EventRecorder, Informers};
use runtime::TaskSet;
use std::sync::Arc;

/// Settings and limits of the controllers.
#[derive(Clone, Debug)]
pub struct Options {
    /// Every kind that is served, for the deletion of namespaces and the resolution of owners.
    pub definitions: Arc<[ResourceDefinition]>,
    /// The serving certificate authority, PEM, which every namespace gets as `kube-root-ca.crt`.
    pub root_ca_pem: String,
    /// Limits of each controller.
    pub controller: ControllerOptions,
    /// Limits of each event recorder.
    pub events: EventOptions,
    /// Pods that one step of one workload creates or deletes.
    pub max_pods_per_step: usize,
    /// Limits of the scheduler.
    pub scheduler: crate::scheduler::Options,
    /// Limits and delays of what is decided about nodes.
    pub node_lifecycle: crate::node_lifecycle::Options,
    /// Limits of what writes endpoints.
    pub endpoints: crate::endpoints::Options,
}

impl Options {
    /// The usual limits.
    #[must_use]
    pub fn new(definitions: impl Into<Arc<[ResourceDefinition]>>, root_ca_pem: impl Into<String>) -> Self {
        Self {
            definitions: definitions.into(),
            root_ca_pem: root_ca_pem.into(),
            controller: ControllerOptions::default(),
            events: EventOptions::default(),
            max_pods_per_step: 500,
            scheduler: crate::scheduler::Options::default(),
            node_lifecycle: crate::node_lifecycle::Options::default(),
            endpoints: crate::endpoints::Options::default(),
        }
    }
}

/// What every controller is started with.
#[derive(Clone, Debug)]
pub struct Context {
    /// For every logical cluster.
    pub client: Client,
    /// Shared by all controllers.
    pub informers: Arc<Informers>,
    /// Settings and limits.
    pub options: Options,
}

impl Context {
    /// A recorder of the events of one component.
    #[must_use]
    pub fn recorder(&self, component: &str, tasks: &mut TaskSet) -> EventRecorder {
        EventRecorder::start(&self.client, component, self.options.events, tasks)
    }
}
