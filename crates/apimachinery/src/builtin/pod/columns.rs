//! What `kubectl get pods` prints.

use crate::builtin::columns::{NONE, age, name, or_none, string, wide};
use crate::builtin::value::{flag, int, is_set, list, text};
use crate::definition::PrinterColumn;
use crate::table::translate_timestamp;
use jiff::Timestamp;
use serde_json::Value;

pub(in crate::builtin) fn columns() -> Vec<PrinterColumn> {
    vec![
        name(),
        string("Ready", "The aggregate readiness state of this pod for accepting traffic.", |pod, _| {
            let summary = summary(pod);
            format!("{}/{}", summary.ready, summary.total).into()
        }),
        string("Status", "The aggregate status of the containers in this pod.", |pod, _| summary(pod).status.into()),
        string("Restarts", "How often the containers were restarted, and when last.", |pod, now| {
            let summary = summary(pod);
            match summary.last_restart.filter(|_| summary.restarts > 0) {
                Some(at) => {
                    let ago = translate_timestamp(&at.to_string().into(), now);
                    format!("{} ({ago} ago)", summary.restarts).into()
                }
                None => summary.restarts.to_string().into(),
            }
        }),
        age(),
        wide(string("IP", "Address allocated to the pod.", |pod, _| {
            let first = list(&pod["status"], "podIPs").first().map_or("", |ip| text(ip, "ip"));
            or_none(if first.is_empty() { text(&pod["status"], "podIP") } else { first })
        })),
        wide(string("Node", "Node that the pod is bound to.", |pod, _| or_none(text(&pod["spec"], "nodeName")))),
        wide(string("Nominated Node", "Node that the scheduler freed for the pod.", |pod, _| {
            or_none(text(&pod["status"], "nominatedNodeName"))
        })),
        wide(string("Readiness Gates", "Conditions that make the pod ready, of all that are asked for.", |pod, _| {
            let gates = list(&pod["spec"], "readinessGates");
            let met = gates.iter().filter(|gate| condition(pod, text(gate, "conditionType")) == "True").count();
            if gates.is_empty() { NONE.into() } else { format!("{met}/{}", gates.len()).into() }
        })),
    ]
}

/// What the columns say of a Pod.
struct Summary {
    ready: usize,
    total: usize,
    status: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

fn condition<'a>(pod: &'a Value, type_: &str) -> &'a str {
    let conditions = list(&pod["status"], "conditions");
    conditions.iter().find(|condition| text(condition, "type") == type_).map_or("", |found| text(found, "status"))
}

fn summary(pod: &Value) -> Summary {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let phase = text(status, "phase");
    let reason = if text(status, "reason").is_empty() { phase } else { text(status, "reason") };
    let sidecars: Vec<_> = list(spec, "initContainers")
        .iter()
        .filter(|container| text(container, "restartPolicy") == "Always")
        .map(|container| text(container, "name"))
        .collect();
    let mut summary = Summary {
        ready: 0,
        total: list(spec, "containers").len() + sidecars.len(),
        status: reason.to_owned(),
        restarts: 0,
        last_restart: None,
    };
    let gated = list(status, "conditions")
        .iter()
        .any(|c| text(c, "type") == "PodScheduled" && text(c, "reason") == "SchedulingGated");
    if gated {
        summary.status = "SchedulingGated".into();
    }
    let initializing = init_containers(pod, &sidecars, &mut summary);
    if !initializing || condition(pod, "Initialized") == "True" {
        main_containers(pod, &sidecars, &mut summary);
    }
    if is_set(&pod["metadata"], "deletionTimestamp") {
        if text(status, "reason") == "NodeLost" {
            summary.status = "Unknown".into();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            summary.status = "Terminating".into();
        }
    }
    summary
}

/// Adds the init containers up to the first that is not done; says whether there is one.
fn init_containers(pod: &Value, sidecars: &[&str], summary: &mut Summary) -> bool {
    let count = list(&pod["spec"], "initContainers").len();
    for (i, container) in list(&pod["status"], "initContainerStatuses").iter().enumerate() {
        restarted(container, summary);
        let terminated = &container["state"]["terminated"];
        let waiting = text(&container["state"]["waiting"], "reason");
        if terminated.is_object() && int(terminated, "exitCode") == Some(0) {
            continue;
        }
        if sidecars.contains(&text(container, "name")) && flag(container, "started") {
            summary.ready += usize::from(flag(container, "ready"));
            continue;
        }
        summary.status = if terminated.is_object() {
            format!("Init:{}", termination(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{i}/{count}")
        };
        return true;
    }
    false
}

fn main_containers(pod: &Value, sidecars: &[&str], summary: &mut Summary) {
    // From here on, of the init containers only those that keep running count.
    summary.restarts = 0;
    summary.last_restart = None;
    for container in list(&pod["status"], "initContainerStatuses") {
        if sidecars.contains(&text(container, "name")) {
            restarted(container, summary);
        }
    }
    let mut running = false;
    for container in list(&pod["status"], "containerStatuses").iter().rev() {
        restarted(container, summary);
        let state = &container["state"];
        let waiting = text(&state["waiting"], "reason");
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.status);
        } else if state["terminated"].is_object() {
            summary.status = termination(&state["terminated"]);
        } else if flag(container, "ready") && state["running"].is_object() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.status == "Completed" && running {
        let ready = condition(pod, "Ready") == "True";
        summary.status = if ready { "Running" } else { "NotReady" }.into();
    }
}

fn restarted(container: &Value, summary: &mut Summary) {
    summary.restarts += int(container, "restartCount").unwrap_or(0);
    let finished = text(&container["lastState"]["terminated"], "finishedAt");
    summary.last_restart = summary.last_restart.max(finished.parse().ok());
}

/// Why a container ended: its reason, or the signal or exit code.
fn termination(terminated: &Value) -> String {
    let signal = int(terminated, "signal").unwrap_or(0);
    match text(terminated, "reason") {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", int(terminated, "exitCode").unwrap_or(0)),
        reason => reason.to_owned(),
    }
}
