//! What every namespace has: the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`.
//!
//! The namespaces that every cluster has from birth are in the base layer, with theirs; a stored
//! namespace is one that a user made, or changed.

use crate::context::Context;
use async_trait::async_trait;
use controller_runtime::{Action, BoxError, Client, ClientError, Controller, ObjectKey, Patch, Reconciler, Store};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use runtime::TaskSet;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

const ACCOUNT: &str = "default";
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";
const ROOT_CA_KEY: &str = "ca.crt";
const DESCRIPTION: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
     internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
     clusters.",
);

pub(crate) fn start(context: &Context, tasks: &mut TaskSet) {
    let namespaces = context.informers.of::<Namespace>();
    let accounts = context.informers.of::<ServiceAccount>();
    let maps = context.informers.of::<ConfigMap>();
    let reconciler = Contents {
        client: context.client.clone(),
        namespaces: namespaces.store().clone(),
        accounts: accounts.store().clone(),
        maps: maps.store().clone(),
        root_ca_pem: context.options.root_ca_pem.clone(),
    };
    let of = |key: &ObjectKey| ObjectKey { namespace: "".into(), name: key.namespace.clone(), ..key.clone() };
    Controller::new("serviceaccounts", context.options.controller)
        .primary(&namespaces)
        .watch(&accounts, move |change| {
            let lost = &*change.key.name == ACCOUNT && change.after.is_none();
            if lost { vec![of(&change.key)] } else { Vec::new() }
        })
        .watch(&maps, move |change| if &*change.key.name == ROOT_CA { vec![of(&change.key)] } else { Vec::new() })
        .spawn(tasks, Arc::new(reconciler));
}

struct Contents {
    client: Client,
    namespaces: Store<Namespace>,
    accounts: Store<ServiceAccount>,
    maps: Store<ConfigMap>,
    root_ca_pem: String,
}

#[async_trait]
impl Reconciler for Contents {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, BoxError> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(Action::Done) };
        if namespace.metadata.deletion_timestamp.is_some() {
            return Ok(Action::Done);
        }
        match self.fill(key).await {
            Err(error) if error.is_gone() => Ok(Action::Done),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(Action::Done),
        }
    }
}

impl Contents {
    async fn fill(&self, key: &ObjectKey) -> Result<(), ClientError> {
        let client = self.client.cluster(key.cluster.clone());
        let inside = |name: &str| ObjectKey::new(key.cluster.clone(), key.name.clone(), name);
        if self.accounts.get(&inside(ACCOUNT)).is_none() {
            let account = ServiceAccount { metadata: named(&key.name, ACCOUNT), ..ServiceAccount::default() };
            match client.create(&account).await {
                Ok(account) => self.accounts.observe(&key.cluster, &account),
                Err(error) if error.is_already_exists() => {}
                Err(error) => return Err(error),
            }
        }
        let data = BTreeMap::from([(ROOT_CA_KEY.to_owned(), self.root_ca_pem.clone())]);
        match self.maps.get(&inside(ROOT_CA)) {
            Some(map) if map.data.as_ref() == Some(&data) => {}
            Some(map) => {
                let patch = json!([{"op": "add", "path": "/data", "value": data}]);
                let patched = client.patch(&key.name, crate::meta::name(&map.metadata), &Patch::Json(patch)).await?;
                self.maps.observe(&key.cluster, &patched);
            }
            None => {
                let mut metadata = named(&key.name, ROOT_CA);
                metadata.annotations = Some(BTreeMap::from([(DESCRIPTION.0.to_owned(), DESCRIPTION.1.to_owned())]));
                let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
                match client.create(&map).await {
                    Ok(map) => self.maps.observe(&key.cluster, &map),
                    // The base layer has it, or it is not seen yet.
                    Err(error) if error.is_already_exists() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

fn named(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() }
}

#[cfg(test)]
mod tests;
