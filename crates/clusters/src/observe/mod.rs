//! Reading one cluster for its scale decision: every list is of the same revision.

mod convert;
#[cfg(test)]
mod tests;

pub(crate) use convert::claim;

use crate::scale::{Observation, WorkloadKind};
use api::NodeClaim;
use controller_runtime::{ApiKind, ApiResource, BoxError, Client};
use convert::Chain;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::Deserialize;

/// The label of a claim that names its `Cluster`.
pub(crate) const CLUSTER_LABEL: &str = "socialweb.computer/cluster";

/// Reads a cluster and its claims. A list that fails is an error, never an empty observation: an
/// unreadable cluster is not an idle one.
pub(crate) async fn observe(tenant: &Client, home: &Client, cluster: &str) -> Result<Observation, BoxError> {
    let (nodes, revision) = list::<Node>(tenant, "", None).await?;
    let at = Some(revision.as_str());
    let claims = list::<NodeClaim>(home, &format!("labelSelector={CLUSTER_LABEL}%3D{cluster}&"), at).await?.0;
    let replica_sets = list::<ReplicaSet>(tenant, "", at).await?.0;
    let mut workloads = Vec::new();
    for deployment in list::<Deployment>(tenant, "", at).await?.0 {
        workloads.push(convert::deployment(&deployment));
    }
    workloads.extend(replica_sets.iter().filter_map(convert::replica_set));
    for daemon_set in list::<DaemonSet>(tenant, "", at).await?.0 {
        workloads.push(convert::daemon_set(&daemon_set));
    }
    for job in list::<Job>(tenant, "", at).await?.0 {
        workloads.push(convert::job(&job));
    }
    let chain = Chain::of(&replica_sets);
    let pods = list::<Pod>(tenant, "", at).await?.0.iter().map(|pod| convert::pod(pod, &chain)).collect();
    workloads.sort_by(|a, b| a.key.cmp(&b.key));
    debug_assert!(workloads.iter().all(|w| w.key.kind != WorkloadKind::DaemonSet || w.wants == 0));
    Ok(Observation {
        nodes: nodes.iter().map(convert::node).collect(),
        claims: claims.iter().map(convert::claim).collect(),
        workloads,
        pods,
    })
}

#[derive(Deserialize)]
struct Page<K> {
    metadata: PageMetadata,
    items: Vec<K>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: String,
}

/// Lists a kind in every namespace, exactly as it was at a revision, or as it is now.
async fn list<K: ApiResource>(client: &Client, select: &str, at: Option<&str>) -> Result<(Vec<K>, String), BoxError> {
    let path = ApiKind::of::<K>().path("");
    let limit = client.options().page_size;
    let mut objects = Vec::new();
    let exact = at.map_or(String::new(), |at| format!("&resourceVersion={at}&resourceVersionMatch=Exact"));
    let mut query = format!("{path}?{select}limit={limit}{exact}");
    loop {
        let page: Page<K> = client.get_json(&query).await?;
        objects.extend(page.items);
        if page.metadata.next.is_empty() {
            return Ok((objects, page.metadata.resource_version));
        }
        query = format!("{path}?{select}limit={limit}&continue={}", page.metadata.next);
    }
}
