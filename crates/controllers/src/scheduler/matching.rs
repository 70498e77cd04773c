//! Whether labels, nodes and taints satisfy what a Pod says: selectors, node affinity, tolerations.

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

/// Labels of an object, which may have none.
pub(super) type Labels<'a> = Option<&'a BTreeMap<String, String>>;

/// The value of a label.
pub(super) fn label<'a>(labels: Labels<'a>, key: &str) -> Option<&'a str> {
    labels?.get(key).map(String::as_str)
}

/// Whether a value satisfies an operator of a selector. An unknown operator is satisfied by nothing.
fn satisfies(operator: &str, value: Option<&str>, wanted: &[String]) -> bool {
    let one_of = |value: &str| wanted.iter().any(|wanted| wanted == value);
    let compared = || {
        let (have, want) = (value?.parse::<i64>().ok()?, wanted.first()?.parse::<i64>().ok()?);
        Some(have.cmp(&want))
    };
    match operator {
        "In" => value.is_some_and(one_of),
        "NotIn" => !value.is_some_and(one_of),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compared().is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

/// Whether labels satisfy a selector: an empty one matches everything, an absent one nothing.
pub(super) fn selects(selector: Option<&LabelSelector>, labels: Labels<'_>) -> bool {
    let Some(selector) = selector else { return false };
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| label(labels, key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let wanted = requirement.values.as_deref().unwrap_or_default();
            requirement.operator != "Gt"
                && requirement.operator != "Lt"
                && satisfies(&requirement.operator, label(labels, &requirement.key), wanted)
        })
}

/// Whether a node satisfies a term. A term without conditions is satisfied by none.
pub(super) fn satisfies_term(node: &Node, term: &NodeSelectorTerm) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let holds = |requirement: &NodeSelectorRequirement, value: Option<&str>| {
        satisfies(&requirement.operator, value, requirement.values.as_deref().unwrap_or_default())
    };
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|wanted| holds(wanted, label(node.metadata.labels.as_ref(), &wanted.key)))
        && fields.iter().all(|wanted| wanted.key == "metadata.name" && holds(wanted, node.metadata.name.as_deref()))
}

/// Whether a node satisfies a Pod's node selector and the node affinity that it requires.
pub(super) fn satisfies_node_affinity(node: &Node, spec: &PodSpec) -> bool {
    let labels = node.metadata.labels.as_ref();
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| label(labels, key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    selected
        && required.is_none_or(|required| required.node_selector_terms.iter().any(|term| satisfies_term(node, term)))
}

/// Whether a toleration is for a taint.
#[must_use]
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    let wanted = toleration.value.as_deref().unwrap_or_default();
    let value = taint.value.as_deref().unwrap_or_default();
    let ordered = || Some(value.parse::<i64>().ok()?.cmp(&wanted.parse::<i64>().ok()?));
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && wanted == value,
        "Gt" => ordered().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => ordered().is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

/// The first taint of one of these effects that no toleration is for.
pub(super) fn untolerated<'a>(taints: &'a [Taint], spec: &PodSpec, effects: &[&str]) -> Option<&'a Taint> {
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    taints
        .iter()
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}
