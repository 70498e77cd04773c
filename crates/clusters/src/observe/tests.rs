//! From Kubernetes objects to the observation, as tables.

use super::convert::{self, Chain};
use crate::scale::{ClaimState, Resources, WorkloadKey, WorkloadKind};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_pod_is_of_the_workload_at_the_top_of_its_chain() {
    let controlled = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true}]);
    let set: ReplicaSet = object(
        json!({"metadata": {"name": "web-1", "namespace": "a", "ownerReferences": controlled("Deployment", "web")}, "spec": {"selector": {}}}),
    );
    let bare: ReplicaSet = object(json!({"metadata": {"name": "bare", "namespace": "a"}, "spec": {"selector": {}}}));
    assert!(convert::replica_set(&set).is_none());
    assert_eq!(convert::replica_set(&bare).map(|workload| workload.wants), Some(1));
    let chain = Chain::of(&[set, bare]);
    for (kind, name, want, follows) in [
        ("ReplicaSet", "web-1", Some((WorkloadKind::Deployment, "web")), false),
        ("ReplicaSet", "bare", Some((WorkloadKind::ReplicaSet, "bare")), false),
        ("DaemonSet", "ds", Some((WorkloadKind::DaemonSet, "ds")), true),
        ("Job", "j", Some((WorkloadKind::Job, "j")), false),
        ("Custom", "c", None, false),
    ] {
        let pod: Pod =
            object(json!({"metadata": {"name": "p", "namespace": "a", "ownerReferences": controlled(kind, name)}}));
        let got = convert::pod(&pod, &chain);
        let want = want.map(|(kind, name)| WorkloadKey { kind, namespace: "a".to_owned(), name: name.to_owned() });
        assert_eq!((got.workload, got.follows_node), (want, follows), "{kind} {name}");
    }
}

#[test]
fn a_job_wants_what_it_may_still_run() {
    for (spec, status, wants) in [
        (json!({}), json!({}), 1),
        (json!({"parallelism": 3, "completions": 5}), json!({"succeeded": 3}), 2),
        (json!({"parallelism": 3, "completions": 5}), json!({"succeeded": 1}), 3),
        (json!({"suspend": true}), json!({}), 0),
        (json!({}), json!({"conditions": [{"type": "Complete", "status": "True"}]}), 0),
        (json!({"parallelism": 2}), json!({"succeeded": 1, "active": 1}), 1),
    ] {
        let mut spec = spec;
        spec["template"] = json!({});
        let job: Job = object(json!({"metadata": {"name": "j"}, "spec": spec, "status": status}));
        assert_eq!(convert::job(&job).wants, wants, "{spec} {status}");
    }
}

#[test]
fn requests_are_what_the_scheduler_counts() {
    let container =
        |cpu: &str, memory: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}});
    let mut init = container("2", "1Mi");
    let pod: Pod = object(json!({"spec": {
        "initContainers": [init], "containers": [container("100m", "64Mi"), container("0.2", "1Gi")],
    }}));
    let chain = Chain::of(&[]);
    assert_eq!(convert::pod(&pod, &chain).requests, Resources { cpu_milli: 2000, memory: (1 << 30) + (64 << 20) });
    init = container("50m", "1Mi");
    init["restartPolicy"] = json!("Always");
    let pod: Pod = object(json!({"spec": {"initContainers": [init], "containers": [container("100m", "1Mi")]}}));
    assert_eq!(convert::pod(&pod, &chain).requests, Resources { cpu_milli: 150, memory: 2 << 20 });
}

#[test]
fn a_pod_that_names_a_node_is_incoming_there() {
    let affinity = |term: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
    for (spec, want) in [
        (json!({"nodeSelector": {"kubernetes.io/hostname": "n"}}), Some("n")),
        (
            json!({"affinity": affinity(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}))}),
            Some("n"),
        ),
        (
            json!({"affinity": affinity(json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n", "m"]}]}))}),
            None,
        ),
        (json!({}), None),
    ] {
        let mut spec = spec;
        spec["containers"] = json!([]);
        let pod: Pod = object(json!({"spec": spec}));
        assert_eq!(convert::pod(&pod, &Chain::of(&[])).names_node.as_deref(), want);
    }
}

#[test]
fn a_node_without_a_ready_condition_is_not_lost() {
    let node = |conditions: Value| convert::node(&object::<Node>(json!({"status": {"conditions": conditions}})));
    assert_eq!(node(json!([])).not_ready_since, None);
    let unknown = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": "1970-01-01T00:01:00Z"}]);
    assert_eq!(node(unknown).not_ready_since, Some(60));
    assert!(node(json!([{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z"}])).ready);
}

#[test]
fn a_changed_spec_has_another_hash() {
    let with = |replicas: i32| -> Deployment {
        object(json!({"metadata": {"name": "d"}, "spec": {"replicas": replicas, "selector": {}, "template": {}}}))
    };
    let hash = |replicas| convert::deployment(&with(replicas)).spec_hash;
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

#[test]
fn a_machine_that_never_joined_backs_off_and_a_lost_one_does_not() {
    let claim = |status: Value| {
        let spec = json!({"clusterName": "c", "logicalCluster": "l", "nodeName": "n", "podCidr": "10.244.7.0/24", "cpus": 1, "memoryMiB": 512});
        convert::claim(&object(json!({"apiVersion": "", "kind": "", "metadata": {}, "spec": spec, "status": status})))
    };
    let joined = json!([{"type": "Joined", "status": "True", "reason": "", "message": "", "lastTransitionTime": "1970-01-01T00:01:00Z"}]);
    assert_eq!(claim(json!({"phase": "Failed"})).state, ClaimState::Declined);
    assert_eq!(claim(json!({"phase": "Failed", "conditions": joined})).state, ClaimState::Failed);
    assert_eq!(claim(json!({"phase": "Failed", "declined": true, "conditions": joined})).state, ClaimState::Declined);
    assert_eq!(claim(json!({"phase": "Provisioning"})).pod_range, Some(7));
}
