//! Short forms on `Client` for kinds known at compile time.

use super::{Client, ClientError, DeleteOptions, ListOptions, Patch};
use crate::ApiResource;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// Every method's errors are as [`ClientError`] says; `namespace` is empty for cluster-scoped kinds.
impl Client {
    /// Gets an object; `None` when there is none of that name.
    pub async fn get<K: ApiResource>(&self, namespace: &str, name: &str) -> Result<Option<K>, ClientError> {
        self.resource().get(namespace, name).await
    }

    /// Lists objects; an empty namespace is all of them.
    pub async fn list<K: ApiResource>(&self, namespace: &str, options: &ListOptions) -> Result<Vec<K>, ClientError> {
        self.resource().list(namespace, options).await
    }

    /// Creates an object in the namespace that its metadata names.
    pub async fn create<K: ApiResource>(&self, object: &K) -> Result<K, ClientError> {
        self.resource().create(namespace_of(object), object).await
    }

    /// Replaces an object, if it is still at the version that its metadata names.
    pub async fn update<K: ApiResource>(&self, object: &K) -> Result<K, ClientError> {
        self.resource().update(namespace_of(object), name_of(object), object).await
    }

    /// Replaces an object's status, if it is still at the version that its metadata names.
    pub async fn update_status<K: ApiResource>(&self, object: &K) -> Result<K, ClientError> {
        self.resource().update_subresource(namespace_of(object), name_of(object), "status", object).await
    }

    /// Patches an object.
    pub async fn patch<K: ApiResource>(&self, namespace: &str, name: &str, patch: &Patch) -> Result<K, ClientError> {
        self.resource().patch(namespace, name, patch).await
    }

    /// Patches an object's status.
    pub async fn patch_status<K: ApiResource>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Patch,
    ) -> Result<K, ClientError> {
        self.resource().patch_subresource(namespace, name, "status", patch).await
    }

    /// Deletes an object, or marks it for deletion when it has finalizers or a grace period.
    pub async fn delete<K: ApiResource>(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), ClientError> {
        self.resource::<K>().delete(namespace, name, options).await
    }

    /// Deletes every object that `which` selects.
    pub async fn delete_collection<K: ApiResource>(
        &self,
        namespace: &str,
        which: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), ClientError> {
        self.resource::<K>().delete_collection(namespace, which, options).await
    }

    /// Binds a Pod to a node, if it is still the Pod with that uid.
    pub async fn bind_pod(&self, namespace: &str, name: &str, uid: &str, node: &str) -> Result<(), ClientError> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        self.resource::<Pod>().create_subresource(namespace, name, "binding", &binding).await.map(drop)
    }

    /// Evicts a Pod, which a disruption budget may refuse
    /// ([`is_too_many_requests`](ClientError::is_too_many_requests)).
    pub async fn evict(&self, namespace: &str, name: &str, options: &DeleteOptions) -> Result<(), ClientError> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": serde_json::to_value(options).map_err(ClientError::Encode)?,
        });
        self.resource::<Pod>().create_subresource(namespace, name, "eviction", &eviction).await.map(drop)
    }
}

fn namespace_of<K: ApiResource>(object: &K) -> &str {
    object.metadata().namespace.as_deref().unwrap_or_default()
}

fn name_of<K: ApiResource>(object: &K) -> &str {
    object.metadata().name.as_deref().unwrap_or_default()
}
