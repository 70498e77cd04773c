//! The status of a Pod, from what is wanted and what is. No I/O, no clock but `now`.

use super::model::{ContainerState, Ended, Phase, PodState, Role, Sandbox, containers};
use super::plan::{crash_delay, initialized, is_finished, is_terminating, policy, restarts};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

/// A time as objects write it: whole seconds.
pub(crate) fn time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// The whole status, for a Pod on the node with this address.
pub(crate) fn status(pod: &Pod, state: &PodState, host: &str, now: Timestamp) -> Value {
    let phase = phase(pod, state);
    let mut init = Vec::new();
    let mut app = Vec::new();
    let mut unready = Vec::new();
    for (role, container) in containers(pod) {
        let own = state.container(&container.name);
        let status = container_status(pod, state, role, container, &own);
        if role != Role::Init && status["ready"] != true {
            unready.push(container.name.clone());
        }
        if role == Role::App { &mut app } else { &mut init }.push(status);
    }
    let own_network = pod.spec.as_ref().and_then(|spec| spec.host_network) != Some(true);
    let address = if own_network { state.address.map(|a| a.to_string()) } else { Some(host.to_owned()) };
    let qos = serde_json::to_value(pod).map(|pod| qos_class(&pod)).unwrap_or_default();
    let mut status = json!({
        "phase": phase,
        "conditions": conditions(pod, state, phase, &unready, now),
        "hostIP": host, "hostIPs": [{"ip": host}],
        "containerStatuses": app,
        "qosClass": pod.status.as_ref().and_then(|s| s.qos_class.clone()).unwrap_or(qos),
    });
    if !init.is_empty() {
        status["initContainerStatuses"] = init.into();
    }
    if let Some(address) = address {
        status["podIP"] = address.clone().into();
        status["podIPs"] = json!([{"ip": address}]);
    }
    if let Some(accepted) = state.accepted_at {
        status["startTime"] = time(accepted).into();
    }
    if let Some((reason, message)) = &state.failed {
        status["reason"] = reason.clone().into();
        status["message"] = message.clone().into();
    }
    if let Some(generation) = pod.metadata.generation {
        status["observedGeneration"] = generation.into();
    }
    status
}

fn qos_class(pod: &Value) -> String {
    apimachinery::builtin::qos_class(&pod["spec"]).to_owned()
}

/// The Pod's phase.
pub(crate) fn phase(pod: &Pod, state: &PodState) -> &'static str {
    let ending = is_terminating(pod, state) || is_finished(pod, state);
    if ending && state.is_quiet() {
        let begun = |own: &ContainerState| matches!(own.phase, Phase::Ended(_)) || own.last.is_some();
        let good = containers(pod).filter(|(role, _)| *role != Role::Sidecar).all(|(role, container)| {
            match &state.container(&container.name).phase {
                Phase::Ended(ended) => ended.code == 0,
                _ => role == Role::Init,
            }
        });
        let any = state.containers.values().any(begun);
        return if good && state.failed.is_none() && any { "Succeeded" } else { "Failed" };
    }
    if state.failed.is_some() {
        return "Running";
    }
    let apps = containers(pod).filter(|(role, _)| *role == Role::App);
    let never_begun = apps.into_iter().any(|(_, container)| {
        let own = state.container(&container.name);
        own.last.is_none() && matches!(own.phase, Phase::Waiting { .. } | Phase::Starting { .. })
    });
    if never_begun { "Pending" } else { "Running" }
}

fn container_status(pod: &Pod, state: &PodState, role: Role, container: &Container, own: &ContainerState) -> Value {
    let mut started = false;
    let mut ready = false;
    let mut id = own.last.as_ref().map(|last| last.id.clone()).unwrap_or_default();
    let mut last = own.last.as_ref();
    let backing_off = |ended: &Ended| {
        !is_terminating(pod, state)
            && !is_finished(pod, state)
            && restarts(policy(pod), role, ended.code)
            && own.failures > 1
    };
    let current = match &own.phase {
        Phase::Waiting { reason, message } => waiting(&first_reason(pod, state, role, reason), message),
        Phase::Starting { .. } => match &own.last {
            // Upstream goes on showing the end until the container runs again.
            Some(ended) => terminated(ended),
            None => waiting(&first_reason(pod, state, role, ""), ""),
        },
        Phase::Running { id: running, started_at, started: passed, ready: is_ready, .. } => {
            id.clone_from(running);
            started = *passed;
            ready = *passed && *is_ready;
            json!({"running": {"startedAt": time(*started_at)}})
        }
        Phase::Ended(ended) => {
            id.clone_from(&ended.id);
            ready = role == Role::Init && ended.code == 0;
            if backing_off(ended) {
                last = Some(ended);
                let delay = seconds(crash_delay(own.failures).as_secs());
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                let message = format!(
                    "back-off {delay} restarting failed container={} pod={name}_{namespace}({uid})",
                    container.name
                );
                waiting("CrashLoopBackOff", &message)
            } else {
                terminated(ended)
            }
        }
    };
    let mut status = json!({
        "name": container.name, "image": container.image.clone().unwrap_or_default(), "imageID": own.image_id,
        "ready": ready, "started": started, "restartCount": own.restarts, "state": current,
        "lastState": last.map_or_else(|| json!({}), terminated),
    });
    if !id.is_empty() {
        status["containerID"] = format!("socialweb-node://{id}").into();
    }
    status
}

fn seconds(total: i64) -> String {
    match (total / 60, total % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

/// The reason for which a container waits that nothing went wrong with.
fn first_reason(pod: &Pod, state: &PodState, role: Role, reason: &str) -> String {
    if !reason.is_empty() {
        return reason.to_owned();
    }
    let has_init = containers(pod).any(|(role, _)| role != Role::App);
    let waits = match role {
        Role::App => has_init && !init_done(pod, state),
        _ => true,
    };
    if waits { "PodInitializing" } else { "ContainerCreating" }.to_owned()
}

fn waiting(reason: &str, message: &str) -> Value {
    if message.is_empty() {
        json!({"waiting": {"reason": reason}})
    } else {
        json!({"waiting": {"reason": reason, "message": message}})
    }
}

fn terminated(ended: &Ended) -> Value {
    let mut inner = json!({
        "exitCode": ended.code, "reason": ended.reason,
        "startedAt": time(ended.started_at), "finishedAt": time(ended.finished_at),
        "containerID": format!("socialweb-node://{}", ended.id),
    });
    if !ended.message.is_empty() {
        inner["message"] = ended.message.clone().into();
    }
    json!({"terminated": inner})
}

/// Whether every init container has done its part.
fn init_done(pod: &Pod, state: &PodState) -> bool {
    initialized(pod, state)
        || containers(pod).all(|(role, container)| match (role, &state.container(&container.name).phase) {
            (Role::App, _) => true,
            (Role::Init, Phase::Ended(ended)) => ended.code == 0,
            (Role::Sidecar, Phase::Running { started, .. }) => *started,
            _ => false,
        })
}

struct Condition {
    status: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Condition {
    fn holds() -> Self {
        Self { status: true, reason: None, message: None }
    }

    fn not(reason: &'static str, message: Option<String>) -> Self {
        Self { status: false, reason: Some(reason), message }
    }
}

fn conditions(pod: &Pod, state: &PodState, phase: &str, unready: &[String], now: Timestamp) -> Value {
    let old = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let over = match phase {
        "Succeeded" => Some("PodCompleted"),
        "Failed" => Some("PodFailed"),
        _ => None,
    };
    let names = format!("[{}]", unready.join(" "));
    let containers_ready = match over {
        Some(reason) => Condition::not(reason, None),
        None if unready.is_empty() => Condition::holds(),
        None => Condition::not("ContainersNotReady", Some(format!("containers with unready status: {names}"))),
    };
    let gates: Vec<&str> = pod
        .spec
        .iter()
        .flat_map(|spec| spec.readiness_gates.iter().flatten())
        .map(|gate| gate.condition_type.as_str())
        .filter(|gate| !old.iter().any(|condition| condition.type_ == *gate && condition.status == "True"))
        .collect();
    let ready = match over {
        Some(reason) => Condition::not(reason, None),
        None if !containers_ready.status => Condition::not("ContainersNotReady", containers_ready.message.clone()),
        None if gates.is_empty() => Condition::holds(),
        None => Condition::not(
            "ReadinessGatesNotReady",
            Some(format!("the status of pod readiness gate {:?} is not \"True\", but False", gates[0])),
        ),
    };
    let done = init_done(pod, state);
    let initialized = if done || phase == "Succeeded" {
        Condition { status: true, reason: over.filter(|_| phase == "Succeeded"), message: None }
    } else {
        let waiting: Vec<String> = containers(pod)
            .filter(|(role, container)| {
                *role != Role::App
                    && !matches!(&state.container(&container.name).phase, Phase::Ended(ended) if ended.code == 0)
            })
            .map(|(_, container)| container.name.clone())
            .collect();
        let message = format!("containers with incomplete status: [{}]", waiting.join(" "));
        Condition::not("ContainersNotInitialized", Some(message))
    };
    let sandbox = Condition { status: state.sandbox == Sandbox::Ready, reason: None, message: None };
    let own = [
        ("PodReadyToStartContainers", sandbox),
        ("Initialized", initialized),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", Condition::holds()),
    ];
    let rendered = own.into_iter().map(|(kind, condition)| {
        let word = if condition.status { "True" } else { "False" };
        let unchanged = old.iter().find(|old| old.type_ == kind && old.status == word);
        let since = unchanged.and_then(|old| old.last_transition_time.as_ref()).map_or(now, |time| time.0);
        // A patch removes what it says is null: words of an earlier state must not stay.
        let mut value = json!({
            "type": kind, "status": word, "lastTransitionTime": time(since),
            "reason": condition.reason, "message": condition.message,
        });
        if let Some(generation) = pod.metadata.generation {
            value["observedGeneration"] = generation.into();
        }
        value
    });
    rendered.collect()
}
