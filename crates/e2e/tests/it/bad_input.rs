//! Bad input gets the error that a Kubernetes user knows, and nothing is lost by it. No node comes for it.

use crate::stage;
use anyhow::{Result, ensure};
use e2e::Kubectl;
use serde_json::json;
use std::fs;

const SETTINGS: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {key: kept}}";

#[test]
fn bad_input_is_refused_in_kubernetes_words() -> Result<()> {
    let stage = stage()?;
    let kubectl = stage.cluster("input", &[])?;
    kubectl.apply(SETTINGS)?;
    what_is_no_object(&kubectl)?;
    what_has_unknown_fields(&kubectl)?;
    what_is_out_of_place(&kubectl)?;
    what_is_too_large(&kubectl, stage.directory())?;
    what_is_stale(&kubectl)?;

    let kept = kubectl.get("configmap/settings")?;
    ensure!(kept["data"] == json!({"key": "kept"}), "nothing was lost: {kept}");
    stage.run(&["cluster", "delete", "input"])?;
    stage.run(&["cluster", "get", "input"]).map_or(Ok(()), |said| anyhow::bail!("it is gone, but: {said}"))?;
    stage.strike()
}

fn what_is_no_object(kubectl: &Kubectl) -> Result<()> {
    let raw = |body| kubectl.run_with(&["create", "--raw", "/api/v1/namespaces/default/configmaps", "-f", "-"], body);
    raw("{\"kind\": \"ConfigMap\", ")?.refused("(BadRequest)")?;
    raw("[]")?.refused("(BadRequest)")?;
    raw("{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {\"name\": \"x\"}}")?.refused("(BadRequest)")?;
    raw("{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": 7}}")?.refused("(BadRequest)")?;
    kubectl.run_with(&["apply", "-f", "-"], "a: [")?.refused("error converting YAML to JSON")?;
    Ok(())
}

fn what_has_unknown_fields(kubectl: &Kubectl) -> Result<()> {
    let unknown = SETTINGS.replace(", data:", ", nonsense: 1, data:").replace("settings", "unknown");
    kubectl.run_with(&["create", "-f", "-"], &unknown)?.refused("unknown field \"nonsense\"")?;
    kubectl.run(&["get", "configmap", "unknown"])?.refused("configmaps \"unknown\" not found")?;
    let warned = kubectl.run_with(&["create", "--validate=warn", "-f", "-"], &unknown)?;
    ensure!(
        warned.status.success() && warned.errors.contains("Warning: unknown field \"nonsense\""),
        "a warning: {warned:?}"
    );
    ensure!(kubectl.get("configmap/unknown")?.get("nonsense").is_none(), "the unknown field is not stored");
    Ok(())
}

fn what_is_out_of_place(kubectl: &Kubectl) -> Result<()> {
    let create = |object: &str| kubectl.run_with(&["create", "-f", "-"], object);
    // Without the client's own validation, for which it wants OpenAPI v2 as protobuf.
    kubectl
        .run_with(&["create", "--validate=false", "-f", "-"], SETTINGS.replace("ConfigMap", "ConfigMop"))?
        .refused("no matches for kind \"ConfigMop\" in version \"v1\"")?;
    create(&SETTINGS.replace("name:", "namespace: nowhere, name:"))?.refused("namespaces \"nowhere\" not found")?;
    create(&SETTINGS.replace("settings", "Not_A_Name"))?.refused("a lowercase RFC 1123 subdomain must consist of")?;
    create(SETTINGS)?.refused("configmaps \"settings\" already exists")?;
    let elsewhere =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "kube-system"}});
    kubectl
        .run_with(&["create", "--raw", "/api/v1/namespaces/default/configmaps", "-f", "-"], elsewhere.to_string())?
        .refused("the namespace of the provided object does not match the namespace sent on the request")?;
    kubectl.run(&["get", "pods", "nobody"])?.refused("pods \"nobody\" not found")?;
    kubectl.run(&["get", "--raw", "/apis/nothing"])?.refused("the server could not find the requested resource")?;
    Ok(())
}

fn what_is_too_large(kubectl: &Kubectl, directory: &std::path::Path) -> Result<()> {
    fs::write(directory.join("large"), "x".repeat(1_100_000))?;
    kubectl
        .run(&["create", "configmap", "large", "--from-file=large"])?
        .refused("Too long: may not be more than 1048576 bytes")?;
    fs::write(directory.join("huge"), "x".repeat(4_000_000))?;
    kubectl.run(&["create", "configmap", "huge", "--from-file=huge"])?.refused("limit is 3145728")?;
    Ok(())
}

fn what_is_stale(kubectl: &Kubectl) -> Result<()> {
    kubectl.quiet(&["create", "configmap", "stale", "--from-literal=key=first"])?;
    let first = kubectl.get("configmap/stale")?;
    kubectl.quiet(&["patch", "configmap", "stale", "--type=merge", "-p", r#"{"data":{"key":"second"}}"#])?;
    kubectl
        .run_with(&["replace", "-f", "-"], first.to_string())?
        .refused("the object has been modified; please apply your changes to the latest version and try again")?;
    ensure!(kubectl.get("configmap/stale")?["data"]["key"] == "second", "the newer write stands");
    kubectl
        .run(&["patch", "configmap", "stale", "--type=json", "-p", r#"[{"op":"remove","path":"/data/none"}]"#])?
        .refused("remove operation does not apply")?;
    Ok(())
}
