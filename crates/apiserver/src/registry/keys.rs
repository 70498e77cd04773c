//! Where things are kept in the store.

use apimachinery::definition::GroupResource;
use bytes::Bytes;
use store::KeyRange;

/// Stands for "no namespace" in a key.
const NO_NAMESPACE: &str = "_";

/// What every key of a kind starts with.
pub(super) fn kind(resource: &GroupResource) -> String {
    let group = if resource.group.is_empty() { "core" } else { &resource.group };
    format!("r/{group}/{}/", resource.resource)
}

/// What every key of a kind in one cluster, and if given in one namespace, starts with.
pub(super) fn within(resource: &GroupResource, cluster: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{}{cluster}/{namespace}/", kind(resource)),
        None => format!("{}{cluster}/", kind(resource)),
    }
}

/// Key of an object inside its kind and cluster; it also orders lists.
pub(super) fn relative(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{name}", namespace.unwrap_or(NO_NAMESPACE))
}

/// Key of an object.
pub(super) fn object(resource: &GroupResource, cluster: &str, namespace: Option<&str>, name: &str) -> Bytes {
    format!("{}{}", within(resource, cluster, None), relative(namespace, name)).into()
}

/// Key of a logical cluster's record.
pub(super) fn logical_cluster(name: &str) -> Bytes {
    format!("{LOGICAL_CLUSTERS}{name}").into()
}

/// What the keys of all logical clusters' records start with.
pub(super) const LOGICAL_CLUSTERS: &str = "lc/";

/// Key that says that a logical cluster was purged.
pub(super) fn denied(name: &str) -> Bytes {
    format!("deny/{name}").into()
}

/// Key of an allocated Service address.
pub(super) fn address(cluster: &str, address: &str) -> Bytes {
    format!("ip/{cluster}/{address}").into()
}

/// Key of an allocated node port.
pub(super) fn port(cluster: &str, port: i64) -> Bytes {
    format!("port/{cluster}/{port}").into()
}

/// Ranges besides objects that belong to one cluster.
pub(super) fn cluster_ranges(cluster: &str) -> [KeyRange; 3] {
    ["ip", "port", "join"].map(|what| KeyRange::prefix(format!("{what}/{cluster}/")))
}

/// Whose key it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    /// Logical cluster.
    pub(super) cluster: &'a str,
    /// Namespace, if it has one.
    pub(super) namespace: Option<&'a str>,
    /// Name.
    pub(super) name: &'a str,
}

impl<'a> Place<'a> {
    /// Reads a key of `kind`.
    pub(super) fn parse(key: &'a [u8], kind: &str) -> Option<Self> {
        let mut parts = std::str::from_utf8(key).ok()?.strip_prefix(kind)?.splitn(3, '/');
        let (cluster, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { cluster, namespace: (namespace != NO_NAMESPACE).then_some(namespace), name })
    }
}
