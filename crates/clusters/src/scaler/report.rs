//! What the scaler tells of a cluster: its nodes, when they expire, and what it is doing.

use crate::conditions;
use crate::scale::{Action, Decision, Observation, roll_up};
use api::Cluster;
use compute_api::NodeExpiry;
use controller_runtime::{BoxError, Client, ObjectKey};

/// Writes the scaler's part of a cluster's status, when it differs.
pub(super) async fn report(
    home: &Client,
    key: &ObjectKey,
    seen: &Observation,
    decision: &Decision,
) -> Result<(), BoxError> {
    let Some(mut cluster) = home.get::<Cluster>("", &key.name).await? else { return Ok(()) };
    let before = cluster.status.clone();
    cluster.status.nodes = Some(i32::try_from(seen.nodes.len()).unwrap_or(i32::MAX));
    cluster.status.node_expiry = roll_up(&seen.claims).map(|expiry| match expiry {
        NodeExpiry::Unlimited => 0,
        NodeExpiry::At(at) => at,
    });
    let (status, reason) = match decision.action {
        Action::Provision(_) => (true, "Provisioning"),
        Action::Release { .. } | Action::Teardown => (true, "Releasing"),
        Action::GiveUp(_) if decision.state.backoff.is_some() => (true, "Declined"),
        Action::GiveUp(_) => (true, "MachineLost"),
        Action::Nothing if decision.state.backoff.is_some() => (true, "BackingOff"),
        Action::Nothing if decision.state.idle_since.is_some() => (false, "Holding"),
        Action::Nothing => (false, "Steady"),
    };
    conditions::set(&mut cluster.status.conditions, "Scaling", status, reason, &decision.reason);
    if cluster.status != before {
        home.update_status(&cluster).await?;
    }
    Ok(())
}
