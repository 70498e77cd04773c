//! A client inside a Pod: the API at the `kubernetes` Service, with the ServiceAccount's token and CA.

use crate::stage;
use anyhow::{Context, Result, ensure};
use e2e::{PATIENCE, until};
use std::fs;

const RECEIVE: &str = "cat > /tmp/kubectl && chmod +x /tmp/kubectl";

#[test]
fn a_pod_uses_the_api_with_its_own_account() -> Result<()> {
    let stage = stage()?;
    let kubectl = stage.cluster("inside", &["--hold", "3"])?;
    kubectl.quiet(&["create", "serviceaccount", "robot"])?;
    kubectl.quiet(&["create", "rolebinding", "robot", "--clusterrole=edit", "--serviceaccount=default:robot"])?;
    let account = r#"{"spec": {"serviceAccountName": "robot", "terminationGracePeriodSeconds": 1}}"#;
    for name in ["robot", "neighbour"] {
        let run =
            ["run", name, "--image=localhost/busybox:1", "--overrides", account, "--command", "--", "sleep", "1000"];
        kubectl.quiet(&run)?;
    }
    kubectl.wait(&["pod", "--all"], "--for=condition=Ready")?;
    // The same stock kubectl, which finds its cluster as every client inside one does.
    kubectl.run_with(&["exec", "-i", "robot", "--", "sh", "-c", RECEIVE], fs::read(kubectl.program())?)?.ok()?;
    let inside = |arguments: &[&str]| kubectl.run(&[&["exec", "robot", "--", "/tmp/kubectl"], arguments].concat());

    let whoami = inside(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])?.ok()?;
    ensure!(whoami == "system:serviceaccount:default:robot", "it is its ServiceAccount: {whoami}");
    let pods = inside(&["get", "pods", "-o", "name"])?.ok()?;
    ensure!(pods.contains("pod/robot") && pods.contains("pod/neighbour"), "it sees the Pods: {pods}");
    inside(&["get", "nodes"])?.refused("nodes is forbidden: User \"system:serviceaccount:default:robot\"")?;
    inside(&["create", "configmap", "made-inside", "--from-literal=key=value"])?.ok()?;
    ensure!(kubectl.get("configmap/made-inside")?["data"]["key"] == "value", "what it makes is there");
    let said = inside(&["exec", "neighbour", "--", "sh", "-c", "echo through two; exit 4"])?;
    ensure!(said.output == "through two\n" && !said.status.success(), "an upgraded connection from inside: {said:?}");
    let watch =
        kubectl.stream(&["exec", "robot", "--", "/tmp/kubectl", "get", "configmaps", "--watch", "-o", "name"])?;
    watch.hear("configmap/made-inside", PATIENCE)?;
    kubectl.quiet(&["create", "configmap", "seen-inside"])?;
    watch.hear("configmap/seen-inside", PATIENCE).context("a watch from inside")?;
    drop(watch);

    kubectl.quiet(&["delete", "pod", "robot", "neighbour"])?;
    until("zero nodes", PATIENCE, || Ok(kubectl.names(&["nodes"])?.is_empty()))?;
    stage.no_machine()?;
    stage.run(&["cluster", "delete", "inside"])?;
    stage.strike()
}
