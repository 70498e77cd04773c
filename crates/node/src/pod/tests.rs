//! Plans, statuses, environments and volumes as tables.

use super::env::{Facts, References, environment, expand, service_variables};
use super::model::{ContainerState, Ended, Phase, PodState, Sandbox};
use super::plan::{Action, crash_delay, plan};
use super::status::status;
use super::volumes::{Content, content, sub_path, write};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn pod(spec: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "labels": {"app": "web"}}, "spec": spec,
    }))
    .unwrap()
}

fn simple(policy: &str) -> Pod {
    pod(json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]}))
}

fn ready(containers: &[(&str, Phase)]) -> PodState {
    let containers = containers
        .iter()
        .map(|(name, phase)| ((*name).to_owned(), ContainerState { phase: phase.clone(), ..ContainerState::default() }))
        .collect();
    PodState { sandbox: Sandbox::Ready, containers, accepted_at: Some(at(0)), ..PodState::default() }
}

fn ended(code: i32) -> Phase {
    Phase::Ended(Ended {
        id: "id".into(),
        code,
        signal: None,
        reason: if code == 0 { "Completed" } else { "Error" }.into(),
        message: String::new(),
        started_at: at(0),
        finished_at: at(1),
    })
}

fn running() -> Phase {
    Phase::Running { id: "id".into(), started_at: at(0), started: true, ready: true, stopping: false }
}

fn start(name: &str) -> Vec<Action> {
    vec![Action::Start(name.into())]
}

#[test]
fn containers_start_in_order_and_again_as_the_policy_says() {
    let init = pod(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "a"}, {"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "c"}, {"name": "d"}],
    }));
    let starting = Phase::Starting { pulled: false };
    for (what, pod, state, actions) in [
        ("nothing yet", &simple("Always"), PodState::default(), vec![Action::SetUp]),
        ("set up", &simple("Always"), ready(&[]), start("c")),
        ("starting", &simple("Always"), ready(&[("c", starting)]), vec![]),
        ("running", &simple("Always"), ready(&[("c", running())]), vec![]),
        ("always", &simple("Always"), ready(&[("c", ended(0))]), start("c")),
        ("on failure", &simple("OnFailure"), ready(&[("c", ended(1))]), start("c")),
        ("success", &simple("OnFailure"), ready(&[("c", ended(0))]), vec![Action::TearDown]),
        ("never", &simple("Never"), ready(&[("c", ended(1))]), vec![Action::TearDown]),
        ("first init", &init, ready(&[]), start("a")),
        ("init failed", &init, ready(&[("a", ended(1))]), vec![Action::TearDown]),
        ("sidecar", &init, ready(&[("a", ended(0))]), start("s")),
        (
            "apps",
            &init,
            ready(&[("a", ended(0)), ("s", running())]),
            vec![Action::Start("c".into()), Action::Start("d".into())],
        ),
        (
            "apps ended, the sidecar has to",
            &init,
            ready(&[("a", ended(0)), ("s", running()), ("c", ended(0)), ("d", ended(0))]),
            vec![Action::Stop { name: "s".into(), grace: 30 }],
        ),
    ] {
        assert_eq!(plan(pod, &state, at(10)).actions, actions, "{what}");
    }
}

#[test]
fn crashes_delay_the_next_start() {
    let delays: Vec<i64> = (0..10).map(|n| crash_delay(n).as_secs()).collect();
    assert_eq!(delays, [0, 0, 10, 20, 40, 80, 160, 300, 300, 300]);
    let mut state = ready(&[("c", ended(1))]);
    state.containers.get_mut("c").unwrap().retry_at = Some(at(20));
    let early = plan(&simple("Always"), &state, at(10));
    assert_eq!((early.actions, early.wake_at), (vec![], Some(at(20))));
    assert_eq!(plan(&simple("Always"), &state, at(20)).actions, start("c"));
}

#[test]
fn a_deleted_pod_stops_is_removed_and_then_deleted() {
    let mut pod = simple("Always");
    pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(5)));
    pod.metadata.deletion_grace_period_seconds = Some(7);
    let stop = vec![Action::Stop { name: "c".into(), grace: 7 }];
    assert_eq!(plan(&pod, &ready(&[("c", running())]), at(5)).actions, stop);
    let pulling = ready(&[("c", Phase::Starting { pulled: false })]);
    assert_eq!(plan(&pod, &pulling, at(5)).actions, [Action::CallOff("c".into())]);
    let creating = ready(&[("c", Phase::Starting { pulled: true })]);
    assert_eq!(plan(&pod, &creating, at(5)).actions, []);
    let mut state = ready(&[("c", ended(137))]);
    assert_eq!(plan(&pod, &state, at(5)).actions, [Action::TearDown]);
    state.sandbox = Sandbox::Removed;
    assert_eq!(plan(&pod, &state, at(5)).actions, [Action::Delete]);
    state.deleted = true;
    assert_eq!(plan(&pod, &state, at(5)).actions, []);
}

#[test]
fn an_active_deadline_fails_the_pod() {
    let pod = pod(json!({"activeDeadlineSeconds": 10, "containers": [{"name": "c"}]}));
    let mut state = ready(&[("c", running())]);
    assert_eq!(plan(&pod, &state, at(9)).wake_at, Some(at(10)));
    assert!(
        matches!(&plan(&pod, &state, at(10)).actions[..], [Action::Fail { reason, .. }] if reason == "DeadlineExceeded")
    );
    state.failed = Some(("DeadlineExceeded".into(), "m".into()));
    assert_eq!(plan(&pod, &state, at(10)).actions, [Action::Stop { name: "c".into(), grace: 30 }]);
    state.containers.get_mut("c").unwrap().phase = ended(143);
    let status = status(&pod, &state, "h", at(11));
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")));
}

#[test]
fn statuses_use_upstreams_words() {
    let waiting = |reason: &str| Phase::Waiting { reason: reason.into(), message: "m".into() };
    for (what, policy, state, phase, ready_condition, current) in [
        ("new", "Always", PodState::default(), "Pending", "False", "/waiting/reason=ContainerCreating"),
        (
            "pull",
            "Always",
            ready(&[("c", waiting("ErrImagePull"))]),
            "Pending",
            "False",
            "/waiting/reason=ErrImagePull",
        ),
        ("run", "Always", ready(&[("c", running())]), "Running", "True", "/running/startedAt=2027-01-15T08:00:00Z"),
        ("done", "Never", ready(&[("c", ended(0))]), "Succeeded", "False", "/terminated/reason=Completed"),
        ("failed", "Never", ready(&[("c", ended(3))]), "Failed", "False", "/terminated/reason=Error"),
        ("first crash", "Always", ready(&[("c", ended(3))]), "Running", "False", "/terminated/reason=Error"),
    ] {
        let status = status(&simple(policy), &state, "10.0.2.15", at(2));
        assert_eq!(status["phase"], phase, "{what}");
        let ready = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
        assert_eq!(ready["status"], ready_condition, "{what}");
        // Null takes the words of an earlier state away.
        assert_eq!(ready.get("reason").is_some_and(Value::is_null), ready_condition == "True", "{what}");
        let (pointer, value) = current.split_once('=').unwrap();
        assert_eq!(status["containerStatuses"][0]["state"].pointer(pointer).unwrap(), value, "{what}");
    }
    let mut state = ready(&[("c", ended(3))]);
    state.containers.get_mut("c").unwrap().failures = 3;
    let status = status(&simple("Always"), &state, "h", at(2));
    let own = &status["containerStatuses"][0];
    assert_eq!(own["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(own["state"]["waiting"]["message"], "back-off 20s restarting failed container=c pod=p_d(u)");
    assert_eq!(own["lastState"]["terminated"]["exitCode"], 3);
    assert_eq!(status["qosClass"], "BestEffort");
}

#[test]
fn the_environment_resolves_references_in_order() {
    let pod = pod(json!({"containers": [{"name": "c",
    "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}},
    "envFrom": [{"prefix": "P_", "configMapRef": {"name": "m"}}, {"secretRef": {"name": "no", "optional": true}}],
    "env": [
        {"name": "A", "value": "$(P_k)-$(B)-$$(A)-$"},
        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "MEM", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "SKIP", "valueFrom": {"secretKeyRef": {"name": "s", "key": "none", "optional": true}}},
        {"name": "A", "value": "last"},
    ]}]}));
    let mut references = References::default();
    references.config_maps.insert("m".into(), Some(serde_json::from_value(json!({"data": {"k": "v"}})).unwrap()));
    references.secrets.insert("s".into(), Some(serde_json::from_value(json!({"data": {"k": "c2Vj"}})).unwrap()));
    let facts = Facts { host: "h".into(), address: "1.2.3.4".into(), node: "n".into(), node_cpus: 1, node_memory: 1 };
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let found = environment(&pod, container, &[("X".into(), "y".into())], &references, &facts).unwrap();
    let text: Vec<String> = found.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(text, ["X=y", "P_k=v", "A=last", "B=web", "IP=1.2.3.4", "CPU=2", "MEM=64", "S=sec"]);
    let error = environment(&pod, container, &[], &References::default(), &facts).unwrap_err();
    assert_eq!(error, "configmap \"m\" not found");
    let known = [("A".to_owned(), "1".to_owned())].into();
    assert_eq!(expand("$(A) $$(A) $(B) $A $(", &known), "1 $(A) $(B) $A $(");
}

#[test]
fn services_are_variables() {
    let service = serde_json::from_value(json!({
        "metadata": {"name": "my-db"},
        "spec": {"clusterIP": "10.96.0.9", "ports": [{"name": "sql", "port": 5432}]},
    }))
    .unwrap();
    let variables = service_variables(&service);
    for expected in [
        ("MY_DB_SERVICE_HOST", "10.96.0.9"),
        ("MY_DB_SERVICE_PORT", "5432"),
        ("MY_DB_SERVICE_PORT_SQL", "5432"),
        ("MY_DB_PORT", "tcp://10.96.0.9:5432"),
        ("MY_DB_PORT_5432_TCP_ADDR", "10.96.0.9"),
    ] {
        assert!(variables.iter().any(|(n, v)| (n.as_str(), v.as_str()) == expected), "{expected:?}");
    }
}

#[test]
fn volume_files_change_in_one_step() {
    let pod = pod(json!({"containers": [], "volumes": [
        {"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "dir/file", "mode": 0o400}]}},
    ]}));
    let volume = &pod.spec.as_ref().unwrap().volumes.as_ref().unwrap()[0];
    let facts = Facts { host: "h".into(), address: "a".into(), node: "n".into(), node_cpus: 1, node_memory: 1 };
    let of = |text: &str| {
        let mut references = References::default();
        let map = serde_json::from_value(json!({"data": {"k": text, "other": "x"}})).unwrap();
        references.config_maps.insert("m".into(), Some(map));
        content(&pod, volume, &references, &Default::default(), &facts).unwrap()
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dir/file");
    write(dir.path(), &of("one"), None).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"one");
    let first = std::fs::read_link(dir.path().join("..data")).unwrap();
    write(dir.path(), &of("one"), None).unwrap();
    assert_eq!(std::fs::read_link(dir.path().join("..data")).unwrap(), first, "nothing changed");
    write(dir.path(), &of("two"), None).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"two");
    assert!(!dir.path().join(first).exists());
    write(dir.path(), &Content::Files(vec![]), None).unwrap();
    assert!(std::fs::symlink_metadata(dir.path().join("dir")).is_err());
    let missing = content(&pod, volume, &References::default(), &Default::default(), &facts);
    assert_eq!(missing.unwrap_err(), "configmap \"m\" not found");
}

#[test]
fn a_sub_path_stays_in_its_volume() {
    let dir = tempfile::tempdir().unwrap();
    let volume = dir.path().join("v");
    std::fs::create_dir(&volume).unwrap();
    std::os::unix::fs::symlink("/etc", volume.join("out")).unwrap();
    assert!(sub_path(&volume, "a/b").unwrap().is_dir());
    for bad in ["../x", "/etc", "out", "a/../../x"] {
        assert!(sub_path(&volume, bad).is_err(), "{bad}");
    }
}
