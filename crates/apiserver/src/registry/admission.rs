//! Reads what decides about a new Pod, and lets `apimachinery` decide.

use super::write::Target;
use super::{Kind, Registry};
use crate::registry::logical::LogicalClusterRecord;
use apimachinery::builtin::admission::{admit_pod, pod_needs};
use apimachinery::definition::GroupResource;
use apimachinery::status::ApiError;
use serde_json::Value;

/// Whether a kind's objects are Pods.
fn is_pod(kind: &Kind) -> bool {
    kind.resource().group.is_empty() && kind.resource().resource == "pods"
}

impl Registry {
    /// Completes a new object that was prepared with what other objects say of it.
    pub(super) async fn admit_create(
        &self,
        record: &LogicalClusterRecord,
        kind: &Kind,
        namespace: Option<&str>,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        if !is_pod(kind) {
            return Ok(());
        }
        let needs = pod_needs(object);
        let account = self.named(record, "", "serviceaccounts", namespace, needs.service_account).await?;
        let class = self.named(record, "scheduling.k8s.io", "priorityclasses", None, needs.priority_class).await?;
        let name = super::meta::field(object, "name").to_owned();
        admit_pod(object, account.as_ref(), class.as_ref()).map_err(|why| ApiError::forbidden("", "pods", &name, &why))
    }

    /// Reads an object of a built-in kind; `None` without a name.
    async fn named(
        &self,
        record: &LogicalClusterRecord,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<Option<Value>, ApiError> {
        let resource = GroupResource { group: group.to_owned(), resource: resource.to_owned() };
        let (Some(name), Some(kind)) = (name, self.definitions().resource(&resource)) else {
            return Ok(None);
        };
        Ok(self.slot(&Target { record, kind, namespace, name }).await?.value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::logical::{LogicalClusterKind, new_authority};
    use super::super::{Options, Registry};
    use apimachinery::builtin;
    use apimachinery::builtin::base::{self, BaseParams};
    use apimachinery::definition::GroupResource;
    use apimachinery::status::ApiError;
    use serde_json::{Value, json};
    use std::sync::Arc;

    async fn create(registry: &Registry, group: &str, resource: &str, object: Value) -> Result<Value, ApiError> {
        let resource = GroupResource { group: group.into(), resource: resource.into() };
        let kind = registry.definitions().resource(&resource).unwrap().clone();
        let record = registry.logical_cluster("c").await.unwrap().unwrap();
        let namespace = kind.is_namespaced().then_some("default");
        registry.create(&record, &kind, namespace, object, false).await
    }

    fn pod(name: &str, mut spec: Value) -> Value {
        spec["containers"] = json!([{"name": "c", "image": "i"}]);
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    }

    #[tokio::test]
    async fn pods_get_what_their_account_and_class_say() {
        let store = Arc::new(store::memory::Memory::new(store::memory::Options::default()));
        let params = BaseParams {
            root_ca_pem: "pem".into(),
            kubernetes_ip: [10, 96, 0, 1].into(),
            dns_ip: [10, 96, 0, 10].into(),
            api_server_port: 6443,
        };
        let registry =
            Registry::open(store, builtin::definitions(), base::objects(&params), Options::default()).unwrap();
        registry.create_logical_cluster("c", LogicalClusterKind::Cluster, new_authority("c").unwrap()).await.unwrap();

        let plain = create(&registry, "", "pods", pod("plain", json!({}))).await.unwrap();
        assert_eq!(plain["spec"]["serviceAccountName"], "default");
        assert!(plain["spec"]["volumes"][0]["name"].as_str().unwrap().starts_with("kube-api-access-"));
        assert_eq!(plain["spec"]["priority"], 0);

        let silent = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "silent"},
            "automountServiceAccountToken": false,
        });
        create(&registry, "", "serviceaccounts", silent).await.unwrap();
        let spec = json!({"serviceAccountName": "silent", "priorityClassName": "system-node-critical"});
        let silent = create(&registry, "", "pods", pod("silent", spec)).await.unwrap();
        assert!(silent["spec"].get("volumes").is_none());
        assert_eq!(silent["spec"]["priority"], 2_000_001_000);

        for spec in [json!({"serviceAccountName": "absent"}), json!({"priorityClassName": "absent"})] {
            assert_eq!(create(&registry, "", "pods", pod("p", spec)).await.unwrap_err().code, 403);
        }
    }
}
