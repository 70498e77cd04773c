//! What is killed comes back: the control plane with a node up or booting, and the machine of a node.

use crate::{WEB, stage};
use anyhow::{Context, Result, ensure};
use e2e::{Kubectl, PATIENCE, Stage, until};
use serde_json::Value;

/// Ends a story: the workload goes, its node goes, nothing is left.
fn end(stage: Stage, kubectl: &Kubectl, cluster: &str) -> Result<()> {
    kubectl.run_with(&["delete", "-f", "-"], WEB)?.ok()?;
    stage.no_machine()?;
    stage.run(&["cluster", "delete", cluster])?;
    stage.strike()
}

/// The one Pod of the Deployment.
fn pod(kubectl: &Kubectl) -> Result<Value> {
    kubectl.list(&["pods", "-l", "app=web"])?.into_iter().next().context("the Deployment has no Pod")
}

fn container(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

#[test]
fn a_killed_control_plane_finds_its_node_and_no_container_restarts() -> Result<()> {
    let stage = stage()?;
    let kubectl = stage.cluster("survivor", &["--hold", "3"])?;
    kubectl.apply(WEB)?;
    kubectl.wait(&["deployment/web"], "--for=condition=Available")?;
    let (machine, node, before) = (stage.machine()?, kubectl.names(&["nodes"])?, pod(&kubectl)?);

    stage.crash();
    stage.start()?;
    let kubectl = stage.kubectl("survivor")?;
    // Goes through the connection that the node has opened again.
    until("the node's new connection", PATIENCE, || {
        Ok(kubectl.run(&["exec", "deployment/web", "--", "true"])?.status.success())
    })?;
    kubectl.wait(&["node", "--all"], "--for=condition=Ready")?;
    let after = pod(&kubectl)?;
    ensure!(before["metadata"]["uid"] == after["metadata"]["uid"], "the same Pod");
    ensure!(container(&before)["containerID"] == container(&after)["containerID"], "in the same container: {after}");
    ensure!(container(&after)["restartCount"] == 0, "which never restarted: {after}");
    ensure!(kubectl.names(&["nodes"])? == node, "on the same node");
    let machines = stage.machines()?;
    ensure!(machines.len() == 1 && machines[0].id() == machine.id(), "which is the same machine: {machines:?}");
    ensure!(machines[0].process()? == machine.process()?, "in the same process");
    end(stage, &kubectl, "survivor")
}

#[test]
fn a_killed_machine_is_replaced_and_its_pods_run_again() -> Result<()> {
    let stage = stage()?;
    let kubectl = stage.cluster("replaced", &["--hold", "3"])?;
    kubectl.apply(WEB)?;
    kubectl.wait(&["deployment/web"], "--for=condition=Available")?;
    let (machine, node, before) = (stage.machine()?, kubectl.names(&["nodes"])?, pod(&kubectl)?);

    machine.kill()?;
    until("the end of the lost machine", PATIENCE, || {
        Ok(stage.machines()?.iter().all(|other| other.id() != machine.id()))
    })?;
    until("a Pod in the lost one's place", PATIENCE, || {
        let pods = kubectl.list(&["pods", "-l", "app=web"])?;
        Ok(pods.iter().any(|now| now["metadata"]["uid"] != before["metadata"]["uid"]))
    })?;
    until("the Pod on another node", PATIENCE, || {
        let pods = kubectl.list(&["pods", "-l", "app=web"])?;
        let nodes = kubectl.names(&["nodes"])?;
        Ok(pods.len() == 1 && container(&pods[0])["ready"] == true && nodes.len() == 1 && nodes != node)
    })?;
    ensure!(stage.machines()?.len() == 1, "one machine in the place of one");
    ensure!(kubectl.output(&["exec", "deployment/web", "--", "echo", "back"])? == "back\n", "it can be entered");
    end(stage, &kubectl, "replaced")
}

#[test]
fn a_control_plane_killed_while_a_machine_boots_goes_on_with_it() -> Result<()> {
    let stage = stage()?;
    let kubectl = stage.cluster("booting", &["--hold", "3"])?;
    kubectl.apply(WEB)?;
    let machine = stage.machine()?;
    until("the machine's process", PATIENCE, || Ok(machine.process()?.is_some()))?;
    ensure!(kubectl.names(&["nodes"])?.is_empty(), "it has not joined yet");

    stage.crash();
    stage.start()?;
    let kubectl = stage.kubectl("booting")?;
    kubectl.wait(&["deployment/web"], "--for=condition=Available")?;
    let machines = stage.machines()?;
    ensure!(machines.len() == 1 && machines[0].id() == machine.id(), "the same machine, and no other: {machines:?}");
    end(stage, &kubectl, "booting")
}
