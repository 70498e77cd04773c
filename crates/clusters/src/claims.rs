//! Fulfilment of claims: asks the provider for a machine, follows it, and destroys it.

use crate::conditions;
use crate::options::Options;
use api::{NODE_CLAIM_FINALIZER, NodeClaim, NodeClaimPhase};
use async_trait::async_trait;
use compute_api::{MachineId, MachineState, NodeExpiry, NodeProvider, NodeRequest, ProvisionError, Secret};
use controller_runtime::{
    Action, BoxError, Client, DeleteOptions, Informer, LogicalClusters, ObjectKey, Patch, Reconciler,
};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use node_api::{BootConfig, JoinSecret};
use serde_json::json;
use std::sync::Arc;

pub(crate) struct Claims {
    pub(crate) client: Client,
    pub(crate) claims: Informer<NodeClaim>,
    pub(crate) nodes: Informer<Node>,
    pub(crate) logical_clusters: Arc<dyn LogicalClusters>,
    pub(crate) provider: Arc<dyn NodeProvider>,
    pub(crate) options: Arc<Options>,
}

#[async_trait]
impl Reconciler for Claims {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, BoxError> {
        let Some(claim) = self.claims.store().get(key) else { return Ok(Action::Done) };
        let Some(uid) = claim.metadata.uid.clone() else { return Ok(Action::Done) };
        let id = MachineId(uid);
        let home = self.client.cluster(key.cluster.clone());
        if claim.metadata.deletion_timestamp.is_some() {
            return self.release(&home, &claim, &id).await;
        }
        match claim.status.phase {
            NodeClaimPhase::Pending => self.provision(&home, &claim, &id).await,
            NodeClaimPhase::Provisioning => self.await_join(&home, &claim, &id).await,
            NodeClaimPhase::Joined => self.watch_over(&home, &claim, &id).await,
            NodeClaimPhase::Failed | NodeClaimPhase::Releasing => Ok(Action::Done),
        }
    }
}

impl Claims {
    /// Asks for the machine. Asking twice, after a crash in between, is asking once.
    async fn provision(&self, home: &Client, claim: &NodeClaim, id: &MachineId) -> Result<Action, BoxError> {
        let spec = &claim.spec;
        let lifetime = self.options.join_token_lifetime;
        let token = self.logical_clusters.issue_join_token(&spec.logical_cluster, &spec.node_name, lifetime).await?;
        let boot = BootConfig {
            server: self.options.node_url.clone(),
            cluster: spec.logical_cluster.clone(),
            node_name: spec.node_name.clone(),
            certificate_authority: self.logical_clusters.certificate_authority(),
            pod_cidr: spec.pod_cidr.clone(),
            service_cidr: self.options.service_cidr.clone(),
            cluster_dns: self.options.cluster_dns.clone(),
            cluster_domain: self.options.cluster_domain.clone(),
            labels: std::collections::BTreeMap::new(),
            insecure_registries: self.options.insecure_registries.clone(),
            registry_mirrors: self.options.registry_mirrors.clone(),
        };
        let request = NodeRequest {
            id: id.clone(),
            cluster: spec.logical_cluster.clone(),
            node_name: spec.node_name.clone(),
            cpus: u32::try_from(spec.cpus).unwrap_or(1),
            memory_mib: u32::try_from(spec.memory_mi_b).unwrap_or(0),
            boot_config: serde_json::to_string(&boot)?,
            join_secret: Secret::new(serde_json::to_string(&JoinSecret { token })?),
        };
        match self.provider.provision(&request).await {
            Ok(accepted) => {
                let expiry = accepted.expiry.map(|expiry| match expiry {
                    NodeExpiry::Unlimited => 0,
                    NodeExpiry::At(at) => at,
                });
                self.update(home, claim, |claim| {
                    claim.status.phase = NodeClaimPhase::Provisioning;
                    claim.status.provider = Some(self.options.provider.clone());
                    claim.status.node_expiry = expiry;
                    conditions::set(
                        &mut claim.status.conditions,
                        "Accepted",
                        true,
                        "Accepted",
                        "the machine is coming",
                    );
                })
                .await?;
                Ok(Action::After(self.options.observe_interval))
            }
            Err(ProvisionError::Declined(why)) => self.fail(home, claim, true, &why).await,
            Err(error @ ProvisionError::Failed(_)) => self.fail(home, claim, false, &error.to_string()).await,
        }
    }

    /// A joined node is one that its cluster reports Ready; a machine that is up is not enough.
    async fn await_join(&self, home: &Client, claim: &NodeClaim, id: &MachineId) -> Result<Action, BoxError> {
        if self.node(claim).is_some_and(|node| ready(&node)) {
            self.provider.joined(id).await;
            self.update(home, claim, |claim| {
                claim.status.phase = NodeClaimPhase::Joined;
                conditions::set(&mut claim.status.conditions, "Joined", true, "NodeReady", "the node is Ready");
            })
            .await?;
            return Ok(Action::After(self.options.observe_interval));
        }
        if let MachineState::Lost { reason } = self.provider.observe(id).await {
            return self.fail(home, claim, false, &format!("the machine was lost: {reason}")).await;
        }
        let created = claim.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
        let limit = self.options.join_timeout;
        let waited = jiff::Timestamp::now().as_second().saturating_sub(created);
        if u64::try_from(waited).is_ok_and(|waited| waited > limit.as_secs()) {
            return self.fail(home, claim, false, &format!("the node did not join within {limit:?}")).await;
        }
        Ok(Action::After(self.options.observe_interval))
    }

    /// A machine that is verified gone makes its Node not Ready at once; nobody waits for a lease.
    async fn watch_over(&self, home: &Client, claim: &NodeClaim, id: &MachineId) -> Result<Action, BoxError> {
        let MachineState::Lost { reason } = self.provider.observe(id).await else {
            return Ok(Action::After(self.options.observe_interval));
        };
        if let Some(node) = self.node(claim) {
            let was = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let now = Time(jiff::Timestamp::now());
            let mut condition = was.into_iter().find(|c| c.type_ == "Ready").cloned().unwrap_or_default();
            condition.type_ = "Ready".to_owned();
            condition.status = "Unknown".to_owned();
            condition.reason = Some("MachineLost".to_owned());
            condition.message = Some(reason.clone());
            condition.last_transition_time = Some(now);
            let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
            let tenant = self.client.cluster(claim.spec.logical_cluster.as_str());
            match tenant.patch_status::<Node>("", &claim.spec.node_name, &patch).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        self.fail(home, claim, false, &format!("the machine was lost: {reason}")).await
    }

    /// Destroys the machine, then its Node object, which no agent is left to remove, then lets the
    /// claim go.
    async fn release(&self, home: &Client, claim: &NodeClaim, id: &MachineId) -> Result<Action, BoxError> {
        if !claim.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == NODE_CLAIM_FINALIZER) {
            return Ok(Action::Done);
        }
        self.provider.release(id).await?;
        let tenant = self.client.cluster(claim.spec.logical_cluster.as_str());
        match tenant.delete::<Node>("", &claim.spec.node_name, &DeleteOptions::default()).await {
            // The cluster itself may be gone.
            Err(error) if !error.is_not_found() && !error.is_forbidden() => return Err(error.into()),
            _ => {}
        }
        self.update(home, claim, |claim| {
            if let Some(finalizers) = &mut claim.metadata.finalizers {
                finalizers.retain(|finalizer| finalizer != NODE_CLAIM_FINALIZER);
            }
        })
        .await?;
        Ok(Action::Done)
    }

    fn node(&self, claim: &NodeClaim) -> Option<Arc<Node>> {
        let key = ObjectKey::new(claim.spec.logical_cluster.as_str(), "", claim.spec.node_name.as_str());
        self.nodes.store().get(&key)
    }

    async fn fail(&self, home: &Client, claim: &NodeClaim, declined: bool, why: &str) -> Result<Action, BoxError> {
        tracing::warn!(claim = claim.metadata.name, declined, why, "claim failed");
        self.update(home, claim, |claim| {
            claim.status.phase = NodeClaimPhase::Failed;
            claim.status.declined = declined;
            claim.status.message = Some(why.to_owned());
        })
        .await?;
        Ok(Action::Done)
    }

    /// Changes the object as it is now, if it is still the same one.
    async fn update(
        &self,
        home: &Client,
        claim: &NodeClaim,
        change: impl FnOnce(&mut NodeClaim) + Send,
    ) -> Result<(), BoxError> {
        let ObjectMeta { name, uid, .. } = &claim.metadata;
        crate::change::change(home, name.as_deref().unwrap_or_default(), uid.as_deref(), change).await
    }
}

fn ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
