//! What `kubectl get` shows of objects in the states that people look for.

use super::all;
use crate::table::{IncludeObject, render};
use serde_json::{Value, json};

/// The cells of an object's row, by heading.
fn row(kind: &str, mut object: Value) -> Value {
    let definition = all().iter().find(|definition| definition.gvk.kind == kind).unwrap();
    object["metadata"]["name"] = "x".into();
    object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    let table = render(definition, [&object], "2026-01-01T00:05:00Z".parse().unwrap(), IncludeObject::None);
    let headings = table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap());
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    headings.zip(cells).map(|(heading, cell)| (heading.to_owned(), cell.clone())).collect()
}

fn cells(row: &Value, headings: &[&str]) -> Vec<String> {
    headings
        .iter()
        .map(|heading| row[heading].as_str().map_or_else(|| row[heading].to_string(), str::to_owned))
        .collect()
}

fn pod(init: Value, main: Value, phase: &str) -> Value {
    json!({
        "metadata": {},
        "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]},
        "status": {"phase": phase, "initContainerStatuses": init, "containerStatuses": main},
    })
}

fn state(name: &str, state: Value, ready: bool, restarts: u32) -> Value {
    json!([{"name": name, "state": state, "ready": ready, "restartCount": restarts}])
}

#[test]
fn pods() {
    let done = || state("i", json!({"terminated": {"exitCode": 0, "reason": "Completed"}}), true, 0);
    let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
    let ended = |code: i32, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
    let table = [
        (pod(json!([]), json!([]), "Pending"), ["0/1", "Pending", "0"]),
        (pod(state("i", json!({"running": {}}), false, 0), json!([]), "Pending"), ["0/1", "Init:0/1", "0"]),
        (
            pod(
                state("i", waiting("PodInitializing"), false, 0),
                state("c", waiting("PodInitializing"), false, 0),
                "Pending",
            ),
            ["0/1", "Init:0/1", "0"],
        ),
        (pod(state("i", ended(1, "Error"), false, 2), json!([]), "Pending"), ["0/1", "Init:Error", "2"]),
        (pod(done(), state("c", waiting("ContainerCreating"), false, 0), "Pending"), ["0/1", "ContainerCreating", "0"]),
        (pod(done(), state("c", json!({"running": {}}), true, 0), "Running"), ["1/1", "Running", "0"]),
        (pod(done(), state("c", json!({"running": {}}), false, 1), "Running"), ["0/1", "Running", "1"]),
        (pod(done(), state("c", waiting("CrashLoopBackOff"), false, 3), "Running"), ["0/1", "CrashLoopBackOff", "3"]),
        (pod(done(), state("c", waiting("ImagePullBackOff"), false, 0), "Pending"), ["0/1", "ImagePullBackOff", "0"]),
        (pod(done(), state("c", ended(0, "Completed"), false, 0), "Succeeded"), ["0/1", "Completed", "0"]),
        (pod(done(), state("c", ended(137, "OOMKilled"), false, 0), "Failed"), ["0/1", "OOMKilled", "0"]),
        (pod(done(), state("c", ended(3, ""), false, 0), "Failed"), ["0/1", "ExitCode:3", "0"]),
    ];
    for (object, expected) in table {
        assert_eq!(cells(&row("Pod", object.clone()), &["Ready", "Status", "Restarts"]), expected, "{object}");
    }
    let mut leaving = pod(done(), state("c", json!({"running": {}}), true, 0), "Running");
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:04:00Z".into();
    assert_eq!(row("Pod", leaving)["Status"], "Terminating");
    let mut restarted = pod(done(), state("c", json!({"running": {}}), true, 2), "Running");
    restarted["status"]["containerStatuses"][0]["lastState"] =
        json!({"terminated": {"finishedAt": "2026-01-01T00:04:00Z"}});
    assert_eq!(cells(&row("Pod", restarted), &["Restarts", "Age", "Node"]), ["2 (60s ago)", "5m", "<none>"]);
    let evicted =
        json!({"metadata": {}, "spec": {"containers": [{}]}, "status": {"phase": "Failed", "reason": "Evicted"}});
    assert_eq!(row("Pod", evicted)["Status"], "Evicted");
}

#[test]
fn nodes() {
    let node = |ready: Value, unschedulable: bool| {
        json!({
            "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}},
            "spec": {"unschedulable": unschedulable},
            "status": {"conditions": ready, "nodeInfo": {"kubeletVersion": "v1.36.0"}},
        })
    };
    let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
    for (object, status) in [
        (node(ready("True"), false), "Ready"),
        (node(ready("True"), true), "Ready,SchedulingDisabled"),
        (node(ready("Unknown"), false), "NotReady"),
        (node(json!([]), false), "Unknown"),
    ] {
        assert_eq!(cells(&row("Node", object), &["Status", "Roles", "Version"]), [status, "worker", "v1.36.0"]);
    }
}

#[test]
fn workloads() {
    let deployment = json!({
        "metadata": {},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "a"}},
            "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
        "status": {"readyReplicas": 1, "updatedReplicas": 2},
    });
    let shown = ["Ready", "Up-to-date", "Available", "Age", "Containers", "Images", "Selector"];
    assert_eq!(cells(&row("Deployment", deployment), &shown), ["1/3", "2", "0", "5m", "c", "i", "app=a"]);
    let job = json!({
        "metadata": {}, "spec": {"completions": 1, "parallelism": 1},
        "status": {
            "succeeded": 1, "startTime": "2026-01-01T00:01:00Z", "completionTime": "2026-01-01T00:01:30Z",
            "conditions": [{"type": "Complete", "status": "True"}],
        },
    });
    assert_eq!(cells(&row("Job", job), &["Status", "Completions", "Duration"]), ["Complete", "1/1", "30s"]);
}

#[test]
fn services_and_events() {
    let service = json!({
        "metadata": {},
        "spec": {"type": "NodePort", "clusterIP": "10.96.0.7", "ports": [
            {"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"},
        ]},
    });
    let shown = ["Type", "Cluster-IP", "External-IP", "Port(s)"];
    assert_eq!(cells(&row("Service", service), &shown), ["NodePort", "10.96.0.7", "<none>", "80:30080/TCP,53/UDP"]);
    let event = json!({
        "metadata": {}, "type": "Normal", "reason": "Started", "message": "Started container c\n",
        "involvedObject": {"kind": "Pod", "name": "p"},
        "firstTimestamp": "2026-01-01T00:01:00Z", "lastTimestamp": "2026-01-01T00:04:30Z", "count": 2,
    });
    let shown = ["Last Seen", "Object", "Message", "First Seen", "Count"];
    assert_eq!(cells(&row("Event", event), &shown), ["30s", "pod/p", "Started container c", "4m", "2"]);
}
