//! `apps/v1`: Deployments, ReplicaSets, DaemonSets and their revisions.

use super::errors::Errors;
use super::template::{self, Amount, amount};
use super::value::{default, default_text, existing, int, is_set, set, text};
use crate::definition::Rules;
use crate::status::FieldError;
use serde_json::{Value, json};

pub(super) const DEPLOYMENT: Rules =
    Rules { default: Some(default_deployment), prepare: Some(clear_status), validate: Some(validate_deployment) };
pub(super) const REPLICA_SET: Rules = Rules {
    default: Some(default_replica_set),
    prepare: Some(prepare_replica_set),
    validate: Some(validate_replica_set),
};
pub(super) const DAEMON_SET: Rules =
    Rules { default: Some(default_daemon_set), prepare: Some(prepare_daemon_set), validate: Some(validate_daemon_set) };
pub(super) const CONTROLLER_REVISION: Rules =
    Rules { default: None, prepare: None, validate: Some(validate_controller_revision) };

/// Pods of a workload are always restarted.
const ALWAYS: &[&str] = &["Always"];

/// A new object's status is its controller's to write.
pub(super) fn clear_status(new: &mut Value, old: Option<&Value>) {
    if old.is_none() {
        set(new, "status", json!({}));
    }
}

/// Some counts are written even when they are zero.
fn prepare_replica_set(new: &mut Value, old: Option<&Value>) {
    if old.is_none() {
        set(new, "status", json!({"replicas": 0}));
    }
}

fn prepare_daemon_set(new: &mut Value, old: Option<&Value>) {
    if old.is_none() {
        let status = json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        });
        set(new, "status", status);
    }
}

fn default_deployment(deployment: &mut Value) {
    let Some(spec) = existing(deployment, "spec") else {
        return;
    };
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    default(spec, "strategy", json!({}));
    if let Some(strategy) = existing(spec, "strategy") {
        default_text(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate" {
            default(strategy, "rollingUpdate", json!({}));
            if let Some(rolling) = existing(strategy, "rollingUpdate") {
                default(rolling, "maxUnavailable", "25%");
                default(rolling, "maxSurge", "25%");
            }
        }
    }
    template::default(spec);
}

fn default_replica_set(replica_set: &mut Value) {
    if let Some(spec) = existing(replica_set, "spec") {
        default(spec, "replicas", 1);
        template::default(spec);
    }
}

fn default_daemon_set(daemon_set: &mut Value) {
    let Some(spec) = existing(daemon_set, "spec") else {
        return;
    };
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "updateStrategy", json!({}));
    if let Some(strategy) = existing(spec, "updateStrategy") {
        default_text(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate" {
            default(strategy, "rollingUpdate", json!({}));
            if let Some(rolling) = existing(strategy, "rollingUpdate") {
                default(rolling, "maxUnavailable", 1);
                default(rolling, "maxSurge", 0);
            }
        }
    }
    template::default(spec);
}

fn validate_deployment(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = &new["spec"];
    errors.non_negative("spec.replicas", int(spec, "replicas"));
    template::selector(&mut errors, spec, "deployment");
    template::validate(&mut errors, spec, ALWAYS, "Deployment");
    let strategy = &spec["strategy"];
    match text(strategy, "type") {
        "Recreate" if is_set(strategy, "rollingUpdate") => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.forbidden("spec.strategy.rollingUpdate", detail);
        }
        "RollingUpdate" => rolling_update(&mut errors, &strategy["rollingUpdate"], "spec.strategy.rollingUpdate"),
        _ => {}
    }
    let ready = int(spec, "minReadySeconds").unwrap_or(0);
    errors.non_negative("spec.minReadySeconds", Some(ready));
    errors.non_negative("spec.revisionHistoryLimit", int(spec, "revisionHistoryLimit"));
    if let Some(deadline) = int(spec, "progressDeadlineSeconds") {
        errors.non_negative("spec.progressDeadlineSeconds", Some(deadline));
        if deadline <= ready {
            errors.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds");
        }
    }
    if let Some(old) = old {
        template::selector_is_kept(&mut errors, spec, &old["spec"]);
    }
    errors.finish()
}

fn rolling_update(errors: &mut Errors, rolling: &Value, path: &str) {
    let field = format!("{path}.maxUnavailable");
    let unavailable = amount(errors, &rolling["maxUnavailable"], &field);
    let surge = amount(errors, &rolling["maxSurge"], &format!("{path}.maxSurge"));
    let zero = |amount: &Option<Amount>| matches!(amount, Some(Amount::Number(0) | Amount::Percent(0)));
    if zero(&unavailable) && zero(&surge) {
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.invalid(&field, rolling["maxUnavailable"].clone(), detail);
    }
    if let Some(Amount::Percent(percent)) = unavailable
        && percent > 100
    {
        errors.invalid(&field, rolling["maxUnavailable"].clone(), "must not be greater than 100%");
    }
}

fn validate_replica_set(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = &new["spec"];
    errors.non_negative("spec.replicas", int(spec, "replicas"));
    errors.non_negative("spec.minReadySeconds", int(spec, "minReadySeconds"));
    template::selector(&mut errors, spec, "replicaset");
    template::validate(&mut errors, spec, ALWAYS, "ReplicaSet");
    if let Some(old) = old {
        template::selector_is_kept(&mut errors, spec, &old["spec"]);
    }
    errors.finish()
}

fn validate_daemon_set(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = &new["spec"];
    template::selector(&mut errors, spec, "daemonset");
    template::validate(&mut errors, spec, ALWAYS, "DaemonSet");
    errors.non_negative("spec.minReadySeconds", int(spec, "minReadySeconds"));
    errors.non_negative("spec.revisionHistoryLimit", int(spec, "revisionHistoryLimit"));
    let strategy = &spec["updateStrategy"];
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = &strategy["rollingUpdate"];
        let path = "spec.updateStrategy.rollingUpdate";
        let unavailable = amount(&mut errors, &rolling["maxUnavailable"], &format!("{path}.maxUnavailable"));
        let surge = amount(&mut errors, &rolling["maxSurge"], &format!("{path}.maxSurge"));
        let positive = |amount: &Option<Amount>| matches!(amount, Some(Amount::Number(1..) | Amount::Percent(1..)));
        match (positive(&unavailable), positive(&surge)) {
            (true, true) => {
                let detail = "may not be set when maxUnavailable is non-zero";
                errors.invalid(&format!("{path}.maxSurge"), rolling["maxSurge"].clone(), detail);
            }
            (false, false) => {
                errors.required(&format!("{path}.maxUnavailable"), "cannot be 0 when maxSurge is 0");
            }
            _ => {}
        }
    }
    if let Some(old) = old {
        template::selector_is_kept(&mut errors, spec, &old["spec"]);
    }
    errors.finish()
}

/// A revision's data is written once.
fn validate_controller_revision(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.non_negative("revision", int(new, "revision"));
    match old {
        None if !is_set(new, "data") => errors.required("data", "data is mandatory"),
        Some(old) => errors.immutable("data", new, old, "data"),
        None => {}
    }
    errors.finish()
}
