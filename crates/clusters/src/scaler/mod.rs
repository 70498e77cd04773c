//! The scaler: observes a cluster, decides, and carries the decision out through claims.

mod plan;
mod report;
#[cfg(test)]
mod tests;

use crate::observe::observe;
use crate::options::Options;
use crate::scale::{self, Action as Scale, Baseline, Decision, Observation, State};
use api::{Cluster, ClusterPhase, NodeClaim};
use async_trait::async_trait;
use controller_runtime::{Action, BoxError, Client, DeleteOptions, Informer, ObjectKey, Patch, Reconciler};
use k8s_openapi::api::core::v1::Node;
use runtime::Shrink;
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Marks a node that the scaler cordoned, so that it uncordons no other.
const CORDON_ANNOTATION: &str = "socialweb.computer/scale-in";

pub(crate) struct Scaler {
    pub(crate) client: Client,
    pub(crate) clusters: Informer<Cluster>,
    pub(crate) options: Arc<Options>,
    pub(crate) baseline: Baseline,
    pub(crate) states: States,
}

/// What each cluster's next decision must know; idle clusters have no entry.
#[derive(Debug, Default)]
pub(crate) struct States(Mutex<HashMap<ObjectKey, State>>);

impl States {
    fn of(&self, key: &ObjectKey) -> State {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned().unwrap_or_default()
    }

    fn remember(&self, key: &ObjectKey, state: State) {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state == State::default() {
            states.remove(key);
            states.shrink_if_sparse();
        } else {
            states.insert(key.clone(), state);
        }
    }
}

#[async_trait]
impl Reconciler for Scaler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, BoxError> {
        let Some(cluster) = self.clusters.store().get(key) else {
            self.states.remember(key, State::default());
            return Ok(Action::Done);
        };
        let Some(logical) = cluster.status.logical_cluster.as_deref() else { return Ok(Action::Done) };
        if cluster.metadata.deletion_timestamp.is_some() || cluster.status.phase == ClusterPhase::Draining {
            self.states.remember(key, State::default());
            return Ok(Action::Done);
        }
        let tenant = self.client.cluster(logical);
        let home = self.client.cluster(key.cluster.clone());
        let seen = observe(&tenant, &home, &key.name).await?;
        let before = self.states.of(key);
        let now = jiff::Timestamp::now().as_second();
        let decision = scale::decide(&seen, &before, &self.baseline, now, &self.options.scale_of(&cluster.spec));
        tracing::debug!(cluster = %key, action = ?decision.action, reason = decision.reason, "scale");
        let done = self.perform(&tenant, &home, &cluster, &seen, &decision).await?;
        if done {
            self.states.remember(key, decision.state.clone());
        }
        report::report(&home, key, &seen, &decision).await?;
        let acted = decision.action != Scale::Nothing;
        Ok(match decision.wake_at {
            _ if acted && !done => Action::After(self.options.observe_interval),
            Some(at) => Action::After(Duration::from_secs(u64::try_from(at - now).unwrap_or(0).max(1))),
            None => Action::Done,
        })
    }
}

impl Scaler {
    /// Carries a decision out. Returns whether it was: a release is not when the node took work.
    async fn perform(
        &self,
        tenant: &Client,
        home: &Client,
        cluster: &Cluster,
        seen: &Observation,
        decision: &Decision,
    ) -> Result<bool, BoxError> {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        match &decision.action {
            Scale::Nothing => {}
            Scale::GiveUp(claims) => {
                for claim in claims {
                    delete_claim(home, claim).await?;
                }
                tracing::warn!(cluster = name, ?claims, reason = decision.reason, "gave machines up");
            }
            Scale::Provision(count) => {
                for claim in plan::claims(cluster, seen, *count, self.options.shape(&cluster.spec))? {
                    home.create(&claim).await?;
                    tracing::info!(cluster = name, node = claim.spec.node_name, reason = decision.reason, "claimed");
                }
            }
            Scale::Release { claim, node } => return self.release(tenant, home, name, claim, node).await,
            Scale::Teardown => {
                for claim in seen.claims.iter().filter(|claim| claim.state != scale::ClaimState::Releasing) {
                    delete_claim(home, &claim.name).await?;
                }
                tracing::info!(cluster = name, reason = decision.reason, "released every node");
            }
        }
        Ok(true)
    }

    /// Cordons, looks again, drains, releases. A node that took work between the decision and the
    /// cordon, or whose Pods may not be evicted, is uncordoned and stays.
    async fn release(
        &self,
        tenant: &Client,
        home: &Client,
        cluster: &str,
        claim: &str,
        node: &str,
    ) -> Result<bool, BoxError> {
        cordon(tenant, node, true).await?;
        let seen = observe(tenant, home, cluster).await?;
        let load = scale::load(&seen, &self.baseline, node);
        let mut keep = load.busy > 0 || load.incoming;
        for pod in seen.pods.iter().filter(|pod| !pod.follows_node && !pod.terminal) {
            if keep || pod.node.as_deref() != Some(node) {
                continue;
            }
            match tenant.evict(&pod.namespace, &pod.name, &DeleteOptions::default()).await {
                Ok(()) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    tracing::info!(cluster, node, pod = pod.name, %error, "may not be evicted; the node stays");
                    keep = true;
                }
            }
        }
        if keep {
            cordon(tenant, node, false).await?;
            return Ok(false);
        }
        delete_claim(home, claim).await?;
        tracing::info!(cluster, node, "released an idle node");
        Ok(true)
    }
}

async fn delete_claim(home: &Client, claim: &str) -> Result<(), BoxError> {
    match home.delete::<NodeClaim>("", claim, &DeleteOptions::default()).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

async fn cordon(tenant: &Client, node: &str, on: bool) -> Result<(), BoxError> {
    let ours = |node: &Node| node.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(CORDON_ANNOTATION));
    let Some(now) = tenant.get::<Node>("", node).await? else { return Ok(()) };
    let cordoned = now.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    // An operator's cordon is left alone.
    if cordoned == on || (!on && !ours(&now)) {
        return Ok(());
    }
    let mark = if on { json!("true") } else { json!(null) };
    let unschedulable = if on { json!(true) } else { json!(null) };
    let patch = json!({
        "metadata": {"annotations": {CORDON_ANNOTATION: mark}},
        "spec": {"unschedulable": unschedulable},
    });
    tenant.patch::<Node>("", node, &Patch::Merge(patch)).await?;
    Ok(())
}
