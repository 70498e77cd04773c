//! Writes the Endpoints and EndpointSlices of Services.

use super::addresses::{ready, selected, selector};
use super::slices::{MANAGED_BY, MANAGED_BY_LABEL, SERVICE_LABEL, plan_slices};
use super::subsets::endpoints;
use async_trait::async_trait;
use controller_runtime::{
    Action, Change, Client, ClientError, Controller, ControllerOptions, DeleteOptions, Informers, ObjectKey,
    Reconciler, Store,
};
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use runtime::{BoxError, TaskSet};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The index of slices by the Service that they are of.
const BY_SERVICE: &str = "endpoints.service";
/// Where a node's zone is.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// How Endpoints say that this controller made them, in all their versions.
const MANAGED: &str = "endpoints.kubernetes.io/managed-by";

/// Limits.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Of the workers and the queue.
    pub controller: ControllerOptions,
    /// Endpoints in one slice.
    pub max_endpoints_per_slice: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { controller: ControllerOptions::default(), max_endpoints_per_slice: 100 }
    }
}

/// Starts the controller.
pub fn spawn(client: &Client, informers: &Informers, options: Options, tasks: &mut TaskSet) {
    let (services, pods, nodes) = (informers.of::<Service>(), informers.of::<Pod>(), informers.of::<Node>());
    let (known, slices) = (informers.of::<Endpoints>(), informers.of::<EndpointSlice>());
    slices.store().add_index(BY_SERVICE, |slice| of_service(slice).into_iter().collect());
    let maintainer = Maintainer {
        client: client.clone(),
        services: services.store().clone(),
        pods: pods.store().clone(),
        nodes: nodes.store().clone(),
        endpoints: known.store().clone(),
        slices: slices.store().clone(),
        options,
    };
    let all = services.store().clone();
    Controller::new("endpoints", options.controller)
        .primary(&services)
        .watch(&pods, move |change| services_to_look_at(change, &all))
        .watch(&known, |change| vec![change.key.clone()])
        .watch(&slices, |change| {
            let names = change.before.iter().chain(&change.after).filter_map(|slice| of_service(slice));
            let names: BTreeSet<String> = names.filter_map(|name| Some(name.split_once('/')?.1.to_owned())).collect();
            names.iter().map(|name| change.key.sibling(name)).collect()
        })
        .require(&nodes)
        .spawn(tasks, Arc::new(maintainer));
}

/// `namespace/name` of the Service of a slice that is ours.
fn of_service(slice: &EndpointSlice) -> Option<String> {
    let labels = slice.metadata.labels.as_ref()?;
    let ours = labels.get(MANAGED_BY_LABEL).is_some_and(|manager| manager == MANAGED_BY);
    let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
    labels.get(SERVICE_LABEL).filter(|_| ours).map(|name| format!("{namespace}/{name}"))
}

/// The Services whose endpoints a change of a Pod may change.
pub(super) fn services_to_look_at(change: &Change<Pod>, services: &Store<Service>) -> Vec<ObjectKey> {
    if let (Some(before), Some(after)) = (&change.before, &change.after)
        && !matters(before, after)
    {
        return Vec::new();
    }
    let key = &change.key;
    let selects = |service: &Arc<Service>| change.before.iter().chain(&change.after).any(|pod| selected(service, pod));
    let of_namespace = services.in_namespace(&key.cluster, &key.namespace);
    of_namespace
        .iter()
        .filter(|service| selects(service))
        .filter_map(|service| Some(key.sibling(service.metadata.name.as_deref()?)))
        .collect()
}

fn matters(before: &Pod, after: &Pod) -> bool {
    let seen = |pod: &Pod| {
        let status = pod.status.as_ref();
        (
            pod.metadata.uid.clone(),
            pod.metadata.deletion_timestamp.is_some(),
            status.and_then(|status| status.pod_ip.clone()),
            status.and_then(|status| status.pod_ips.clone()),
            status.and_then(|status| status.phase.clone()),
            ready(pod),
        )
    };
    before.metadata.labels != after.metadata.labels || before.spec != after.spec || seen(before) != seen(after)
}

struct Maintainer {
    client: Client,
    services: Store<Service>,
    pods: Store<Pod>,
    nodes: Store<Node>,
    endpoints: Store<Endpoints>,
    slices: Store<EndpointSlice>,
    options: Options,
}

impl Maintainer {
    async fn write_endpoints(&self, key: &ObjectKey, service: &Service, pods: &[Arc<Pod>]) -> Result<(), ClientError> {
        let client = self.client.cluster(key.cluster.clone());
        let known = self.endpoints.get(key);
        let mut wanted = endpoints(service, pods, known.as_deref());
        let written = match known {
            None => client.create(&wanted).await?,
            Some(known) => {
                let same = known.metadata.labels == wanted.metadata.labels
                    && known.metadata.annotations == wanted.metadata.annotations
                    && known.subsets.as_deref().unwrap_or_default() == wanted.subsets.as_deref().unwrap_or_default();
                if same {
                    return Ok(());
                }
                let (labels, annotations) = (wanted.metadata.labels.take(), wanted.metadata.annotations.take());
                wanted.metadata = known.metadata.clone();
                (wanted.metadata.labels, wanted.metadata.annotations) = (labels, annotations);
                client.update(&wanted).await?
            }
        };
        self.endpoints.observe(&key.cluster, &written);
        Ok(())
    }

    async fn write_slices(&self, key: &ObjectKey, service: &Service, pods: &[Arc<Pod>]) -> Result<(), ClientError> {
        let client = self.client.cluster(key.cluster.clone());
        let zone = |node: &str| {
            let node = self.nodes.get(&ObjectKey::new(key.cluster.clone(), "", node))?;
            node.metadata.labels.as_ref()?.get(ZONE_LABEL).cloned()
        };
        let plan = plan_slices(service, pods, zone, &self.slices_of(key), self.options.max_endpoints_per_slice);
        // Created first, so that no endpoint is nowhere meanwhile.
        for slice in &plan.create {
            let created = client.create(slice).await?;
            self.slices.observe(&key.cluster, &created);
        }
        for slice in &plan.update {
            let updated = client.update(slice).await?;
            self.slices.observe(&key.cluster, &updated);
        }
        for slice in &plan.delete {
            self.delete_slice(&client, key, slice).await?;
        }
        Ok(())
    }

    fn slices_of(&self, key: &ObjectKey) -> Vec<Arc<EndpointSlice>> {
        let all = self.slices.indexed(BY_SERVICE, &key.cluster, &format!("{}/{}", key.namespace, key.name));
        let there = all.into_iter().map(|(_, slice)| slice);
        there.filter(|slice| slice.metadata.deletion_timestamp.is_none()).collect()
    }

    async fn delete_slice(&self, client: &Client, key: &ObjectKey, slice: &EndpointSlice) -> Result<(), ClientError> {
        let name = slice.metadata.name.as_deref().unwrap_or_default();
        let uid = slice.metadata.uid.as_deref().unwrap_or_default();
        match client.delete::<EndpointSlice>(&key.namespace, name, &DeleteOptions::of_uid(uid)).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
            _ => {
                self.slices.doom(&key.sibling(name), uid);
                Ok(())
            }
        }
    }

    /// Removes what was made for a Service that is gone, or that no longer selects Pods.
    async fn clean(&self, key: &ObjectKey, gone: bool) -> Result<(), ClientError> {
        let client = self.client.cluster(key.cluster.clone());
        for slice in self.slices_of(key) {
            self.delete_slice(&client, key, &slice).await?;
        }
        // Endpoints that someone else keeps have no such label.
        let known = self.endpoints.get(key).filter(|known| {
            gone && known.metadata.deletion_timestamp.is_none()
                && known.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(MANAGED))
        });
        if let Some(known) = known {
            let uid = known.metadata.uid.as_deref().unwrap_or_default();
            match client.delete::<Endpoints>(&key.namespace, &key.name, &DeleteOptions::of_uid(uid)).await {
                Err(error) if !error.is_not_found() && !error.is_conflict() => return Err(error),
                _ => self.endpoints.doom(key, uid),
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Reconciler for Maintainer {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, BoxError> {
        let service = self.services.get(key).filter(|service| service.metadata.deletion_timestamp.is_none());
        let Some(service) = service else {
            self.clean(key, true).await?;
            return Ok(Action::Done);
        };
        if selector(&service).is_none() {
            // Endpoints of such a Service are someone else's now.
            self.clean(key, false).await?;
            return Ok(Action::Done);
        }
        let mut pods = self.pods.in_namespace(&key.cluster, &key.namespace);
        pods.retain(|pod| selected(&service, pod));
        let result = async {
            self.write_endpoints(key, &service, &pods).await?;
            self.write_slices(key, &service, &pods).await
        };
        match result.await {
            // Its namespace or its cluster is going, and everything in it; or someone removed what was to be
            // changed, and the watch will tell.
            Err(error) if error.is_gone() => Ok(Action::Done),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(Action::Done),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What a refused write means.

    use super::*;
    use apimachinery::status::ApiError;
    use bytes::Bytes;
    use controller_runtime::{Body, Transport};
    use http::{Request, Response};
    use http_body_util::{BodyExt as _, Full};

    /// Refuses everything.
    struct Refusing(ApiError);

    #[async_trait]
    impl Transport for Refusing {
        async fn send(&self, _: Request<Bytes>) -> Result<Response<Body>, BoxError> {
            let body = Full::new(Bytes::from(self.0.to_status().to_string())).map_err(|never| match never {});
            Ok(Response::builder().status(self.0.code).body(Body::new(body))?)
        }
    }

    async fn reconcile_against(refusal: ApiError) -> Result<Action, BoxError> {
        let services = Store::new();
        let service = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "1"},
            "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]},
        }));
        services.apply(&"c".into(), service.unwrap());
        let maintainer = Maintainer {
            client: Client::new(Arc::new(Refusing(refusal)), "c"),
            services,
            pods: Store::new(),
            nodes: Store::new(),
            endpoints: Store::new(),
            slices: Store::new(),
            options: Options::default(),
        };
        maintainer.reconcile(&ObjectKey::new("c", "n", "s")).await
    }

    /// The cluster is purged before the informer tells that its Service is gone.
    #[tokio::test]
    async fn a_cluster_that_is_gone_needs_no_endpoints() {
        let purged = ApiError::new(404, "NotFound", "logical cluster \"c\" not found");
        assert_eq!(reconcile_against(purged).await.unwrap(), Action::Done);
        let terminating = ApiError::forbidden("", "endpoints", "s", "terminating")
            .with_details(serde_json::json!({"causes": [{"reason": "NamespaceTerminating"}]}));
        assert_eq!(reconcile_against(terminating).await.unwrap(), Action::Done);
        reconcile_against(ApiError::internal("no")).await.unwrap_err();
        reconcile_against(ApiError::forbidden("", "endpoints", "s", "no")).await.unwrap_err();
    }
}
