//! The life of a cluster: Initializing, Ready, Draining, gone.

use crate::change::change;
use crate::conditions;
use crate::observe::CLUSTER_LABEL;
use crate::options::Options;
use crate::scale::{gate, roll_up};
use api::{CLUSTER_FINALIZER, Cluster, ClusterPhase, NodeClaim};
use async_trait::async_trait;
use controller_runtime::{
    Action, BoxError, Client, DeleteOptions, Informer, ListOptions, LogicalClusters, ObjectKey, Reconciler,
};
use std::sync::Arc;

pub(crate) struct Lifecycle {
    pub(crate) client: Client,
    pub(crate) clusters: Informer<Cluster>,
    pub(crate) logical_clusters: Arc<dyn LogicalClusters>,
    pub(crate) options: Arc<Options>,
}

#[async_trait]
impl Reconciler for Lifecycle {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, BoxError> {
        let Some(known) = self.clusters.store().get(key) else { return Ok(Action::Done) };
        let Some(logical) = known.status.logical_cluster.clone() else { return Ok(Action::Done) };
        let home = self.client.cluster(key.cluster.clone());
        if known.metadata.deletion_timestamp.is_some() {
            return self.drain(&home, key, &known, &logical).await;
        }
        if known.status.phase == ClusterPhase::Initializing && self.logical_clusters.ready(&logical).await? {
            let url = format!("{}/clusters/{logical}", self.options.url);
            change(&home, &key.name, known.metadata.uid.as_deref(), |cluster: &mut Cluster| {
                cluster.status.phase = ClusterPhase::Ready;
                cluster.status.url = Some(url.clone());
                conditions::set(&mut cluster.status.conditions, "Ready", true, "Answering", "the API answers");
            })
            .await?;
        }
        Ok(Action::Done)
    }
}

impl Lifecycle {
    /// Releases every machine, then removes everything in the cluster, then lets the object go.
    async fn drain(&self, home: &Client, key: &ObjectKey, known: &Cluster, logical: &str) -> Result<Action, BoxError> {
        let uid = known.metadata.uid.as_deref();
        let claims: Vec<NodeClaim> =
            home.list("", &ListOptions::labels(format!("{CLUSTER_LABEL}={}", key.name))).await?;
        if !claims.is_empty() {
            let going: Vec<_> = claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none()).collect();
            let seen: Vec<_> = going.iter().map(|claim| crate::observe::claim(claim)).collect();
            let verdict = gate(roll_up(&seen), jiff::Timestamp::now().as_second());
            let (reason, message) = match &verdict {
                Ok(()) => ("Draining", "releasing nodes".to_owned()),
                Err(why) => ("TeardownRefused", why.clone()),
            };
            change(home, &key.name, uid, |cluster: &mut Cluster| {
                cluster.status.phase = ClusterPhase::Draining;
                conditions::set(&mut cluster.status.conditions, "Ready", false, reason, &message);
            })
            .await?;
            if verdict.is_err() {
                return Ok(Action::After(self.options.gate_interval));
            }
            for claim in going {
                let name = claim.metadata.name.as_deref().unwrap_or_default();
                match home.delete::<NodeClaim>("", name, &DeleteOptions::default()).await {
                    Err(error) if !error.is_not_found() => return Err(error.into()),
                    _ => {}
                }
            }
            return Ok(Action::After(self.options.observe_interval));
        }
        self.logical_clusters.purge(logical).await?;
        change(home, &key.name, uid, |cluster: &mut Cluster| {
            if let Some(finalizers) = &mut cluster.metadata.finalizers {
                finalizers.retain(|finalizer| finalizer != CLUSTER_FINALIZER);
            }
        })
        .await?;
        tracing::info!(cluster = %key, "removed");
        Ok(Action::Done)
    }
}
