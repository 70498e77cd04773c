//! One cluster from nothing to a running workload and back to zero nodes, with what a user does to
//! a workload on the way.

use crate::{WEB, stage};
use anyhow::{Result, ensure};
use e2e::{Kubectl, PATIENCE, Stage, until};
use std::fs;

const ECHO: &str = include_str!("manifests/echo.yaml");
const NO_NODES: &str = "no nodes available to schedule pods";

#[test]
fn from_nothing_to_a_workload_and_back_to_zero_nodes() -> Result<()> {
    let stage = stage()?;
    let kubectl = stage.cluster("story", &["--hold", "3"])?;
    ensure!(kubectl.names(&["nodes"])?.is_empty(), "a new cluster has no nodes");
    ensure!(kubectl.output(&["get", "namespaces"])?.contains("kube-system"), "a new cluster has its namespaces");

    kubectl.apply(WEB)?;
    pending_at_zero_nodes(&kubectl)?;
    let machine = stage.machine()?;

    kubectl.wait(&["deployment/web"], "--for=condition=Available")?;
    ensure!(kubectl.names(&["nodes"])?.len() == 1, "one node runs it");
    ensure!(stage.machines()?.len() == 1 && stage.machine()?.id() == machine.id(), "and it is the machine that came");
    logs_follow_what_port_forward_brings(&kubectl)?;
    exec_passes_input_output_and_exit_code(&kubectl)?;
    files_are_copied(&stage, &kubectl)?;
    attach_talks_to_the_process(&kubectl)?;
    scale_and_restart(&kubectl)?;

    kubectl.run_with(&["delete", "-f", "-"], WEB)?.ok()?;
    kubectl.quiet(&["delete", "pod", "echo"])?;
    until("zero nodes", PATIENCE, || Ok(kubectl.names(&["nodes"])?.is_empty()))?;
    stage.no_machine()?;
    ensure!(kubectl.names(&["ns"])?.contains(&"namespace/default".to_owned()), "the API still answers");
    stage.run(&["cluster", "delete", "story"])?;
    stage.strike()
}

/// Kubernetes' own words for what cannot be done yet.
fn pending_at_zero_nodes(kubectl: &Kubectl) -> Result<()> {
    let mut pods = Vec::new();
    until("the Deployment's Pod", PATIENCE, || {
        pods = kubectl.names(&["pods"])?;
        Ok(!pods.is_empty())
    })?;
    let pod = pods[0].as_str();
    let name = pod.trim_start_matches("pod/");
    let unassigned = format!("pod {name} does not have a host assigned");
    kubectl.run(&["exec", name, "--", "true"])?.refused(&unassigned)?;
    ensure!(kubectl.output(&["logs", name])?.is_empty(), "there is nothing to say yet");
    kubectl.run(&["port-forward", pod, ":8080"])?.refused("pod is not running. Current status=Pending")?;
    until("a FailedScheduling event", PATIENCE, || {
        Ok(kubectl.output(&["get", "events", "--field-selector", "reason=FailedScheduling"])?.contains(NO_NODES))
    })?;
    kubectl.until(pod, |pod| {
        let scheduled = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut scheduled = scheduled.filter(|condition| condition["type"] == "PodScheduled");
        pod["status"]["phase"] == "Pending"
            && scheduled.any(|condition| condition["status"] == "False" && condition["reason"] == "Unschedulable")
    })
}

fn logs_follow_what_port_forward_brings(kubectl: &Kubectl) -> Result<()> {
    let logs = kubectl.stream(&["logs", "-f", "deployment/web", "--since=1h"])?;
    logs.hear("listening", PATIENCE)?;
    let forward = kubectl.port_forward("service/web", 80)?;
    let page = forward.page()?;
    ensure!(page.starts_with("HTTP/1.1 200 OK") && page.contains("a page from a ConfigMap"), "a page came: {page}");
    let missing = forward.exchange(b"GET /followed HTTP/1.0\r\n\r\n")?;
    ensure!(missing.starts_with(b"HTTP/1.1 404"), "a page that is not there");
    // Written after the log was opened.
    logs.hear("404", PATIENCE)?;
    let tail = kubectl.output(&["logs", "deployment/web", "--tail=1", "--timestamps"])?;
    ensure!(tail.lines().count() == 1 && tail.starts_with("20"), "one line with its time: {tail}");
    Ok(())
}

fn exec_passes_input_output_and_exit_code(kubectl: &Kubectl) -> Result<()> {
    let greeting = kubectl.output(&["exec", "deployment/web", "--", "sh", "-c", "echo $GREETING"])?;
    ensure!(greeting == "good morning\n", "a ConfigMap as environment: {greeting:?}");
    let inside = kubectl.output(&["exec", "deployment/web", "--", "wget", "-qO-", "http://web"])?;
    ensure!(inside == "a page from a ConfigMap\n", "a Service by its name, and a ConfigMap as files: {inside:?}");

    let input = "one\ntwo\nthree\n".repeat(10_000);
    let count = kubectl.run_with(&["exec", "-i", "deployment/web", "--", "wc", "-l"], &input)?.ok()?;
    ensure!(count.trim() == "30000", "all of the input arrives: {count}");

    let said = kubectl.run(&["exec", "deployment/web", "--", "sh", "-c", "echo out; echo err >&2; exit 7"])?;
    ensure!(said.status.code() == Some(7), "the exit code is passed on: {said:?}");
    ensure!(said.output == "out\n" && said.errors.starts_with("err\n"), "the streams are kept apart: {said:?}");
    kubectl
        .run(&["exec", "deployment/web", "--", "no-such-program"])?
        .refused("exec: \"no-such-program\": executable file not found in $PATH")?;
    kubectl
        .run(&["exec", "deployment/web", "-c", "no-such", "--", "true"])?
        .refused("container no-such is not valid for pod")?;
    Ok(())
}

fn files_are_copied(stage: &Stage, kubectl: &Kubectl) -> Result<()> {
    let content: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(stage.directory().join("sent"), &content)?;
    let pods = kubectl.names(&["pods", "-l", "app=web"])?;
    let there = format!("{}:/tmp/copy", pods[0].trim_start_matches("pod/"));
    kubectl.quiet(&["cp", "sent", &there])?;
    kubectl.quiet(&["cp", &there, "returned"])?;
    ensure!(fs::read(stage.directory().join("returned"))? == content, "a file goes there and back");
    Ok(())
}

fn attach_talks_to_the_process(kubectl: &Kubectl) -> Result<()> {
    kubectl.apply(ECHO)?;
    kubectl.wait(&["pod/echo"], "--for=condition=Ready")?;
    let mut attached = kubectl.stream(&["attach", "-i", "echo"])?;
    attached.tell("is anyone there?\n")?;
    attached.hear("is anyone there?", PATIENCE)?;
    attached.hang_up();
    attached.end(PATIENCE)?;
    // stdinOnce: the end of the first session is the end of the input.
    kubectl.wait(&["pod/echo"], "--for=jsonpath={.status.phase}=Succeeded")?;
    ensure!(kubectl.output(&["logs", "echo"])? == "is anyone there?\n", "what was said is in the log");
    Ok(())
}

fn scale_and_restart(kubectl: &Kubectl) -> Result<()> {
    let status = ["rollout", "status", "deployment/web", "--timeout=120s"];
    kubectl.quiet(&["scale", "deployment/web", "--replicas=2"])?;
    kubectl.quiet(&status)?;
    let before = kubectl.names(&["pods", "-l", "app=web"])?;
    ensure!(before.len() == 2, "two replicas: {before:?}");
    kubectl.quiet(&["rollout", "restart", "deployment/web"])?;
    ensure!(kubectl.output(&status)?.contains("successfully rolled out"), "the restart is rolled out");
    until("the end of the old Pods", PATIENCE, || {
        let now = kubectl.names(&["pods", "-l", "app=web"])?;
        Ok(now.len() == 2 && before.iter().all(|old| !now.contains(old)))
    })
}
