//! The claims that a decision becomes.

use super::{States, plan};
use crate::options::Shape;
use crate::scale::{Claim, ClaimState, Observation, State};
use api::Cluster;
use controller_runtime::ObjectKey;

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

#[test]
fn nothing_is_remembered_of_clusters_that_are_idle_or_gone() {
    let states = States::default();
    let key = |number: u32| ObjectKey::new("root", "", format!("cluster-{number}"));
    let holding = State { idle_since: Some(1), ..State::default() };
    (0..5000).for_each(|number| states.remember(&key(number), holding.clone()));
    assert_eq!(states.of(&key(7)), holding);
    (0..5000).for_each(|number| states.remember(&key(number), State::default()));
    let map = states.0.lock().unwrap();
    assert!(map.is_empty() && map.capacity() < 100, "{}", map.capacity());
}
