//! What becomes of an object with owners. Without I/O.

use super::{FOREGROUND, propagation};
use controller_runtime::Propagation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It exists.
    There,
    /// It exists, and waits for its dependents to go.
    Waiting,
    /// It does not exist.
    Gone,
}

impl Owner {
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        let foreground = metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FOREGROUND);
        if metadata.deletion_timestamp.is_some() && foreground { Self::Waiting } else { Self::There }
    }
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Nothing.
    Keep,
    /// To take these owners off it.
    Drop(Vec<String>),
    /// To delete it.
    Delete(Propagation),
}

/// Judges an object by its owners, given by uid.
pub(super) fn verdict(metadata: &ObjectMeta, owners: &[(String, Owner)], has_dependents: bool) -> Verdict {
    let lost: Vec<String> =
        owners.iter().filter(|(_, owner)| *owner != Owner::There).map(|(uid, _)| uid.clone()).collect();
    if lost.is_empty() {
        return Verdict::Keep;
    }
    if lost.len() < owners.len() {
        return Verdict::Drop(lost);
    }
    let awaited = owners.iter().any(|(_, owner)| *owner == Owner::Waiting);
    match propagation(metadata) {
        // Who waits for this object waits for what depends on it, too.
        Propagation::Background if awaited && has_dependents => Verdict::Delete(Propagation::Foreground),
        propagation => Verdict::Delete(propagation),
    }
}
