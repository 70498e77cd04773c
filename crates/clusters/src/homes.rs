//! Which `Cluster` object a logical cluster belongs to.

use api::Cluster;
use controller_runtime::{Change, Informer, ObjectKey};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Finds the `Cluster` of a logical cluster, kept current by the informer of clusters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Homes(Arc<RwLock<HashMap<Box<str>, ObjectKey>>>);

impl Homes {
    /// Follows an informer.
    pub(crate) fn of(clusters: &Informer<Cluster>) -> Self {
        let homes = Self::default();
        let follow = homes.clone();
        clusters.store().on_change(move |change| follow.note(change));
        homes
    }

    fn note(&self, change: &Change<Cluster>) {
        let Some(logical) = change.object().status.logical_cluster.as_deref() else { return };
        let mut homes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if change.after.is_some() {
            homes.insert(logical.into(), change.key.clone());
        } else {
            homes.remove(logical);
        }
    }

    /// The `Cluster` object of a logical cluster.
    pub(crate) fn of_logical(&self, logical: &str) -> Option<ObjectKey> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(logical).cloned()
    }
}
