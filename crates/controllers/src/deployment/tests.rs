use super::rollout::{Scale, proportional, rolling};
use super::*;
use serde_json::{Value, json};

fn deployment(replicas: i32, strategy: Value, image: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 1,
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x", "kubernetes.io/change-cause": "me"}},
        "spec": {"replicas": replicas, "strategy": strategy, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image}]}}},
    }))
    .unwrap()
}

fn spec(deployment: &Deployment) -> &DeploymentSpec {
    deployment.spec.as_ref().unwrap()
}

/// A ReplicaSet of the Deployment's template for `image`: told to have, has, of which available.
fn set(image: &str, (told, has, available): (i32, i32, i32), revision: i64, desired: i32) -> Arc<ReplicaSet> {
    let of = deployment(desired, Value::Null, image);
    let mut set = history::make(&of, spec(&of), told, revision);
    set.metadata.uid = Some(format!("uid-{image}"));
    set.metadata.name = Some(image.to_owned());
    set.status = Some(
        serde_json::from_value(json!({"replicas": has, "readyReplicas": available, "availableReplicas": available}))
            .unwrap(),
    );
    Arc::new(set)
}

fn rolling_strategy(surge: Value, unavailable: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

fn scales(list: &[(&str, i32)]) -> Vec<Scale> {
    list.iter().map(|(name, replicas)| Scale { name: (*name).to_owned(), replicas: *replicas }).collect()
}

#[test]
fn a_rolling_update_keeps_within_its_bounds_to_the_end() {
    for (surge, unavailable) in
        [(json!(1), json!(0)), (json!(0), json!(1)), (json!("25%"), json!("25%")), (json!(10), json!(10))]
    {
        let wanted = 10;
        let of = deployment(wanted, rolling_strategy(surge.clone(), unavailable.clone()), "new");
        let (most_surge, most_unavailable) = rollout::fenceposts(spec(&of));
        let (mut old, mut new) = ((wanted, wanted, wanted), (0, 0, 0));
        let mut steps = 0;
        loop {
            let sets = [set("old", old, 1, wanted), set("new", new, 2, wanted)];
            if rollout::is_complete(spec(&of), &sets) {
                break;
            }
            for scale in rolling(spec(&of), &sets) {
                if scale.name == "old" { old.0 = scale.replicas } else { new.0 = scale.replicas }
            }
            assert!(old.0 + new.0 <= wanted + most_surge, "{surge} {unavailable}: {old:?} {new:?}");
            // Pods go at once; new ones become available one by one.
            old = (old.0, old.0, old.2.min(old.0));
            new = (new.0, new.0, (new.2 + 1).min(new.0));
            assert!(old.2 + new.2 >= wanted - most_unavailable, "{surge} {unavailable}: {old:?} {new:?}");
            steps += 1;
            assert!(steps < 100, "{surge} {unavailable} does not end: {old:?} {new:?}");
        }
        assert_eq!((old.0, new.0), (0, wanted));
    }
}

#[test]
fn replicas_that_do_not_work_are_replaced_first() {
    let of = deployment(4, rolling_strategy(json!(0), json!(1)), "new");
    let sets = [set("old", (4, 4, 3), 1, 4), set("new", (0, 0, 0), 2, 4)];
    assert_eq!(rolling(spec(&of), &sets), scales(&[("old", 3)]));
    let sets = [set("old", (3, 3, 3), 1, 4), set("new", (1, 1, 0), 2, 4)];
    assert_eq!(rolling(spec(&of), &sets), [], "the new one has to work first");
}

#[test]
fn a_changed_number_is_shared_in_proportion() {
    let strategy = || rolling_strategy(json!(3), json!(2));
    let sets = [set("old", (8, 8, 8), 1, 10), set("new", (5, 5, 5), 2, 10)];
    let grown = proportional(spec(&deployment(20, strategy(), "new")), &sets);
    assert_eq!(grown.iter().map(|scale| scale.replicas).sum::<i32>(), 23);
    let shrunk = proportional(spec(&deployment(4, strategy(), "new")), &sets);
    assert_eq!(shrunk.iter().map(|scale| scale.replicas).sum::<i32>(), 7);
    let none = proportional(spec(&deployment(0, strategy(), "new")), &sets);
    assert_eq!(none.iter().map(|scale| scale.replicas).sum::<i32>(), 0);
    let only = [set("new", (5, 5, 5), 1, 5)];
    assert_eq!(proportional(spec(&deployment(2, strategy(), "new")), &only), scales(&[("new", 2)]));
}

#[test]
fn revisions_count_up_and_going_back_makes_the_old_one_the_newest() {
    let of = deployment(1, Value::Null, "old");
    let sets = [set("old", (0, 0, 0), 1, 1), set("new", (1, 1, 1), 2, 1)];
    let current = rollout::current(spec(&of), &sets).expect("the template is the old one's again");
    assert_eq!(name(&current.metadata), "old");
    let next = history::next_revision(&sets, Some(current));
    assert_eq!(next, 3);
    let annotations = history::annotations_of(&of, current, next, spec(&of)).expect("they change");
    assert_eq!(annotations[history::REVISION], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(annotations["kubernetes.io/change-cause"], "me");
    assert!(!annotations.contains_key("kubectl.kubernetes.io/last-applied-configuration"));
}

#[test]
fn a_new_set_carries_the_hash_everywhere() {
    let of = deployment(3, Value::Null, "new");
    let set = history::make(&of, spec(&of), 3, 7);
    let set_spec = set.spec.unwrap();
    let hash = set_spec.selector.match_labels.unwrap()["pod-template-hash"].clone();
    assert_eq!(set.metadata.name, Some(format!("web-{hash}")));
    assert_eq!(set.metadata.labels.unwrap()["pod-template-hash"], hash);
    assert_eq!(set_spec.template.unwrap().metadata.unwrap().labels.unwrap()["pod-template-hash"], hash);
    let annotations = set.metadata.annotations.unwrap();
    assert_eq!(annotations[history::REVISION], "7");
    assert_eq!(annotations[history::DESIRED_REPLICAS], "3");
    assert_eq!(annotations[MAX_REPLICAS], "4");
}

#[test]
fn only_the_oldest_empty_sets_beyond_the_limit_go() {
    let mut of = deployment(1, Value::Null, "c");
    of.spec.as_mut().unwrap().revision_history_limit = Some(1);
    let sets =
        [set("a", (0, 0, 0), 1, 1), set("b", (0, 0, 0), 2, 1), set("c", (1, 1, 1), 3, 1), set("d", (1, 1, 1), 0, 1)];
    let gone: Vec<&str> = history::superfluous(spec(&of), &sets).iter().map(|set| name(&set.metadata)).collect();
    assert_eq!(gone, ["a"]);
}

fn condition(status: &k8s_openapi::api::apps::v1::DeploymentStatus, type_: &str) -> (String, String) {
    let found = status.conditions.iter().flatten().find(|condition| condition.type_ == type_).unwrap();
    (found.status.clone(), found.reason.clone().unwrap())
}

#[test]
fn a_rollout_progresses_completes_and_times_out() {
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    let pair = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
    let mut of = deployment(2, Value::Null, "new");
    let none = [set("new", (2, 2, 0), 1, 2)];
    let (status, look_again) = progress::status(&of, spec(&of), &none, at(0));
    assert_eq!(condition(&status, "Progressing"), pair("True", "NewReplicaSetCreated"));
    assert_eq!(condition(&status, "Available"), pair("False", "MinimumReplicasUnavailable"));
    assert_eq!(look_again, Some(std::time::Duration::from_secs(600)));
    of.status = Some(status);
    let (status, _) = progress::status(&of, spec(&of), &none, at(601));
    assert_eq!(condition(&status, "Progressing"), pair("False", "ProgressDeadlineExceeded"));
    of.status = Some(status);
    let one = [set("new", (2, 2, 1), 1, 2)];
    let (status, _) = progress::status(&of, spec(&of), &one, at(700));
    assert_eq!(condition(&status, "Progressing"), pair("True", "ReplicaSetUpdated"));
    of.status = Some(status);
    let all = [set("new", (2, 2, 2), 1, 2)];
    let (status, look_again) = progress::status(&of, spec(&of), &all, at(710));
    assert_eq!(condition(&status, "Progressing"), pair("True", "NewReplicaSetAvailable"));
    assert_eq!(condition(&status, "Available"), pair("True", "MinimumReplicasAvailable"));
    assert_eq!(
        (status.updated_replicas, status.available_replicas, status.unavailable_replicas),
        (Some(2), Some(2), None)
    );
    assert_eq!(look_again, None);
    of.status = Some(status.clone());
    let (again, _) = progress::status(&of, spec(&of), &all, at(99_999));
    assert_eq!(again, status, "nothing is news");
}
