//! The claims that a decision to provision becomes: names, addresses, owner.

use crate::observe::CLUSTER_LABEL;
use crate::options::Shape;
use crate::scale::Observation;
use api::{API_VERSION, Cluster, NODE_CLAIM_FINALIZER, NodeClaim, NodeClaimSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::fmt::Write;

/// Why no claim can be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The object has no uid or no logical cluster yet.
    #[error("the cluster has no identity yet")]
    NoIdentity,
    /// All Pod ranges are taken.
    #[error("all 256 Pod ranges of the cluster are taken")]
    NoRange,
}

/// Writes `count` claims, each with a node name and a Pod range of its own.
pub(super) fn claims(cluster: &Cluster, seen: &Observation, count: u32, shape: Shape) -> Result<Vec<NodeClaim>, Error> {
    let name = cluster.metadata.name.clone().ok_or(Error::NoIdentity)?;
    let uid = cluster.metadata.uid.clone().ok_or(Error::NoIdentity)?;
    let logical_cluster = cluster.status.logical_cluster.clone().ok_or(Error::NoIdentity)?;
    let mut taken: Vec<u8> = seen.claims.iter().filter_map(|claim| claim.pod_range).collect();
    let mut claims = Vec::new();
    for _ in 0..count {
        let range = (0..=u8::MAX).find(|range| !taken.contains(range)).ok_or(Error::NoRange)?;
        taken.push(range);
        let node_name = node_name(&name, rand::random());
        claims.push(NodeClaim {
            api_version: API_VERSION.to_owned(),
            kind: "NodeClaim".to_owned(),
            metadata: ObjectMeta {
                name: Some(node_name.clone()),
                labels: Some([(CLUSTER_LABEL.to_owned(), name.clone())].into()),
                finalizers: Some(vec![NODE_CLAIM_FINALIZER.to_owned()]),
                owner_references: Some(vec![OwnerReference {
                    api_version: API_VERSION.to_owned(),
                    kind: "Cluster".to_owned(),
                    name: name.clone(),
                    uid: uid.clone(),
                    controller: Some(true),
                    block_owner_deletion: None,
                }]),
                ..ObjectMeta::default()
            },
            spec: NodeClaimSpec {
                cluster_name: name.clone(),
                logical_cluster: logical_cluster.clone(),
                node_name,
                pod_cidr: format!("10.244.{range}.0/24"),
                cpus: i32::try_from(shape.cpus).unwrap_or(i32::MAX),
                memory_mi_b: i32::try_from(shape.memory_mib).unwrap_or(i32::MAX),
            },
            ..NodeClaim::default()
        });
    }
    Ok(claims)
}

/// `<cluster>-<5 characters>`, of the alphabet that Kubernetes uses for generated names.
fn node_name(cluster: &str, mut random: u32) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut name = format!("{cluster}-");
    for _ in 0..5 {
        let _ = name.write_char(char::from(ALPHABET[random as usize % ALPHABET.len()]));
        random /= ALPHABET.len() as u32;
    }
    name
}
