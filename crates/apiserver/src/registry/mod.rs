//! The generic registry: every verb for every kind, over the store and the base layer.
//!
//! What the rest of the server calls:
//!
//! ```text
//! Registry::open(store, definitions, base, options)
//! registry.serve(&RequestContext, &HeaderMap, Bytes) -> Result<http::Response<Body>, ApiError>
//! registry.get(cluster, &GroupResource, namespace, name) -> Result<Option<Value>, ApiError>
//! registry.list(cluster, &GroupResource, namespace) -> Result<Vec<Value>, ApiError>
//! registry.definitions() -> &Definitions          by (group, version, resource) and audience
//! registry.logical_cluster(name) -> Result<Option<Arc<LogicalClusterRecord>>, ApiError>
//! registry.create_logical_cluster(..) / registry.purge_logical_cluster(name)
//! ```
