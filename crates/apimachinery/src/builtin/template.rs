//! What the workload kinds share: selectors and Pod templates.

use super::errors::{Errors, IMMUTABLE};
use super::pod::{defaults, spec};
use super::value::{entries, is_empty, is_set, list, text};
use crate::selector::LabelSelector;
use crate::validation::{label_value, qualified_name};
use serde_json::Value;

/// The most that the annotations of an object may hold together, bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Fills in the Pod template of a workload's spec.
pub(super) fn default(spec: &mut Value) {
    if let Some(template) = super::value::existing(spec, "template") {
        defaults::template(template);
    }
}

/// Checks the Pod template of the spec of a `kind`: its labels, its spec, and that its restart
/// policy is one of `policies`.
pub(super) fn validate(errors: &mut Errors, workload: &Value, policies: &[&str], kind: &str) {
    let template = &workload["template"];
    metadata(errors, &template["metadata"], "spec.template");
    let pod = &template["spec"];
    spec::validate(errors, pod, "spec.template.spec");
    let policy = text(pod, "restartPolicy");
    if !policies.contains(&policy) {
        if policy.is_empty() {
            let detail =
                format!("valid values: {}", policies.iter().map(|p| format!("{p:?}")).collect::<Vec<_>>().join(", "));
            errors.required("spec.template.spec.restartPolicy", &detail);
        } else {
            errors.unsupported("spec.template.spec.restartPolicy", policy, policies);
        }
    }
    if is_set(pod, "activeDeadlineSeconds") && kind != "Job" {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden("spec.template.spec.activeDeadlineSeconds", detail);
    }
    if !list(pod, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden("spec.template.spec.ephemeralContainers", detail);
    }
}

/// Checks the labels and annotations of a template.
fn metadata(errors: &mut Errors, metadata: &Value, path: &str) {
    for (key, value) in entries(metadata, "labels") {
        spec::label(errors, &format!("{path}.labels"), key, value);
    }
    let mut size = 0;
    let field = format!("{path}.annotations");
    for (key, value) in entries(metadata, "annotations") {
        // Annotation keys are compared in lower case.
        errors.each_invalid(&field, key, qualified_name(&key.to_lowercase()));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        errors.too_long(&field, ANNOTATIONS_LIMIT);
    }
}

/// Checks the selector of a workload (`kind` in lower case): it is well-formed, not empty, and
/// selects the template.
pub(super) fn selector(errors: &mut Errors, workload: &Value, kind: &str) {
    let Some(selector) = workload.get("selector").filter(|selector| selector.is_object()) else {
        errors.required("spec.selector", "");
        return;
    };
    let before = label_selector(errors, selector, "spec.selector");
    if is_empty(selector, "matchLabels") && is_empty(selector, "matchExpressions") {
        errors.invalid("spec.selector", selector.clone(), format!("empty selector is invalid for {kind}"));
        return;
    }
    let labels = &workload["template"]["metadata"]["labels"];
    if before && LabelSelector::from_object(selector).is_ok_and(|selector| !selector.matches(labels)) {
        let detail = "`selector` does not match template `labels`";
        let labels = if labels.is_null() { Value::Object(serde_json::Map::new()) } else { labels.clone() };
        errors.invalid("spec.template.metadata.labels", labels, detail);
    }
}

/// Checks a `LabelSelector`; says whether it is well-formed.
pub(super) fn label_selector(errors: &mut Errors, selector: &Value, path: &str) -> bool {
    let mut good = true;
    for (key, value) in entries(selector, "matchLabels") {
        good &= qualified_name(key).is_empty() && label_value(value.as_str().unwrap_or_default()).is_empty();
        spec::label(errors, &format!("{path}.matchLabels"), key, value);
    }
    for (i, expression) in list(selector, "matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{i}]");
        let (key, values) = (text(expression, "key"), list(expression, "values"));
        match text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(&format!("{path}.values"), "must be specified when `operator` is 'In' or 'NotIn'");
                good = false;
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(&format!("{path}.values"), detail);
                good = false;
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.invalid(&format!("{path}.operator"), other, "not a valid selector operator");
                good = false;
            }
        }
        let messages = qualified_name(key);
        good &= messages.is_empty();
        errors.each_invalid(&format!("{path}.key"), key, messages);
        for (j, value) in values.iter().filter_map(Value::as_str).enumerate() {
            let messages = label_value(value);
            good &= messages.is_empty();
            errors.each_invalid(&format!("{path}.values[{j}]"), value, messages);
        }
    }
    good
}

/// A selector is what a workload owns its Pods by: it stays.
pub(super) fn selector_is_kept(errors: &mut Errors, new: &Value, old: &Value) {
    if new.get("selector") != old.get("selector") {
        errors.invalid("spec.selector", new.get("selector").cloned().unwrap_or_default(), IMMUTABLE);
    }
}

/// An absolute number or a percentage such as `25%`.
pub(super) enum Amount {
    Number(i64),
    Percent(i64),
}

/// Reads and checks an `IntOrString` that counts Pods; `None` when absent or wrong.
pub(super) fn amount(errors: &mut Errors, value: &Value, path: &str) -> Option<Amount> {
    match value {
        Value::Number(_) => {
            let number = value.as_i64().unwrap_or(-1);
            errors.non_negative(path, Some(number));
            Some(Amount::Number(number))
        }
        Value::String(shown) => {
            let digits = shown.strip_suffix('%').filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()));
            match digits.and_then(|digits| digits.parse().ok()) {
                Some(percent) => Some(Amount::Percent(percent)),
                None => {
                    errors.invalid(path, shown.as_str(), "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')");
                    None
                }
            }
        }
        _ => None,
    }
}
