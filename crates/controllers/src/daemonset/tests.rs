use super::*;
use k8s_openapi::api::apps::v1::DaemonSetSpec;
use serde_json::{Value, json};

fn set(template: Value, most_unavailable: i32) -> DaemonSet {
    serde_json::from_value(json!({
        "metadata": {"name": "agent", "namespace": "n", "uid": "d", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": most_unavailable}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": template}},
    }))
    .unwrap()
}

fn spec(set: &DaemonSet) -> &DaemonSetSpec {
    set.spec.as_ref().unwrap()
}

fn node(name: &str, labels: Value, taints: Value) -> Arc<Node> {
    Arc::new(
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}))
            .unwrap(),
    )
}

fn pod(of: &DaemonSet, on: &str, hash: &str, ready: bool) -> Arc<Pod> {
    let mut pod = decide::pod(of, spec(of), hash, on);
    pod.metadata.name = Some(format!("{on}-{hash}"));
    let ready = if ready { "True" } else { "False" };
    pod.status = Some(
        serde_json::from_value(json!({"phase": "Running", "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}))
        .unwrap(),
    );
    Arc::new(pod)
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| crate::meta::name(&pod.metadata)).collect()
}

#[test]
fn a_pod_runs_where_selectors_and_taints_let_it() {
    let now = jiff::Timestamp::now();
    let body = json!({"containers": [], "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}]});
    let of = set(body, 1);
    let nodes = [
        node("fits", json!({"disk": "ssd"}), json!([])),
        node("other-disk", json!({}), json!([])),
        node("borne", json!({"disk": "ssd"}), json!([{"key": "team", "value": "a", "effect": "NoSchedule"}])),
        node("not-borne", json!({"disk": "ssd"}), json!([{"key": "team", "value": "b", "effect": "NoSchedule"}])),
        node(
            "cordoned",
            json!({"disk": "ssd"}),
            json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
        ),
    ];
    let first = plan(&of, spec(&of), "h", &nodes, &[], now);
    assert_eq!(first.create, ["fits", "borne", "cordoned"]);
    // One that runs stays in spite of a new NoSchedule taint, but not where the labels have changed.
    let pods = [pod(&of, "not-borne", "h", true), pod(&of, "other-disk", "h", true), pod(&of, "gone", "h", true)];
    let second = plan(&of, spec(&of), "h", &nodes, &pods, now);
    assert_eq!(names(&second.delete), ["other-disk-h", "gone-h"]);
    let (status, _) = status(&of, spec(&of), "h", &nodes, &pods, now);
    assert_eq!((status.desired_number_scheduled, status.current_number_scheduled), (3, 0));
    assert_eq!(status.number_misscheduled, 2);
}

#[test]
fn an_update_replaces_as_many_as_may_be_unavailable() {
    let now = jiff::Timestamp::now();
    let of = set(json!({"containers": []}), 1);
    let nodes = ["a", "b", "c"].map(|name| node(name, json!({}), json!([])));
    let all = ["a", "b", "c"].map(|name| pod(&of, name, "old", true));
    assert_eq!(names(&plan(&of, spec(&of), "new", &nodes, &all, now).delete), ["a-old"]);
    let mixed = [pod(&of, "a", "new", false), pod(&of, "b", "old", true), pod(&of, "c", "old", false)];
    assert_eq!(
        names(&plan(&of, spec(&of), "new", &nodes, &mixed, now).delete),
        ["c-old"],
        "what does not work goes at once"
    );
    let ready = [pod(&of, "a", "new", true), pod(&of, "b", "old", true), pod(&of, "c", "new", true)];
    assert_eq!(names(&plan(&of, spec(&of), "new", &nodes, &ready, now).delete), ["b-old"]);
    let done = ["a", "b", "c"].map(|name| pod(&of, name, "new", true));
    let last = plan(&of, spec(&of), "new", &nodes, &done, now);
    assert!(last.delete.is_empty() && last.create.is_empty());
    let (status, _) = status(&of, spec(&of), "new", &nodes, &done, now);
    assert_eq!(
        (status.updated_number_scheduled, status.number_available, status.number_unavailable),
        (Some(3), Some(3), None)
    );
}

#[test]
fn duplicates_and_ended_pods_go() {
    let now = jiff::Timestamp::now();
    let of = set(json!({"containers": []}), 1);
    let nodes = [node("a", json!({}), json!([]))];
    let mut second = Pod::clone(&pod(&of, "a", "h", true));
    second.metadata.name = Some("z".into());
    let twice = [pod(&of, "a", "h", true), Arc::new(second)];
    assert_eq!(names(&plan(&of, spec(&of), "h", &nodes, &twice, now).delete), ["z"]);
    let mut ended = Pod::clone(&twice[0]);
    ended.status.as_mut().unwrap().phase = Some("Failed".into());
    let plan = plan(&of, spec(&of), "h", &nodes, &[Arc::new(ended)], now);
    assert_eq!((names(&plan.delete), plan.create.len()), (vec!["a-h"], 0), "its successor comes when it is gone");
}
