//! The `nodeExpiry` gate: a teardown that cannot compare must not proceed.

use super::observation::{Claim, ClaimState};
use compute_api::NodeExpiry;

/// When a cluster's nodes are taken away, rolled up over its joined claims: unknown if any is
/// unknown, else the earliest end, else never. `None` is unknown.
pub fn roll_up<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Option<NodeExpiry> {
    let mut earliest = NodeExpiry::Unlimited;
    for claim in claims.into_iter().filter(|claim| claim.state == ClaimState::Joined) {
        earliest = match (earliest, claim.expiry?) {
            (NodeExpiry::At(a), NodeExpiry::At(b)) => NodeExpiry::At(a.min(b)),
            (NodeExpiry::Unlimited, other) | (other, NodeExpiry::Unlimited) => other,
        };
    }
    Some(earliest)
}

/// Whether a teardown that ends by `ends_at` (seconds since the epoch) may proceed.
///
/// # Errors
/// Why not, for people.
pub fn gate(expiry: Option<NodeExpiry>, ends_at: i64) -> Result<(), String> {
    match expiry {
        None => Err("the provider has not reported when the nodes expire (status.nodeExpiry is absent)".to_owned()),
        Some(NodeExpiry::Unlimited) => Ok(()),
        Some(NodeExpiry::At(at)) if ends_at <= at => Ok(()),
        Some(NodeExpiry::At(at)) => {
            Err(format!("the nodes expire at {at}, before the teardown would end at {ends_at}"))
        }
    }
}
