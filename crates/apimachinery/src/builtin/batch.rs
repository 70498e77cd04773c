//! `batch/v1`: Jobs.

use super::apps::clear_status;
use super::errors::{Errors, IMMUTABLE};
use super::template;
use super::value::{default, default_text, each, existing, flag, int, is_empty, is_set, object, remove, set, text};
use crate::definition::Rules;
use crate::status::FieldError;
use serde_json::{Value, json};

pub(super) const JOB: Rules = Rules { default: Some(default_job), prepare: Some(prepare), validate: Some(validate) };

/// Label with the Job's uid, by which it selects its Pods.
pub const CONTROLLER_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
/// Label with the Job's name.
pub const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";
/// The labels' older names.
const LEGACY_CONTROLLER_UID_LABEL: &str = "controller-uid";
const LEGACY_JOB_NAME_LABEL: &str = "job-name";

fn default_job(job: &mut Value) {
    let Some(spec) = existing(job, "spec") else {
        return;
    };
    if !is_set(spec, "completions") && !is_set(spec, "parallelism") {
        set(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    let limit = if is_set(spec, "backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    default(spec, "backoffLimit", limit);
    default_text(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "manualSelector", false);
    let replacement = if is_set(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    default_text(spec, "podReplacementPolicy", replacement);
    if let Some(policy) = existing(spec, "podFailurePolicy") {
        for rule in each(policy, "rules") {
            for pattern in each(rule, "onPodConditions") {
                default_text(pattern, "status", "True");
            }
        }
    }
    template::default(spec);
    take_labels(job);
}

/// A Job without labels takes its template's.
fn take_labels(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if labels.as_object().is_some_and(|labels| !labels.is_empty())
        && let Some(metadata) = existing(job, "metadata").filter(|metadata| is_empty(metadata, "labels"))
    {
        set(metadata, "labels", labels);
    }
}

/// Generates the selector and the labels by which a Job finds its Pods. The object must have its
/// final `metadata.name` and `metadata.uid`.
fn prepare(new: &mut Value, old: Option<&Value>) {
    clear_status(new, old);
    let (uid, name) = (text(&new["metadata"], "uid").to_owned(), text(&new["metadata"], "name").to_owned());
    if old.is_some() || uid.is_empty() || flag(&new["spec"], "manualSelector") {
        return;
    }
    let Some(spec) = existing(new, "spec") else {
        return;
    };
    if let Some(template) = existing(spec, "template")
        && object(template, "metadata").is_some()
        && let Some(labels) = template.get_mut("metadata").and_then(|metadata| object(metadata, "labels"))
    {
        for (label, value) in [
            (LEGACY_JOB_NAME_LABEL, &name),
            (JOB_NAME_LABEL, &name),
            (LEGACY_CONTROLLER_UID_LABEL, &uid),
            (CONTROLLER_UID_LABEL, &uid),
        ] {
            labels.entry(label).or_insert_with(|| value.as_str().into());
        }
    }
    if !is_set(spec, "selector") {
        set(spec, "selector", json!({}));
    }
    if let Some(labels) = existing(spec, "selector").and_then(|selector| object(selector, "matchLabels")) {
        labels.entry(CONTROLLER_UID_LABEL).or_insert_with(|| uid.into());
    }
    take_labels(new);
}

fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = &new["spec"];
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.non_negative(&format!("spec.{key}"), int(spec, key));
    }
    if text(spec, "completionMode") == "Indexed" && !is_set(spec, "completions") {
        errors.required("spec.completions", "when completion mode is Indexed");
    }
    if is_set(spec, "backoffLimitPerIndex") && text(spec, "completionMode") != "Indexed" {
        let detail = "requires indexed completion mode";
        errors.invalid("spec.backoffLimitPerIndex", spec["backoffLimitPerIndex"].clone(), detail);
    }
    let (manual, uid) = (flag(spec, "manualSelector"), text(&new["metadata"], "uid"));
    if old.is_none() && !manual {
        generated(&mut errors, new, uid);
    }
    template::selector(&mut errors, spec, "job");
    template::validate(&mut errors, spec, &["OnFailure", "Never"], "Job");
    if is_set(spec, "podFailurePolicy") && text(&spec["template"]["spec"], "restartPolicy") != "Never" {
        let policy = text(&spec["template"]["spec"], "restartPolicy");
        let detail = "only \"Never\" is supported when podFailurePolicy is specified";
        errors.invalid("spec.template.spec.restartPolicy", policy, detail);
    }
    if let Some(old) = old {
        update(&mut errors, spec, old);
    }
    errors.finish()
}

/// A selector that the user did not choose must be the generated one.
fn generated(errors: &mut Errors, job: &Value, uid: &str) {
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    let name = text(&job["metadata"], "name");
    let path = "spec.template.metadata.labels";
    for (label, expected) in [
        (LEGACY_CONTROLLER_UID_LABEL, uid),
        (CONTROLLER_UID_LABEL, uid),
        (LEGACY_JOB_NAME_LABEL, name),
        (JOB_NAME_LABEL, name),
    ] {
        if text(labels, label) != expected {
            errors.invalid(&format!("{path}[{label}]"), text(labels, label), format!("must be '{expected}'"));
        }
    }
    let selector = &job["spec"]["selector"];
    let expected = json!({"matchLabels": {CONTROLLER_UID_LABEL: uid}});
    let legacy = json!({"matchLabels": {CONTROLLER_UID_LABEL: uid, LEGACY_CONTROLLER_UID_LABEL: uid}});
    if *selector != expected && *selector != legacy {
        errors.invalid("spec.selector", selector.clone(), "`selector` not auto-generated");
    }
}

fn update(errors: &mut Errors, spec: &Value, old: &Value) {
    let old_spec = &old["spec"];
    // An indexed Job may be resized when parallelism follows completions.
    let elastic = text(old_spec, "completionMode") == "Indexed"
        && int(spec, "completions").is_some()
        && int(spec, "completions") == int(spec, "parallelism");
    if !elastic {
        errors.immutable("spec.completions", spec, old_spec, "completions");
    }
    for key in ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        errors.immutable(&format!("spec.{key}"), spec, old_spec, key);
    }
    let (new, old_template) = (&spec["template"], &old_spec["template"]);
    // While a Job is suspended and has not started, where its Pods run may change.
    let movable = flag(old_spec, "suspend") && !is_set(&old["status"], "startTime");
    if comparable(new, movable) != comparable(old_template, movable) {
        errors.invalid("spec.template", new.clone(), IMMUTABLE);
    }
}

fn comparable(template: &Value, movable: bool) -> Value {
    let mut template = template.clone();
    if !movable {
        return template;
    }
    if let Some(metadata) = existing(&mut template, "metadata") {
        remove(metadata, "labels");
        remove(metadata, "annotations");
    }
    if let Some(spec) = existing(&mut template, "spec") {
        for key in ["nodeSelector", "tolerations", "schedulingGates", "affinity"] {
            remove(spec, key);
        }
    }
    template
}
