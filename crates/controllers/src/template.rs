//! Pod templates: their hash, their equality, and the Pods made of them.

use crate::meta::controller_reference;
use controller_runtime::ApiResource;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The label with which a Deployment tells its ReplicaSets apart.
pub(crate) const HASH_LABEL: &str = "pod-template-hash";

/// Whether two templates are the same but for the hash label.
pub(crate) fn same(one: &PodTemplateSpec, other: &PodTemplateSpec) -> bool {
    one.spec == other.spec && {
        let (one, other) = (stripped(one), stripped(other));
        one.labels.unwrap_or_default() == other.labels.unwrap_or_default()
            && one.annotations.unwrap_or_default() == other.annotations.unwrap_or_default()
    }
}

fn stripped(template: &PodTemplateSpec) -> ObjectMeta {
    let mut metadata = template.metadata.clone().unwrap_or_default();
    if let Some(labels) = &mut metadata.labels {
        labels.remove(HASH_LABEL);
    }
    metadata
}

/// A short name for a template, which differs for another `collisions`.
pub(crate) fn hash(template: &PodTemplateSpec, collisions: i32) -> String {
    // FNV-1a, 32 bits, over the template's JSON, whose fields have one order.
    let mut json = serde_json::to_vec(template).unwrap_or_default();
    json.extend_from_slice(&collisions.to_le_bytes());
    let hash = json.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    // Letters and digits that form no words.
    const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    hash.to_string().bytes().map(|digit| char::from(SAFE[usize::from(digit) % SAFE.len()])).collect()
}

/// The Pod that `owner` makes of a template. The API server completes the name.
pub(crate) fn pod<K: ApiResource>(owner: &K, template: &PodTemplateSpec) -> Pod {
    let wanted = template.metadata.clone().unwrap_or_default();
    let metadata = owner.metadata();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", metadata.name.as_deref().unwrap_or_default())),
            namespace: metadata.namespace.clone(),
            labels: wanted.labels,
            annotations: wanted.annotations,
            finalizers: wanted.finalizers,
            owner_references: Some(vec![controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(value: serde_json::Value) -> PodTemplateSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_hash_label_makes_no_difference() {
        let plain = template(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}));
        let mut labelled = plain.clone();
        let add = |to: &mut PodTemplateSpec, key: &str| {
            let labels = to.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()).unwrap();
            labels.insert(key.into(), "x".into());
        };
        add(&mut labelled, HASH_LABEL);
        assert!(same(&plain, &labelled));
        add(&mut labelled, "more");
        assert!(!same(&plain, &labelled));
        let other = template(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "d"}]}}));
        assert!(!same(&plain, &other));
    }

    #[test]
    fn the_hash_is_stable_and_differs_by_collision() {
        let template = template(json!({"spec": {"containers": [{"name": "c"}]}}));
        assert_eq!(hash(&template, 0), hash(&template, 0));
        assert_ne!(hash(&template, 0), hash(&template, 1));
        assert!(hash(&template, 0).bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
    }
}
