use super::*;
use serde_json::json;

fn set(replicas: i32, min_ready: i32) -> ReplicaSet {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "rs", "generation": 2},
        "spec": {"replicas": replicas, "minReadySeconds": min_ready, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}}},
    }))
    .unwrap()
}

fn pod(name: &str, phase: &str, node: &str, ready: bool) -> Arc<Pod> {
    let ready = if ready { "True" } else { "False" };
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"app": "web"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": phase, "conditions": [
                {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:10Z"}]},
        }))
        .unwrap(),
    )
}

#[test]
fn lacking_pods_are_created_and_ended_ones_do_not_count() {
    let pods = [pod("a", "Running", "n1", true), pod("b", "Failed", "n1", false)];
    assert_eq!(decide(&set(3, 0), &pods, 500), Step::Create(2));
    assert_eq!(decide(&set(3, 0), &pods, 1), Step::Create(1), "bounded");
    assert_eq!(decide(&set(1, 0), &pods, 500), Step::Nothing);
    let mut deleted = Pod::clone(&pods[0]);
    deleted.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(decide(&set(1, 0), &[Arc::new(deleted)], 500), Step::Create(1), "what is going is replaced");
}

#[test]
fn the_least_useful_pods_go_first() {
    let pods = [
        pod("ready", "Running", "n1", true),
        pod("crowded", "Running", "n2", true),
        pod("crowded-2", "Running", "n2", true),
        pod("unready", "Running", "n3", false),
        pod("pending", "Pending", "n4", false),
        pod("unassigned", "Pending", "", false),
    ];
    let Step::Delete(gone) = decide(&set(2, 0), &pods, 500) else { panic!("too many") };
    let names: Vec<&str> = gone.iter().map(|pod| crate::meta::name(&pod.metadata)).collect();
    assert_eq!(names, ["unassigned", "pending", "unready", "crowded"]);
}

#[test]
fn the_status_counts_and_says_when_to_look_again() {
    let now: jiff::Timestamp = "2026-01-01T00:00:15Z".parse().unwrap();
    let pods = [pod("a", "Running", "n", true), pod("b", "Running", "n", false)];
    let Observed { status: first, look_again } = status(&set(2, 30), &pods, None, now);
    assert_eq!((first.replicas, first.ready_replicas, first.available_replicas), (2, Some(1), None));
    assert_eq!((first.fully_labeled_replicas, first.observed_generation), (Some(2), Some(2)));
    assert_eq!(look_again, Some(std::time::Duration::from_secs(25)));
    let Observed { status: later, look_again } = status(&set(2, 5), &pods, None, now);
    assert_eq!((later.available_replicas, look_again), (Some(1), None));
}

#[test]
fn a_failure_is_a_condition_until_it_is_over() {
    let mut set = set(1, 0);
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    let first = status(&set, &[], Some(("FailedCreate", "quota".into())), at(1)).status;
    set.status = Some(first.clone());
    let again = status(&set, &[], Some(("FailedCreate", "quota".into())), at(2)).status;
    assert_eq!(again, first, "the same failure is not news");
    assert_eq!(status(&set, &[], None, at(3)).status.conditions, None);
}
