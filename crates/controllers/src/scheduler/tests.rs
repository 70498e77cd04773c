//! Tables and properties of where Pods go.

use super::controller::{in_order, node_matters, pod_matters, waits};
use super::*;
use controller_runtime::{Change, ObjectKey};
use k8s_openapi::api::core::v1::{Node, Pod};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

fn merged(mut base: Value, over: Value) -> Value {
    fn merge(base: &mut Value, over: Value) {
        match (base, over) {
            (Value::Object(base), Value::Object(over)) => {
                for (key, value) in over {
                    merge(base.entry(key).or_insert(Value::Null), value);
                }
            }
            (base, over) => *base = over,
        }
    }
    merge(&mut base, over);
    base
}

fn node_json(name: &str, over: Value) -> Value {
    merged(
        json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {},
            "status": {
                "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }),
        over,
    )
}

fn node(name: &str, over: Value) -> Arc<Node> {
    Arc::new(serde_json::from_value(node_json(name, over)).unwrap())
}

fn pod(name: &str, over: Value) -> Arc<Pod> {
    let base = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    Arc::new(serde_json::from_value(merged(base, over)).unwrap())
}

fn asking(name: &str, cpu: &str, memory: &str) -> Arc<Pod> {
    let resources = json!({"requests": {"cpu": cpu, "memory": memory}});
    pod(name, json!({"spec": {"containers": [{"name": "c", "resources": resources}]}}))
}

fn labelled(name: &str, app: &str) -> Arc<Pod> {
    pod(name, json!({"metadata": {"labels": {"app": app}}}))
}

/// The node, or what is said instead.
fn told(snapshot: &Snapshot, pod: &Pod) -> String {
    decide(snapshot, pod).map_or_else(|why| why.to_string(), str::to_owned)
}

#[test]
fn no_nodes() {
    assert_eq!(told(&Snapshot::default(), &pod("p", json!({}))), "no nodes available to schedule pods");
}

#[test]
fn reasons_are_counted_and_sorted() {
    let tainted = json!({"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}});
    let snapshot = Snapshot::new([
        node("small", json!({"status": {"allocatable": {"cpu": "500m"}}})),
        node("t1", tainted.clone()),
        node("t2", tainted),
    ]);
    assert_eq!(
        told(&snapshot, &asking("p", "1", "1Gi")),
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s)."
    );
}

#[test]
fn every_filter_says_why() {
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}});
    let required = |expression: Value| {
        json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [expression]}],
        }}}}})
    };
    let disk = json!({"metadata": {"labels": {"disk": "ssd", "cores": "8"}}});
    let untolerated = "node(s) had untolerated taint(s)";
    let unaffine = "node(s) didn't match Pod's node affinity/selector";
    let table: Vec<(Value, Value, Option<&str>)> = vec![
        (json!({}), json!({}), None),
        (json!({"spec": {"unschedulable": true}}), json!({}), Some("node(s) were unschedulable")),
        (
            json!({"spec": {"unschedulable": true}}),
            json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}}),
            None,
        ),
        (taint("NoSchedule"), json!({}), Some(untolerated)),
        (taint("NoExecute"), json!({}), Some(untolerated)),
        (taint("PreferNoSchedule"), json!({}), None),
        (taint("NoSchedule"), json!({"spec": {"tolerations": [{"key": "k", "value": "v"}]}}), None),
        (taint("NoSchedule"), json!({"spec": {"tolerations": [{"key": "k", "value": "w"}]}}), Some(untolerated)),
        (taint("NoSchedule"), json!({"spec": {"tolerations": [{"operator": "Exists"}]}}), None),
        (
            taint("NoExecute"),
            json!({"spec": {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]}}),
            Some(untolerated),
        ),
        (json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}), json!({}), Some(untolerated)),
        (json!({"status": {"conditions": []}}), json!({}), Some(untolerated)),
        (disk.clone(), json!({"spec": {"nodeSelector": {"disk": "ssd"}}}), None),
        (disk.clone(), json!({"spec": {"nodeSelector": {"disk": "hdd"}}}), Some(unaffine)),
        (disk.clone(), required(json!({"key": "disk", "operator": "In", "values": ["ssd"]})), None),
        (disk.clone(), required(json!({"key": "disk", "operator": "NotIn", "values": ["ssd"]})), Some(unaffine)),
        (disk.clone(), required(json!({"key": "other", "operator": "NotIn", "values": ["ssd"]})), None),
        (disk.clone(), required(json!({"key": "disk", "operator": "Exists"})), None),
        (disk.clone(), required(json!({"key": "disk", "operator": "DoesNotExist"})), Some(unaffine)),
        (disk.clone(), required(json!({"key": "cores", "operator": "Gt", "values": ["7"]})), None),
        (disk.clone(), required(json!({"key": "cores", "operator": "Gt", "values": ["8"]})), Some(unaffine)),
        (disk.clone(), required(json!({"key": "cores", "operator": "Lt", "values": ["9"]})), None),
        (disk, required(json!({"key": "disk", "operator": "Lt", "values": ["9"]})), Some(unaffine)),
        (
            json!({}),
            json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{}, {"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["n"]},
                ]}],
            }}}}}),
            None,
        ),
        (json!({}), json!({"spec": {"nodeName": "other"}}), Some("node(s) didn't match the requested node name")),
        (json!({"status": {"allocatable": {"pods": "0"}}}), json!({}), Some("Too many pods")),
        (
            json!({}),
            json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]}}),
            Some("Insufficient example.com/gpu"),
        ),
        (json!({}), json!({"spec": {"overhead": {"memory": "5Gi"}}}), Some("Insufficient memory")),
        (
            json!({}),
            json!({"spec": {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "3"}}}]}}),
            Some("Insufficient cpu"),
        ),
    ];
    for (node_over, pod_over, reason) in table {
        let snapshot = Snapshot::new([node("n", node_over.clone())]);
        let expected = reason.map_or_else(|| "n".to_owned(), |reason| format!("0/1 nodes are available: 1 {reason}."));
        assert_eq!(told(&snapshot, &pod("p", pod_over.clone())), expected, "{node_over} {pod_over}");
    }
}

#[test]
fn a_ready_node_is_used_before_its_old_taints_are_removed() {
    let taints = json!([
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
    ]);
    let snapshot = Snapshot::new([node("n", json!({"spec": {"taints": taints}}))]);
    assert_eq!(told(&snapshot, &pod("p", json!({}))), "n");
}

#[test]
fn all_that_is_lacking_is_said() {
    let snapshot = Snapshot::new([node("n", json!({}))]);
    assert_eq!(
        told(&snapshot, &asking("p", "3", "5Gi")),
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."
    );
}

#[test]
fn what_a_pod_asks_for() {
    let container = |cpu: &str, always: bool| {
        let mut container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        if always {
            container["restartPolicy"] = json!("Always");
        }
        container
    };
    let table = [
        (json!({"containers": [container("1", false), container("500m", false)]}), 1500),
        (json!({"containers": [container("1", false)], "initContainers": [container("2", false)]}), 2000),
        (
            json!({
                "containers": [container("1", false)],
                "initContainers": [container("300m", true), container("900m", false)],
            }),
            1300,
        ),
        (
            json!({
                "containers": [container("100m", false)],
                "initContainers": [container("300m", true), container("900m", false)],
                "overhead": {"cpu": "50m"},
            }),
            1250,
        ),
        (json!({"containers": [container("1", false)], "resources": {"requests": {"cpu": "4"}}}), 4000),
    ];
    for (spec, milli) in table {
        let spec = serde_json::from_value(spec).unwrap();
        assert_eq!(requests(&spec).get("cpu"), milli, "{spec:?}");
    }
    let nothing = serde_json::from_value(json!({"containers": [{"name": "c"}]})).unwrap();
    assert_eq!(requests(&nothing), Resources::default());
    assert_eq!((presumed(&nothing).get("cpu"), presumed(&nothing).get("memory")), (100, 200 << 20));
}

#[test]
fn host_ports_collide() {
    let with_port =
        |name: &str, port: Value| pod(name, json!({"spec": {"containers": [{"name": "c", "ports": [port]}]}}));
    let taken = with_port("a", json!({"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}));
    let mut snapshot = Snapshot::new([node("n", json!({}))]);
    snapshot.place(taken, "n");
    let refused = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    for (port, expected) in [
        (json!({"containerPort": 80, "hostPort": 8080}), refused),
        (json!({"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}), "n"),
        (json!({"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}), "n"),
        (json!({"containerPort": 8080}), "n"),
    ] {
        assert_eq!(told(&snapshot, &with_port("b", port.clone())), expected, "{port}");
    }
}

fn term(app: &str, key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key})
}

fn affine(name: &str, app: &str, kind: &str, term: Value) -> Arc<Pod> {
    pod(
        name,
        json!({
            "metadata": {"labels": {"app": app}},
            "spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
        }),
    )
}

fn zoned() -> Snapshot {
    let zone = |zone: &str| json!({"metadata": {"labels": {"zone": zone}}});
    Snapshot::new([node("a1", zone("a")), node("a2", zone("a")), node("b1", zone("b"))])
}

#[test]
fn pods_keep_apart() {
    let host = "kubernetes.io/hostname";
    let mut snapshot = zoned();
    snapshot.place(labelled("w", "web"), "a1");
    assert_eq!(told(&snapshot, &affine("p", "x", "podAntiAffinity", term("web", "zone"))), "b1");
    assert_eq!(told(&snapshot, &affine("p", "x", "podAntiAffinity", term("web", host))), "a2");
    snapshot.place(labelled("w2", "web"), "b1");
    assert_eq!(
        told(&snapshot, &affine("p", "x", "podAntiAffinity", term("web", "zone"))),
        "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules."
    );
}

#[test]
fn pods_that_run_keep_others_away() {
    let mut snapshot = zoned();
    snapshot.place(affine("w", "web", "podAntiAffinity", term("web", "zone")), "a1");
    assert_eq!(told(&snapshot, &labelled("p", "web")), "b1");
    snapshot.place(affine("v", "web", "podAntiAffinity", term("web", "zone")), "b1");
    assert_eq!(
        told(&snapshot, &labelled("p", "web")),
        "0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules."
    );
    // Another namespace is out of its scope.
    assert_ne!(
        told(&snapshot, &pod("p", json!({"metadata": {"namespace": "other", "labels": {"app": "web"}}})))
            .chars()
            .next(),
        Some('0')
    );
}

#[test]
fn pods_gather() {
    let mut snapshot = zoned();
    let near = affine("p", "x", "podAffinity", term("web", "zone"));
    assert_eq!(told(&snapshot, &near), "0/3 nodes are available: 3 node(s) didn't match pod affinity rules.");
    snapshot.place(labelled("w", "web"), "b1");
    assert_eq!(told(&snapshot, &near), "b1");
    // The first of a group that wants to be together may start it.
    assert_eq!(told(&zoned(), &affine("p", "web", "podAffinity", term("web", "zone"))), "a1");
    let elsewhere = affine("p", "web", "podAffinity", term("web", "rack"));
    assert!(told(&zoned(), &elsewhere).contains("didn't match pod affinity rules"));
}

#[test]
fn other_namespaces_count_when_selected() {
    let mut snapshot = zoned();
    snapshot.place(pod("w", json!({"metadata": {"namespace": "shop", "labels": {"app": "web"}}})), "b1");
    let near = |scope: Value| affine("p", "x", "podAffinity", merged(term("web", "zone"), scope));
    assert!(told(&snapshot, &near(json!({}))).contains("affinity rules"));
    assert_eq!(told(&snapshot, &near(json!({"namespaces": ["shop"]}))), "b1");
    assert_eq!(told(&snapshot, &near(json!({"namespaceSelector": {}}))), "b1");
    let team = json!({"namespaceSelector": {"matchLabels": {"team": "one"}}});
    assert!(told(&snapshot, &near(team.clone())).contains("affinity rules"));
    snapshot.add_namespace("shop", [("team".to_owned(), "one".to_owned())].into());
    assert_eq!(told(&snapshot, &near(team)), "b1");
}

#[test]
fn preferences_decide_among_the_fit() {
    let preferring = |kind: &str, term: Value| pod("p", json!({"spec": {"affinity": {kind: term}}}));
    let mut snapshot = zoned();
    let zone_b = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 10,
        "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
    }]});
    assert_eq!(told(&snapshot, &preferring("nodeAffinity", zone_b)), "b1");
    snapshot.place(labelled("w", "web"), "b1");
    let web = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100, "podAffinityTerm": term("web", "zone"),
    }]});
    assert_eq!(told(&snapshot, &preferring("podAffinity", web.clone())), "b1");
    assert_eq!(told(&snapshot, &preferring("podAntiAffinity", web)), "a1");
}

#[test]
fn the_emptier_node_is_better_and_the_first_among_equals() {
    let mut snapshot = Snapshot::new([node("b", json!({})), node("a", json!({}))]);
    assert_eq!(told(&snapshot, &asking("p", "100m", "100Mi")), "a");
    snapshot.place(asking("q", "1", "1Gi"), "a");
    assert_eq!(told(&snapshot, &asking("p", "100m", "100Mi")), "b");
    let soft = json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}});
    assert_eq!(told(&Snapshot::new([node("a", soft), node("b", json!({}))]), &pod("p", json!({}))), "b");
}

#[test]
fn an_image_that_is_there_counts() {
    let images = json!({"status": {"images": [{"names": ["docker.io/big:latest"], "sizeBytes": 900 << 20}]}});
    let snapshot = Snapshot::new([node("a", json!({})), node("b", images)]);
    assert_eq!(
        told(&snapshot, &pod("p", json!({"spec": {"containers": [{"name": "c", "image": "docker.io/big"}]}}))),
        "b"
    );
}

#[test]
fn pods_spread() {
    let spread = |when: &str| {
        pod(
            "p",
            json!({
                "metadata": {"labels": {"app": "web"}},
                "spec": {"topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when,
                    "labelSelector": {"matchLabels": {"app": "web"}},
                }]},
            }),
        )
    };
    let mut snapshot = zoned();
    snapshot.place(labelled("w", "web"), "a1");
    assert_eq!(told(&snapshot, &spread("DoNotSchedule")), "b1");
    assert_eq!(told(&snapshot, &spread("ScheduleAnyway")), "b1");
    let nowhere = Snapshot::new([node("n", json!({}))]);
    assert_eq!(
        told(&nowhere, &spread("DoNotSchedule")),
        "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label)."
    );
    let full = Snapshot::new([
        node("a", json!({"metadata": {"labels": {"zone": "a"}}})),
        node("b", json!({"metadata": {"labels": {"zone": "b"}}, "status": {"allocatable": {"pods": "0"}}})),
    ]);
    let mut full = full;
    full.place(labelled("w", "web"), "a");
    assert_eq!(
        told(&full, &spread("DoNotSchedule")),
        "0/2 nodes are available: 1 Too many pods, 1 node(s) didn't match pod topology spread constraints."
    );
}

#[test]
fn ended_pods_take_nothing() {
    let mut snapshot = Snapshot::new([node("n", json!({"status": {"allocatable": {"pods": "1"}}}))]);
    snapshot.place(pod("done", json!({"status": {"phase": "Succeeded"}})), "n");
    assert_eq!(told(&snapshot, &pod("p", json!({}))), "n");
    snapshot.place(pod("runs", json!({"status": {"phase": "Running"}})), "n");
    assert_eq!(told(&snapshot, &pod("p", json!({}))), "0/1 nodes are available: 1 Too many pods.");
}

#[test]
fn which_pods_wait() {
    let table = [
        (json!({}), true),
        (json!({"spec": {"schedulerName": "default-scheduler"}}), true),
        (json!({"spec": {"schedulerName": "mine"}}), false),
        (json!({"spec": {"nodeName": "n"}}), false),
        (json!({"spec": {"schedulingGates": [{"name": "g"}]}}), false),
        (json!({"status": {"phase": "Failed"}}), false),
        (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), false),
    ];
    for (over, expected) in table {
        assert_eq!(waits(&pod("p", over.clone())), expected, "{over}");
    }
}

#[test]
fn the_important_and_the_old_come_first() {
    let of = |name: &str, priority: i32, created: &str| {
        let over = json!({"metadata": {"creationTimestamp": created}, "spec": {"priority": priority}});
        (ObjectKey::new("c", "default", name), pod(name, over))
    };
    let mut pods = vec![
        of("young", 0, "2026-01-01T00:00:02Z"),
        of("b", 0, "2026-01-01T00:00:01Z"),
        of("a", 0, "2026-01-01T00:00:01Z"),
        of("high", 9, "2026-01-01T00:00:03Z"),
    ];
    in_order(&mut pods);
    let names: Vec<&str> = pods.iter().map(|(key, _)| &*key.name).collect();
    assert_eq!(names, ["high", "a", "b", "young"]);
}

#[test]
fn only_what_matters_brings_a_cluster_back() {
    let key = ObjectKey::new("c", "", "x");
    let of_nodes =
        |over: Value| Change { key: key.clone(), before: Some(node("n", json!({}))), after: Some(node("n", over)) };
    assert!(!node_matters(&of_nodes(json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
    ]}}))));
    assert!(node_matters(&of_nodes(json!({"status": {"conditions": []}}))));
    assert!(node_matters(&of_nodes(json!({"metadata": {"labels": {"a": "b"}}}))));
    assert!(node_matters(&of_nodes(json!({"status": {"allocatable": {"cpu": "3"}}}))));
    let of_pods =
        |over: Value| Change { key: key.clone(), before: Some(pod("p", json!({}))), after: Some(pod("p", over)) };
    assert!(!pod_matters(&of_pods(json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}))));
    assert!(pod_matters(&of_pods(json!({"status": {"phase": "Failed"}}))));
    assert!(pod_matters(&of_pods(json!({"spec": {"nodeName": "n"}}))));
}

proptest! {
    /// Whatever is placed, no node ever holds more than it has, and a Pod that is refused fits nowhere.
    #[test]
    fn nodes_are_never_overfilled(
        sizes in proptest::collection::vec((1i64..4000, 1i64..8), 1..5),
        asked in proptest::collection::vec(1i64..2000, 0..40),
    ) {
        let mut snapshot = Snapshot::new(sizes.iter().enumerate().map(|(at, (cpu, pods))| {
            let allocatable = json!({"cpu": format!("{cpu}m"), "pods": pods.to_string()});
            node(&format!("n{at}"), json!({"status": {"allocatable": allocatable}}))
        }));
        let mut left = sizes.clone();
        for (at, milli) in asked.into_iter().enumerate() {
            let pod = asking(&format!("p{at}"), &format!("{milli}m"), "1Mi");
            let fits = left.iter().any(|(cpu, pods)| *cpu >= milli && *pods > 0);
            match decide(&snapshot, &pod).map(str::to_owned) {
                Ok(name) => {
                    let chosen: usize = name[1..].parse().unwrap();
                    left[chosen].0 -= milli;
                    left[chosen].1 -= 1;
                    prop_assert!(left[chosen].0 >= 0 && left[chosen].1 >= 0);
                    snapshot.place(pod, &name);
                }
                Err(why) => {
                    prop_assert!(!fits, "{why}");
                    let total = format!("0/{} nodes are available: ", sizes.len());
                    prop_assert!(why.to_string().starts_with(&total));
                }
            }
        }
    }

    /// Pods that refuse each other are never in one domain, and are refused only when all are taken.
    #[test]
    fn rivals_never_share(zones in proptest::collection::vec(0u8..4, 1..8), rivals in 1usize..8) {
        let mut snapshot = Snapshot::new(zones.iter().enumerate().map(|(at, zone)| {
            node(&format!("n{at}"), json!({"metadata": {"labels": {"zone": zone.to_string()}}}))
        }));
        let mut taken = std::collections::BTreeSet::new();
        let all: std::collections::BTreeSet<u8> = zones.iter().copied().collect();
        for at in 0..rivals {
            let pod = affine(&format!("p{at}"), "rival", "podAntiAffinity", term("rival", "zone"));
            match decide(&snapshot, &pod).map(str::to_owned) {
                Ok(name) => {
                    let chosen: usize = name[1..].parse().unwrap();
                    prop_assert!(taken.insert(zones[chosen]));
                    snapshot.place(pod, &name);
                }
                Err(_) => prop_assert_eq!(&taken, &all),
            }
        }
    }

    /// Neither the order of nodes nor what they are called by the caller changes the decision.
    #[test]
    fn the_order_of_nodes_does_not_matter(cpus in proptest::collection::vec(100i64..4000, 1..8)) {
        let nodes: Vec<_> = cpus.iter().enumerate().map(|(at, cpu)| {
            node(&format!("n{at}"), json!({"status": {"allocatable": {"cpu": format!("{cpu}m")}}}))
        }).collect();
        let pod = asking("p", "50m", "1Mi");
        let forward = Snapshot::new(nodes.clone());
        let backward = Snapshot::new(nodes.into_iter().rev());
        prop_assert_eq!(told(&forward, &pod), told(&backward, &pod));
    }
}
