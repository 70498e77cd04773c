//! What Pods do on a real node: run to an end, start one after the other, fail, and be watched over.

use crate::stage;
use anyhow::{Result, ensure};
use e2e::{PATIENCE, Stage, until};
use serde_json::Value;
use std::time::Instant;

const TASKS: &str = include_str!("manifests/tasks.yaml");
const FAILING: &str = include_str!("manifests/failing.yaml");
const AGENT: &str = include_str!("manifests/agent.yaml");
const IMPOSSIBLE: &str = include_str!("manifests/impossible.yaml");

fn end(stage: Stage, cluster: &str) -> Result<()> {
    stage.no_machine()?;
    stage.run(&["cluster", "delete", cluster])?;
    stage.strike()
}

fn state<'a>(pod: &'a Value, container: usize, which: &str, state: &str) -> &'a Value {
    &pod["status"]["containerStatuses"][container][which][state]
}

#[test]
fn tasks_run_to_their_end() -> Result<()> {
    let stage = stage()?;
    let kubectl = stage.cluster("tasks", &["--hold", "3"])?;
    kubectl.apply(TASKS)?;
    kubectl.wait(&["job/count"], "--for=condition=Complete")?;
    ensure!(kubectl.output(&["logs", "job/count"])? == "1\n2\n3\n", "a Job's log stays");
    ensure!(kubectl.get("job/count")?["status"]["succeeded"] == 1, "it ran once");

    kubectl.wait(&["pod/steps"], "--for=jsonpath={.status.phase}=Succeeded")?;
    let said = kubectl.output(&["logs", "steps", "--all-containers"])?;
    ensure!(said.contains("first then second"), "init containers in order, with an emptyDir between them: {said}");
    let steps = kubectl.get("pod/steps")?;
    ensure!(steps["status"]["initContainerStatuses"][1]["state"]["terminated"]["exitCode"] == 0, "{steps}");

    kubectl.wait(&["pod/hooks"], "--for=condition=Ready")?;
    ensure!(kubectl.output(&["exec", "hooks", "--", "cat", "/shared/begun"])? == "begun\n", "postStart has run");
    let logs = kubectl.stream(&["logs", "-f", "hooks"])?;
    let asked = Instant::now();
    kubectl.quiet(&["delete", "pod", "hooks"])?;
    logs.hear("preStop ran first, then TERM", PATIENCE)?;
    ensure!(asked.elapsed().as_secs() < 25, "a graceful end does not take its whole grace of 30 s");

    kubectl.run_with(&["delete", "-f", "-", "--ignore-not-found"], TASKS)?.ok()?;
    until("the Job's Pod to go with it", PATIENCE, || Ok(kubectl.names(&["pods"])?.is_empty()))?;
    end(stage, "tasks")
}

#[test]
fn failures_are_told_as_everywhere() -> Result<()> {
    let stage = stage()?;
    let kubectl = stage.cluster("failing", &["--hold", "3"])?;
    kubectl.apply(FAILING)?;
    let waits = |pod: &Value, reasons: &[&str]| {
        let reason = state(pod, 0, "state", "waiting")["reason"].as_str().unwrap_or_default();
        reasons.contains(&reason)
    };
    kubectl.until("pod/no-image", |pod| waits(pod, &["ErrImagePull", "ImagePullBackOff"]))?;
    kubectl.until("pod/crashing", |pod| waits(pod, &["CrashLoopBackOff"]))?;
    let previous = kubectl.output(&["logs", "crashing", "--previous"])?;
    ensure!(previous == "about to crash\n", "the last words of the one before: {previous}");
    let crashing = kubectl.get("pod/crashing")?;
    ensure!(state(&crashing, 0, "lastState", "terminated")["exitCode"] == 3, "its exit code: {crashing}");

    kubectl.until("pod/hungry", |pod| state(pod, 0, "state", "terminated")["reason"] == "OOMKilled")?;
    ensure!(state(&kubectl.get("pod/hungry")?, 0, "state", "terminated")["exitCode"] == 137, "killed");

    kubectl.until("pod/unhealthy", |pod| pod["status"]["containerStatuses"][0]["restartCount"].as_u64() > Some(0))?;
    until("an event of the failed probe", PATIENCE, || {
        Ok(kubectl
            .output(&["get", "events", "--field-selector", "reason=Unhealthy"])?
            .contains("Liveness probe failed"))
    })?;
    kubectl.wait(&["pod/probed"], "--for=condition=Ready")?;

    kubectl.run_with(&["delete", "-f", "-", "--grace-period=1"], FAILING)?.ok()?;
    end(stage, "failing")
}

#[test]
fn a_daemonset_does_not_hold_a_node_and_what_fits_none_brings_no_second() -> Result<()> {
    let stage = stage()?;
    let kubectl = stage.cluster("sizes", &["--hold", "3"])?;
    kubectl.apply(AGENT)?;
    kubectl.quiet(&["run", "visitor", "--image=localhost/busybox:1", "--command", "--", "sleep", "1000"])?;
    kubectl.wait(&["pod/visitor"], "--for=condition=Ready")?;
    kubectl.until("daemonset/agent", |set| set["status"]["numberReady"] == 1)?;

    kubectl.apply(IMPOSSIBLE)?;
    until("the reason why it waits", PATIENCE, || {
        let events = kubectl.output(&["get", "events", "--field-selector", "involvedObject.name=impossible"])?;
        Ok(events.contains("0/1 nodes are available: 1 Insufficient cpu"))
    })?;
    ensure!(kubectl.get("pod/impossible")?["status"]["phase"] == "Pending", "it waits");
    ensure!(stage.machines()?.len() == 1, "no further machine comes for what no machine can hold");

    kubectl.quiet(&["delete", "pod", "visitor", "impossible", "--grace-period=1"])?;
    stage.no_machine()?;
    until("zero nodes", PATIENCE, || Ok(kubectl.names(&["nodes"])?.is_empty()))?;
    ensure!(kubectl.names(&["daemonsets"])? == ["daemonset.apps/agent"], "the DaemonSet stays");
    end(stage, "sizes")
}
