//! The life of a cluster: Initializing, Ready, Draining, gone.

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
            return self.drain(&home, key, &logical).await;
        }
        if known.status.phase == ClusterPhase::Initializing && self.logical_clusters.ready(&logical).await? {
            let url = format!("{}/clusters/{logical}", self.options.url);
            self.update(&home, key, |cluster| {
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
    async fn drain(&self, home: &Client, key: &ObjectKey, logical: &str) -> Result<Action, BoxError> {
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
            self.update(home, key, |cluster| {
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
        self.update(home, key, |cluster| {
            if let Some(finalizers) = &mut cluster.metadata.finalizers {
                finalizers.retain(|finalizer| finalizer != CLUSTER_FINALIZER);
            }
        })
        .await?;
        tracing::info!(cluster = %key, "removed");
        Ok(Action::Done)
    }

    /// Changes the object as it is now, by the writer that owns the changed part.
    async fn update(
        &self,
        home: &Client,
        key: &ObjectKey,
        change: impl Fn(&mut Cluster) + Send + Sync,
    ) -> Result<(), BoxError> {
        let Some(before) = home.get::<Cluster>("", &key.name).await? else { return Ok(()) };
        let mut after = before.clone();
        change(&mut after);
        if after.metadata != before.metadata {
            home.update(&after).await?;
        } else if after.status != before.status {
            home.update_status(&after).await?;
        }
        Ok(())
    }
}
