//! Owner references, selectors and conditions, as all controllers use them.

use apimachinery::selector::LabelSelector;
use controller_runtime::{ApiResource, Change, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self, ObjectMeta, OwnerReference};
use std::collections::BTreeMap;

/// The reference to the object that controls it.
pub(crate) fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether the object with that uid controls it.
pub(crate) fn is_controlled_by(metadata: &ObjectMeta, uid: &str) -> bool {
    controller_of(metadata).is_some_and(|owner| owner.uid == uid)
}

/// The reference by which `owner` controls another object.
pub(crate) fn controller_reference<K: ApiResource>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::API_VERSION.to_owned(),
        kind: K::KIND.to_owned(),
        name: owner.metadata().name.clone().unwrap_or_default(),
        uid: uid(owner.metadata()).to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The keys of the controllers of that kind, before and after a change.
pub(crate) fn controllers<K: ApiResource>(change: &Change<K>, kind: &str) -> Vec<ObjectKey> {
    let mut keys = Vec::new();
    for object in [&change.before, &change.after].into_iter().flatten() {
        if let Some(owner) = controller_of(object.metadata()).filter(|owner| owner.kind == kind) {
            let key = change.key.sibling(&owner.name);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys
}

/// The uid, empty when there is none.
pub(crate) fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

/// The name, empty when there is none.
pub(crate) fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// The labels, which may be absent.
pub(crate) fn labels(metadata: &ObjectMeta) -> &BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    metadata.labels.as_ref().unwrap_or(&NONE)
}

/// An annotation.
pub(crate) fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// A selector that can be asked. One that breaks the rules selects nothing, and so does an empty
/// one: no workload owns every Pod of its namespace.
pub(crate) fn selector(selector: &v1::LabelSelector) -> LabelSelector {
    serde_json::to_value(selector)
        .ok()
        .and_then(|value| LabelSelector::from_object(&value).ok())
        .filter(|selector| !selector.is_everything())
        .unwrap_or_else(LabelSelector::nothing)
}

/// What a controller does about the objects that its owner may control.
#[derive(Debug)]
pub(crate) struct Claims<T> {
    /// Controlled and selected.
    pub(crate) owned: Vec<T>,
    /// Selected, and controlled by nothing: to be adopted.
    pub(crate) adopt: Vec<T>,
    /// Controlled and no longer selected: to be released.
    pub(crate) release: Vec<T>,
}

/// Sorts what is in the owner's namespace. Objects that are being deleted are neither adopted nor
/// released; an owner that is being deleted adopts nothing.
pub(crate) fn claim<T>(
    owner: &ObjectMeta,
    selector: &LabelSelector,
    objects: Vec<T>,
    metadata: impl Fn(&T) -> &ObjectMeta,
) -> Claims<T> {
    let mut claims = Claims { owned: Vec::new(), adopt: Vec::new(), release: Vec::new() };
    for object in objects {
        let of = metadata(&object);
        let selected = selector.matches(labels(of));
        match controller_of(of) {
            Some(controller) if controller.uid == uid(owner) => {
                if selected {
                    claims.owned.push(object);
                } else if of.deletion_timestamp.is_none() && owner.deletion_timestamp.is_none() {
                    claims.release.push(object);
                }
            }
            Some(_) => {}
            None if selected && of.deletion_timestamp.is_none() && owner.deletion_timestamp.is_none() => {
                claims.adopt.push(object);
            }
            None => {}
        }
    }
    claims
}
