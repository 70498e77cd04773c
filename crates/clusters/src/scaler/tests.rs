//! The claims that a decision becomes.

use super::plan;
use crate::options::Shape;
use crate::scale::{Claim, ClaimState, Observation};
use api::Cluster;

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.metadata.name = Some("dev".to_owned());
    cluster.metadata.uid = Some("u".to_owned());
    cluster.status.logical_cluster = Some("dev-12345678".to_owned());
    cluster
}

#[test]
fn each_claim_has_a_name_and_the_lowest_free_range_of_its_own() {
    let held = |range| Claim {
        name: format!("dev-{range}"),
        node: format!("dev-{range}"),
        pod_range: Some(range),
        state: ClaimState::Releasing,
        message: String::new(),
        expiry: None,
    };
    let seen = Observation { claims: vec![held(0), held(2)], ..Observation::default() };
    let claims = plan::claims(&cluster(), &seen, 2, Shape { cpus: 1, memory_mib: 512 }).unwrap();
    let ranges: Vec<&str> = claims.iter().map(|claim| claim.spec.pod_cidr.as_str()).collect();
    assert_eq!(ranges, ["10.244.1.0/24", "10.244.3.0/24"], "a machine that goes still has its range");
    assert_ne!(claims[0].spec.node_name, claims[1].spec.node_name);
    assert!(claims.iter().all(|claim| claim.spec.node_name.len() == "dev-".len() + 5));
    assert!(claims.iter().all(|claim| claim.metadata.owner_references.as_ref().is_some_and(|o| o[0].uid == "u")));
}

#[test]
fn no_claim_without_a_free_range_or_an_identity() {
    let shape = Shape { cpus: 1, memory_mib: 512 };
    assert!(plan::claims(&cluster(), &Observation::default(), 257, shape).is_err());
    assert_eq!(plan::claims(&cluster(), &Observation::default(), 256, shape).unwrap().len(), 256);
    assert!(plan::claims(&Cluster::default(), &Observation::default(), 1, shape).is_err());
}
