//! Which `Cluster` object a logical cluster belongs to.

use api::Cluster;
use controller_runtime::{Change, Informer, ObjectKey};
use runtime::Shrink;
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
            homes.shrink_if_sparse();
        }
    }

    /// The `Cluster` object of a logical cluster.
    pub(crate) fn of_logical(&self, logical: &str) -> Option<ObjectKey> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(logical).cloned()
    }
}

#[cfg(test)]
mod tests {
    //! What stays of clusters that are gone.

    use super::*;

    #[test]
    fn nothing_is_kept_of_clusters_that_are_gone() {
        let homes = Homes::default();
        let key = |number: u32| ObjectKey::new("root", "", format!("cluster-{number}"));
        let change = |number: u32, there: bool| {
            let mut cluster = Cluster::default();
            cluster.status.logical_cluster = Some(format!("cluster-{number}-0123abcd"));
            let cluster = Some(Arc::new(cluster));
            let (before, after) = if there { (None, cluster) } else { (cluster, None) };
            Change { key: key(number), before, after }
        };
        (0..5000).for_each(|number| homes.note(&change(number, true)));
        assert_eq!(homes.of_logical("cluster-7-0123abcd"), Some(key(7)));
        (0..5000).for_each(|number| homes.note(&change(number, false)));
        let map = homes.0.read().unwrap();
        assert!(map.is_empty() && map.capacity() < 100, "{}", map.capacity());
    }
}
