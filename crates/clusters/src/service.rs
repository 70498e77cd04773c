//! Starting the controllers of clusters.

use crate::claims::Claims;
use crate::homes::Homes;
use crate::lifecycle::Lifecycle;
use crate::options::Options;
use crate::scale::Baseline;
use crate::scaler::{Scaler, States};
use api::{Cluster, NodeClaim};
use compute_api::NodeProvider;
use controller_runtime::{
    ApiResource, Change, Client, Controller, ControllerOptions, Informers, LogicalClusters, ObjectKey,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use runtime::TaskSet;
use std::sync::Arc;

/// What the controllers work with.
pub struct Clusters {
    /// A client that may act in every logical cluster.
    pub client: Client,
    /// Shared informers over every logical cluster.
    pub informers: Arc<Informers>,
    /// Administration of logical clusters.
    pub logical_clusters: Arc<dyn LogicalClusters>,
    /// Where machines come from.
    pub provider: Arc<dyn NodeProvider>,
    /// Defaults and limits.
    pub options: Options,
}

impl Clusters {
    /// Starts the controllers in `tasks`; the caller starts the informers afterwards.
    pub fn spawn(self, tasks: &mut TaskSet) {
        let options = Arc::new(self.options);
        let clusters = self.informers.of::<Cluster>();
        let claims = self.informers.of::<NodeClaim>();
        let nodes = self.informers.of::<Node>();
        let homes = Homes::of(&clusters);
        let limits = ControllerOptions { workers: options.workers, ..ControllerOptions::default() };

        let owner = |change: &Change<NodeClaim>| vec![change.key.sibling(&change.object().spec.cluster_name)];
        Controller::new("clusters", limits).primary(&clusters).watch(&claims, owner).spawn(
            tasks,
            Arc::new(Lifecycle {
                client: self.client.clone(),
                clusters: clusters.clone(),
                logical_clusters: self.logical_clusters.clone(),
                options: options.clone(),
            }),
        );
        claims.store().add_index(NODE_INDEX, |claim| vec![node_of(&claim.spec.logical_cluster, &claim.spec.node_name)]);
        let (by_node, homes_of_nodes) = (claims.store().clone(), homes.clone());
        Controller::new("node-claims", limits)
            .primary(&claims)
            .watch(&nodes, move |change| {
                let Some(home) = homes_of_nodes.of_logical(&change.key.cluster) else { return Vec::new() };
                let node = node_of(&change.key.cluster, &change.key.name);
                by_node.indexed(NODE_INDEX, &home.cluster, &node).into_iter().map(|(key, _)| key).collect()
            })
            .spawn(
                tasks,
                Arc::new(Claims {
                    client: self.client.clone(),
                    claims: claims.clone(),
                    nodes: nodes.clone(),
                    logical_clusters: self.logical_clusters,
                    provider: self.provider,
                    options: options.clone(),
                }),
            );
        // A cluster in which nothing is stored is not looked at: all its sources are below.
        Controller::new("scaler", limits)
            .watch(&clusters, |change| match (&change.before, &change.after) {
                (Some(before), Some(after)) if before.spec != after.spec => vec![change.key.clone()],
                (Some(_), None) => vec![change.key.clone()],
                _ => Vec::new(),
            })
            .watch(&claims, owner)
            .watch(&nodes, in_home(&homes))
            .watch(&self.informers.of::<Pod>(), in_home(&homes))
            .watch(&self.informers.of::<Deployment>(), in_home(&homes))
            .watch(&self.informers.of::<ReplicaSet>(), in_home(&homes))
            .watch(&self.informers.of::<DaemonSet>(), in_home(&homes))
            .watch(&self.informers.of::<Job>(), in_home(&homes))
            .spawn(
                tasks,
                Arc::new(Scaler {
                    client: self.client,
                    clusters,
                    options,
                    baseline: Baseline::default(),
                    states: States::default(),
                }),
            );
    }
}

const NODE_INDEX: &str = "node";

fn node_of(logical_cluster: &str, node: &str) -> String {
    format!("{logical_cluster}/{node}")
}

/// The key of the `Cluster` in whose logical cluster something changed.
fn in_home<K: ApiResource>(homes: &Homes) -> impl Fn(&Change<K>) -> Vec<ObjectKey> + Send + Sync + 'static {
    let homes = homes.clone();
    move |change| homes.of_logical(&change.key.cluster).into_iter().collect()
}
