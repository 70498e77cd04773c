//! `ObjectKey`: which object of which logical cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::fmt;
use std::sync::Arc;

/// The annotation with which an object of a wildcard list or watch says its logical cluster.
pub const CLUSTER_ANNOTATION: &str = "kcp.io/cluster";

/// Names one object of one kind. Ordered by cluster, namespace and name. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Logical cluster.
    pub cluster: Arc<str>,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of that object.
    pub fn new(cluster: impl Into<Arc<str>>, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { cluster: cluster.into(), namespace: namespace.into(), name: name.into() }
    }

    /// The key of the object with that metadata in `cluster`.
    pub fn of(cluster: impl Into<Arc<str>>, metadata: &ObjectMeta) -> Self {
        Self::new(
            cluster,
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }

    /// Another object in the same namespace of the same cluster.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        Self { cluster: self.cluster.clone(), namespace: self.namespace.clone(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}|{}", self.cluster, self.name)
        } else {
            write!(f, "{}|{}/{}", self.cluster, self.namespace, self.name)
        }
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
