//! Conditions, as Kubernetes keeps them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Sets a condition. Its transition time moves only when its status does.
pub(crate) fn set(conditions: &mut Vec<Condition>, type_: &str, status: bool, reason: &str, message: &str) {
    let status = if status { "True" } else { "False" };
    let now = Time(jiff::Timestamp::now());
    if let Some(condition) = conditions.iter_mut().find(|condition| condition.type_ == type_) {
        if condition.status != status {
            condition.last_transition_time = now;
        }
        status.clone_into(&mut condition.status);
        reason.clone_into(&mut condition.reason);
        message.clone_into(&mut condition.message);
        return;
    }
    conditions.push(Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: now,
        observed_generation: None,
    });
}
