//! Tables and properties of which Pods are behind a Service.

use super::*;
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

fn service(spec: Value) -> Service {
    let mut service = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "s", "labels": {"tier": "front"}},
        "spec": {
            "clusterIP": "10.96.0.20", "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    serde_json::from_value(service).unwrap()
}

struct Shape<'a> {
    name: &'a str,
    ip: &'a str,
    ready: bool,
    leaving: bool,
    phase: &'a str,
    port: i32,
}

fn pod(shape: &Shape<'_>) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {
            "name": shape.name, "namespace": "default", "uid": format!("uid-{}", shape.name),
            "labels": {"app": "web"},
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": shape.port}]}],
        },
        "status": {
            "phase": shape.phase, "podIP": shape.ip, "podIPs": [{"ip": shape.ip}],
            "conditions": [{"type": "Ready", "status": if shape.ready { "True" } else { "False" }}],
        },
    });
    if shape.leaving {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

const USUAL: Shape<'_> =
    Shape { name: "a", ip: "10.244.0.2", ready: true, leaving: false, phase: "Running", port: 8080 };

fn subsets(service: &Service, pods: &[Arc<Pod>]) -> Value {
    serde_json::to_value(endpoints(service, pods, None).subsets).unwrap()
}

fn address(name: &str, ip: &str) -> Value {
    json!({
        "ip": ip, "nodeName": "n1",
        "targetRef": {"kind": "Pod", "namespace": "default", "name": name, "uid": format!("uid-{name}")},
    })
}

#[test]
fn ready_and_other_addresses() {
    let pods = [
        pod(&USUAL),
        pod(&Shape { name: "b", ip: "10.244.0.10", ..USUAL }),
        pod(&Shape { name: "c", ip: "10.244.0.3", ready: false, ..USUAL }),
        pod(&Shape { name: "d", ip: "10.244.0.4", leaving: true, ..USUAL }),
        pod(&Shape { name: "e", ip: "10.244.0.5", phase: "Succeeded", ..USUAL }),
        pod(&Shape { name: "f", ip: "", ..USUAL }),
    ];
    let expected = json!([{
        "addresses": [address("a", "10.244.0.2"), address("b", "10.244.0.10")],
        "notReadyAddresses": [address("c", "10.244.0.3")],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }]);
    assert_eq!(subsets(&service(json!({})), &pods), expected);
}

#[test]
fn labels_are_the_services_and_our_own() {
    let made = endpoints(&service(json!({})), &[pod(&USUAL)], None);
    let labels = json!({"tier": "front", "endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    assert_eq!(serde_json::to_value(made.metadata.labels).unwrap(), labels);
    assert_eq!((made.metadata.name.as_deref(), made.metadata.annotations), (Some("web"), None));
    let headless = endpoints(&service(json!({"clusterIP": "None"})), &[pod(&USUAL)], None);
    assert_eq!(headless.metadata.labels.unwrap().get("service.kubernetes.io/headless"), Some(&String::new()));
    let known: Endpoints = serde_json::from_value(json!({"metadata": {"annotations": {"kept": "yes"}}})).unwrap();
    let kept = endpoints(&service(json!({})), &[pod(&USUAL)], Some(&known));
    assert_eq!(kept.metadata.annotations.unwrap().get("kept").unwrap(), "yes");
}

#[test]
fn unready_addresses_are_published_when_asked_for() {
    let wanted = service(json!({"publishNotReadyAddresses": true}));
    let pods = [pod(&Shape { ready: false, leaving: true, ..USUAL })];
    assert_eq!(subsets(&wanted, &pods)[0]["addresses"], json!([address("a", "10.244.0.2")]));
    let plan = plan_slices(&wanted, &pods, |_| None, &Vec::<Arc<EndpointSlice>>::new(), 100);
    let conditions = serde_json::to_value(&plan.create[0].endpoints.as_ref().unwrap()[0].conditions).unwrap();
    assert_eq!(conditions, json!({"ready": true, "serving": false, "terminating": true}));
}

#[test]
fn ports_by_number_by_name_and_none() {
    let table = [
        (json!([{"port": 80}]), json!([{"port": 80, "protocol": "TCP"}])),
        (json!([{"port": 80, "targetPort": 81}]), json!([{"port": 81, "protocol": "TCP"}])),
        (json!([{"port": 80, "targetPort": "http"}]), json!([{"port": 8080, "protocol": "TCP"}])),
        (
            json!([{"name": "x", "port": 1, "appProtocol": "h2c"}, {"name": "y", "port": 2, "protocol": "UDP"}]),
            json!([
                {"name": "x", "port": 1, "protocol": "TCP", "appProtocol": "h2c"},
                {"name": "y", "port": 2, "protocol": "UDP"},
            ]),
        ),
    ];
    for (ports, expected) in table {
        let subsets = subsets(&service(json!({"ports": ports})), &[pod(&USUAL)]);
        assert_eq!(subsets[0]["ports"], expected, "{ports}");
        assert_eq!(subsets.as_array().unwrap().len(), 1);
    }
    for unknown in
        [json!([{"port": 80, "targetPort": "nope"}]), json!([{"port": 80, "targetPort": "http", "protocol": "UDP"}])]
    {
        assert_eq!(subsets(&service(json!({"ports": unknown})), &[pod(&USUAL)]), Value::Null);
    }
}

#[test]
fn a_headless_service_needs_no_ports() {
    let wanted = service(json!({"clusterIP": "None", "ports": []}));
    assert_eq!(subsets(&wanted, &[pod(&USUAL)]), json!([{"addresses": [address("a", "10.244.0.2")]}]));
    assert_eq!(subsets(&service(json!({"ports": []})), &[pod(&USUAL)]), Value::Null);
}

#[test]
fn a_member_of_a_headless_service_has_its_name() {
    let mut member = Pod::clone(&pod(&USUAL));
    let spec = member.spec.as_mut().unwrap();
    (spec.hostname, spec.subdomain) = (Some("web-0".into()), Some("web".into()));
    let wanted = service(json!({"clusterIP": "None"}));
    assert_eq!(subsets(&wanted, &[Arc::new(member.clone())])[0]["addresses"][0]["hostname"], "web-0");
    member.spec.as_mut().unwrap().subdomain = Some("other".into());
    assert_eq!(subsets(&wanted, &[Arc::new(member)])[0]["addresses"][0].get("hostname"), None);
}

#[test]
fn pods_with_different_ports_are_told_apart() {
    let pods = [pod(&USUAL), pod(&Shape { name: "b", ip: "10.244.0.3", port: 9090, ..USUAL })];
    assert_eq!(
        subsets(&service(json!({})), &pods),
        json!([
            {"addresses": [address("a", "10.244.0.2")], "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]},
            {"addresses": [address("b", "10.244.0.3")], "ports": [{"name": "http", "port": 9090, "protocol": "TCP"}]},
        ])
    );
}

#[test]
fn services_without_a_selector_select_nothing() {
    for spec in [json!({"selector": {}}), json!({"type": "ExternalName"}), json!({"selector": {"app": "other"}})] {
        assert_eq!(subsets(&service(spec.clone()), &[pod(&USUAL)]), Value::Null, "{spec}");
    }
}

#[test]
fn too_many_addresses_are_cut_and_said_so() {
    let pods: Vec<_> = (0..1010)
        .map(|at| {
            let (name, ip) = (format!("p{at}"), format!("10.244.{}.{}", at / 250, at % 250 + 1));
            pod(&Shape { name: &name, ip: &ip, ready: at % 100 != 0, ..USUAL })
        })
        .collect();
    let made = endpoints(&service(json!({})), &pods, None);
    assert_eq!(made.metadata.annotations.unwrap().get("endpoints.kubernetes.io/over-capacity").unwrap(), "truncated");
    let subset = &made.subsets.unwrap()[0];
    assert_eq!(subset.addresses.as_ref().unwrap().len(), 999);
    assert_eq!(subset.not_ready_addresses.as_ref().unwrap().len(), 1);
}

#[test]
fn a_slice_says_everything() {
    let zone = |node: &str| (node == "n1").then(|| "z".to_owned());
    let none = Vec::<Arc<EndpointSlice>>::new();
    let plan = plan_slices(&service(json!({"clusterIP": "None"})), &[pod(&USUAL)], zone, &none, 100);
    assert_eq!(plan.create.len(), 1);
    assert_eq!(
        serde_json::to_value(&plan.create[0]).unwrap(),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "generateName": "web-", "namespace": "default",
                "labels": {
                    "kubernetes.io/service-name": "web", "tier": "front", "service.kubernetes.io/headless": "",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": "IPv4",
            "endpoints": [{
                "addresses": ["10.244.0.2"], "nodeName": "n1", "zone": "z",
                "conditions": {"ready": true, "serving": true, "terminating": false},
                "targetRef": {"kind": "Pod", "namespace": "default", "name": "a", "uid": "uid-a"},
            }],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        })
    );
}

/// Does what a plan says, as the server would.
fn apply(mut known: Vec<EndpointSlice>, plan: Plan, next: &mut u32) -> Vec<EndpointSlice> {
    known.retain(|slice| plan.delete.iter().all(|gone| gone.metadata.name != slice.metadata.name));
    for updated in plan.update {
        let at = known.iter().position(|slice| slice.metadata.name == updated.metadata.name).unwrap();
        known[at] = updated;
    }
    for mut created in plan.create {
        *next += 1;
        created.metadata.name = Some(format!("web-{next:05}"));
        known.push(created);
    }
    known
}

fn planned(known: &[EndpointSlice], pods: &[Arc<Pod>], max: usize) -> Plan {
    let known: Vec<Arc<EndpointSlice>> = known.iter().cloned().map(Arc::new).collect();
    plan_slices(&service(json!({})), pods, |_| None, &known, max)
}

#[test]
fn a_service_without_endpoints_has_one_empty_slice() {
    let mut next = 0;
    let known = apply(Vec::new(), planned(&[], &[], 100), &mut next);
    assert_eq!(known.len(), 1);
    assert!(planned(&known, &[], 100).is_empty());
    let known = apply(known.clone(), planned(&known, &[pod(&USUAL)], 100), &mut next);
    assert_eq!(known.len(), 1);
    let known = apply(known.clone(), planned(&known, &[], 100), &mut next);
    assert_eq!((known.len(), known[0].endpoints.as_ref().unwrap().len()), (1, 0));
}

#[test]
fn one_change_touches_one_slice() {
    let names: Vec<_> = (0..9).map(|at| (format!("p{at}"), format!("10.244.0.{}", at + 2))).collect();
    let of = |unready: usize| -> Vec<Arc<Pod>> {
        names
            .iter()
            .enumerate()
            .map(|(at, (name, ip))| pod(&Shape { name, ip, ready: at != unready, ..USUAL }))
            .collect()
    };
    let mut next = 0;
    let known = apply(Vec::new(), planned(&[], &of(99), 3), &mut next);
    assert_eq!(known.len(), 3);
    let plan = planned(&known, &of(4), 3);
    assert_eq!((plan.create.len(), plan.update.len(), plan.delete.len()), (0, 1, 0));
}

#[test]
fn slices_of_another_family_go() {
    let other: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"name": "old"}, "addressType": "IPv6", "endpoints": [],
    }))
    .unwrap();
    let plan = planned(std::slice::from_ref(&other), &[pod(&USUAL)], 100);
    assert_eq!((plan.create.len(), plan.delete), (1, vec![other]));
}

fn any_pods() -> impl Strategy<Value = Vec<Arc<Pod>>> {
    let one = (any::<bool>(), any::<bool>(), 0u8..4, prop_oneof![Just(8080), Just(9090)]);
    proptest::collection::btree_map(0u8..20, one, 0..12).prop_map(|pods| {
        pods.into_iter()
            .map(|(at, (ready, leaving, phase, port))| {
                let (name, ip) = (format!("p{at}"), format!("10.244.0.{}", at + 2));
                let phase = if phase == 0 { "Failed" } else { "Running" };
                pod(&Shape { name: &name, ip: &ip, ready, leaving, phase, port })
            })
            .collect()
    })
}

proptest! {
    /// From whatever slices there are, one plan leads to every endpoint being in exactly one slice of
    /// bounded size, and a second plan has nothing to do.
    #[test]
    fn slices_settle(histories in proptest::collection::vec(any_pods(), 1..5), max in 1usize..5) {
        let mut next = 0;
        let mut known = Vec::new();
        for pods in &histories {
            let plan = planned(&known, pods, max);
            known = apply(known, plan, &mut next);
            prop_assert!(planned(&known, pods, max).is_empty());
            let there: Vec<String> = known
                .iter()
                .flat_map(|slice| slice.endpoints.iter().flatten())
                .map(|endpoint| endpoint.target_ref.as_ref().unwrap().name.clone().unwrap())
                .collect();
            let wanted: BTreeSet<String> = pods
                .iter()
                .filter(|pod| pod.status.as_ref().unwrap().phase.as_deref() != Some("Failed"))
                .map(|pod| pod.metadata.name.clone().unwrap())
                .collect();
            prop_assert_eq!(there.len(), wanted.len());
            prop_assert_eq!(there.into_iter().collect::<BTreeSet<_>>(), wanted);
            prop_assert!(known.iter().all(|slice| slice.endpoints.as_ref().unwrap().len() <= max));
            prop_assert!(!known.is_empty());
        }
    }

    /// Addresses are ready exactly when their Pods are, whatever the order of Pods.
    #[test]
    fn endpoints_follow_pods(pods in any_pods()) {
        let made = endpoints(&service(json!({})), &pods, None);
        let backwards: Vec<_> = pods.iter().rev().cloned().collect();
        prop_assert_eq!(&made.subsets, &endpoints(&service(json!({})), &backwards, None).subsets);
        let ready: BTreeSet<String> = made
            .subsets
            .iter()
            .flatten()
            .flat_map(|subset| subset.addresses.iter().flatten().map(|address| address.ip.clone()))
            .collect();
        let wanted: BTreeSet<String> = pods
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .filter(|pod| {
                let status = pod.status.as_ref().unwrap();
                status.phase.as_deref() != Some("Failed") && status.conditions.as_ref().unwrap()[0].status == "True"
            })
            .map(|pod| pod.status.as_ref().unwrap().pod_ip.clone().unwrap())
            .collect();
        prop_assert_eq!(ready, wanted);
    }
}
