//! Tables and properties of what is decided about nodes.

use super::*;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(40);
const STARTUP: Duration = Duration::from_secs(60);
const PRESUMED: Duration = Duration::from_secs(300);

fn node(spec: Value, conditions: Value) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": "n"}, "spec": spec, "status": {"conditions": conditions},
    }))
    .unwrap()
}

fn ready(status: &str) -> Value {
    json!([{"type": "Ready", "status": status}])
}

fn pod(tolerations: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p"}, "spec": {"containers": [], "tolerations": tolerations},
    }))
    .unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn words(taints: &[Taint]) -> Vec<String> {
    taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect()
}

fn taint(key: &str, added: Option<i64>) -> Taint {
    Taint {
        key: key.to_owned(),
        effect: "NoExecute".to_owned(),
        time_added: added.map(|second| k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(second))),
        ..Taint::default()
    }
}

#[test]
fn taints_follow_from_conditions() {
    let table = [
        (json!({}), ready("True"), vec![]),
        (json!({}), json!([]), vec!["node.kubernetes.io/not-ready:NoSchedule"]),
        (
            json!({}),
            ready("False"),
            vec!["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"],
        ),
        (
            json!({}),
            ready("Unknown"),
            vec!["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"],
        ),
        (json!({"unschedulable": true}), ready("True"), vec!["node.kubernetes.io/unschedulable:NoSchedule"]),
        (
            json!({}),
            json!([{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]),
            vec!["node.kubernetes.io/disk-pressure:NoSchedule"],
        ),
        (
            json!({"taints": [
                {"key": "mine", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
            ]}),
            ready("True"),
            vec!["mine:NoExecute"],
        ),
    ];
    for (spec, conditions, expected) in table {
        let node = node(spec, conditions);
        assert_eq!(words(&taints_by_state(&node)), expected, "{node:?}");
    }
}

#[test]
fn a_new_taint_carries_its_time_and_is_then_left_alone() {
    let mut node = node(json!({}), ready("Unknown"));
    let taints = taints_to_write(&node, at(0)).unwrap();
    assert!(taints.iter().all(|taint| taint.time_added.as_ref().unwrap().0 == at(0)));
    node.spec.as_mut().unwrap().taints = Some(taints);
    assert_eq!(taints_to_write(&node, at(9)), None);
}

#[test]
fn a_silent_node_is_unknown_after_the_grace() {
    let node = node(json!({}), ready("True"));
    let soon = health(&node, at(0), at(39), GRACE, STARTUP);
    assert_eq!(soon, Health { conditions: vec![], look_again: Some(Duration::from_secs(1)) });
    let late = health(&node, at(0), at(40), GRACE, STARTUP);
    let told: Vec<_> = late
        .conditions
        .iter()
        .map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_deref().unwrap(), c.message.as_deref().unwrap()))
        .collect();
    assert_eq!(told[0], ("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."));
    assert_eq!(told[1], ("MemoryPressure", "Unknown", "NodeStatusNeverUpdated", "Kubelet never posted node status."));
    assert_eq!(told.len(), 4);
}

#[test]
fn a_node_that_never_spoke_has_longer() {
    let node = node(json!({}), json!([]));
    assert!(health(&node, at(0), at(59), GRACE, STARTUP).conditions.is_empty());
    assert_eq!(health(&node, at(0), at(60), GRACE, STARTUP).conditions.len(), 4);
}

#[test]
fn a_clock_that_went_back_is_no_silence() {
    let node = node(json!({}), ready("True"));
    assert_eq!(health(&node, at(100), at(0), GRACE, STARTUP).look_again, Some(GRACE));
}

#[test]
fn pods_leave_as_they_tolerate() {
    let exists = |seconds: Option<i64>| {
        let mut toleration = json!({"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"});
        if let Some(seconds) = seconds {
            toleration["tolerationSeconds"] = json!(seconds);
        }
        json!([toleration])
    };
    let seconds = Duration::from_secs;
    let table = [
        ("no taint", json!([]), vec![], Eviction::Stays),
        ("another effect", json!([]), vec![Taint { effect: "NoSchedule".into(), ..taint("x", None) }], Eviction::Stays),
        ("not tolerated", json!([]), vec![taint("x", Some(0))], Eviction::Now),
        ("presumed", json!([]), vec![taint(UNREACHABLE, Some(0))], Eviction::After(seconds(200))),
        ("presumed, over", json!([]), vec![taint(NOT_READY, Some(-200))], Eviction::Now),
        ("for ever", exists(None), vec![taint(UNREACHABLE, Some(-9999))], Eviction::Stays),
        ("for a while", exists(Some(130)), vec![taint(UNREACHABLE, Some(0))], Eviction::After(seconds(30))),
        ("for no time", exists(Some(0)), vec![taint(UNREACHABLE, Some(100))], Eviction::Now),
        ("negative", exists(Some(-5)), vec![taint(UNREACHABLE, None)], Eviction::Now),
        ("the other taint is presumed", exists(None), vec![taint(NOT_READY, Some(0))], Eviction::After(seconds(200))),
        (
            "everything",
            json!([{"operator": "Exists"}]),
            vec![taint("x", None), taint(NOT_READY, None)],
            Eviction::Stays,
        ),
    ];
    for (what, tolerations, taints, expected) in table {
        assert_eq!(eviction(&pod(tolerations), &taints, at(100), PRESUMED), expected, "{what}");
    }
}

fn any_conditions() -> impl Strategy<Value = Value> {
    let status = || prop_oneof![Just("True"), Just("False"), Just("Unknown")];
    proptest::option::of((status(), status())).prop_map(|conditions| match conditions {
        Some((ready, disk)) => {
            json!([{"type": "Ready", "status": ready}, {"type": "DiskPressure", "status": disk}])
        }
        None => json!([]),
    })
}

fn any_taints() -> impl Strategy<Value = Value> {
    let key = prop_oneof![Just("a"), Just("b"), Just(NOT_READY), Just(UNREACHABLE), Just(UNSCHEDULABLE)];
    let effect = prop_oneof![Just("NoSchedule"), Just("PreferNoSchedule"), Just("NoExecute")];
    proptest::collection::btree_set((key, effect), 0..6)
        .prop_map(|taints| taints.into_iter().map(|(key, effect)| json!({"key": key, "effect": effect})).collect())
}

proptest! {
    /// Writing what follows from the state leaves nothing to write, and others' taints alone.
    #[test]
    fn taints_settle(conditions in any_conditions(), taints in any_taints(), cordoned: bool) {
        let mut node = node(json!({"taints": taints, "unschedulable": cordoned}), conditions);
        let foreign = |node: &Node| -> Vec<String> {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
            words(&taints).into_iter().filter(|taint| !taint.starts_with("node.kubernetes.io/")).collect()
        };
        let before = foreign(&node);
        if let Some(taints) = taints_to_write(&node, at(0)) {
            node.spec.as_mut().unwrap().taints = Some(taints);
        }
        prop_assert_eq!(taints_to_write(&node, at(1)), None);
        prop_assert_eq!(foreign(&node), before);
    }

    /// A Pod that has to leave after a while has to leave after that while, and not before.
    #[test]
    fn evictions_come_due(tolerated in 0i64..1000, passed in 0i64..1000) {
        let pod = pod(json!([{"key": "x", "operator": "Exists", "tolerationSeconds": tolerated}]));
        let decided = eviction(&pod, &[taint("x", Some(0))], at(passed), PRESUMED);
        match decided {
            Eviction::After(left) => prop_assert_eq!(left.as_secs(), (tolerated - passed).unsigned_abs()),
            Eviction::Now => prop_assert!(passed >= tolerated),
            Eviction::Stays => prop_assert!(false),
        }
    }

    /// A node's conditions are written once.
    #[test]
    fn silence_is_told_once(conditions in any_conditions(), silent in 0i64..200) {
        let mut node = node(json!({}), conditions);
        let told = health(&node, at(0), at(silent), GRACE, STARTUP);
        prop_assert_eq!(told.look_again.is_some(), silent < if condition(&node, "Ready").is_some() { 40 } else { 60 });
        if told.look_again.is_none() {
            let mut now = node.status.clone().unwrap().conditions.unwrap_or_default();
            now.retain(|known| told.conditions.iter().all(|new| new.type_ != known.type_));
            now.extend(told.conditions);
            node.status.as_mut().unwrap().conditions = Some(now);
            prop_assert!(health(&node, at(0), at(silent + 100), GRACE, STARTUP).conditions.is_empty());
            prop_assert_eq!(condition(&node, "Ready"), Some("Unknown"));
        }
    }
}
