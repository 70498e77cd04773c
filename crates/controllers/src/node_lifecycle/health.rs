//! Whether a node is alive. Pure.

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// Conditions that only the node can know.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// What is to be done about a node's health.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// Conditions to write; none when they are right.
    pub conditions: Vec<NodeCondition>,
    /// When to look again at the latest; `None` when only a sign of life changes anything.
    pub look_again: Option<Duration>,
}

/// Judges a node whose last sign of life came at `alive`. A node that never said anything gets
/// `startup_grace`, one that did `grace`; after that nobody knows how it is.
#[must_use]
pub fn health(
    node: &Node,
    alive: jiff::Timestamp,
    now: jiff::Timestamp,
    grace: Duration,
    startup_grace: Duration,
) -> Health {
    let known = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let find = |type_: &str| known.iter().find(|condition| condition.type_ == type_);
    let grace = if find("Ready").is_some() { grace } else { startup_grace };
    let silent = Duration::try_from(now.duration_since(alive)).unwrap_or_default();
    if silent < grace {
        return Health { conditions: Vec::new(), look_again: Some(grace - silent) };
    }
    let unknown = |type_: &&str| {
        let (reason, message, heartbeat) = match find(type_) {
            Some(condition) if condition.status == "Unknown" => return None,
            Some(condition) => {
                ("NodeStatusUnknown", "Kubelet stopped posting node status.", condition.last_heartbeat_time.clone())
            }
            None => (
                "NodeStatusNeverUpdated",
                "Kubelet never posted node status.",
                node.metadata.creation_timestamp.clone(),
            ),
        };
        Some(NodeCondition {
            type_: (*type_).to_owned(),
            status: "Unknown".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: heartbeat,
            last_transition_time: Some(Time(now)),
        })
    };
    Health { conditions: REPORTED.iter().filter_map(unknown).collect(), look_again: None }
}
