//! Two clusters with the same names inside: nothing of one is seen or reached from the other.

use crate::{WEB, stage};
use anyhow::{Context, Result, ensure};
use e2e::{Kubectl, Stage};
use std::fs;

/// A cluster whose page says its name, and a kubectl for it.
fn cluster(stage: &Stage, name: &str) -> Result<Kubectl> {
    let kubectl = stage.cluster(name, &["--hold", "3"])?;
    kubectl.apply(&manifest(name))?;
    Ok(kubectl)
}

fn manifest(name: &str) -> String {
    WEB.replace("a page from a ConfigMap", &format!("a page of {name}"))
}

/// The address of the cluster's API in a kubeconfig.
fn server(kubectl: &Kubectl) -> Result<String> {
    let kubeconfig = fs::read_to_string(kubectl.kubeconfig())?;
    let server = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server:"));
    Ok(server.context("the kubeconfig names no server")?.trim().trim_matches('"').to_owned())
}

#[test]
fn clusters_with_the_same_names_share_nothing() -> Result<()> {
    let stage = stage()?;
    let (alpha, beta) = (cluster(&stage, "alpha")?, cluster(&stage, "beta")?);
    for kubectl in [&alpha, &beta] {
        kubectl.wait(&["deployment/web"], "--for=condition=Available")?;
    }
    ensure!(stage.machines()?.len() == 2, "each has a machine of its own");
    objects_are_apart(&alpha, &beta)?;
    certificates_are_refused(&alpha, &beta)?;
    pods_are_apart(&alpha, &beta)?;
    tokens_are_refused(&alpha, &beta)?;

    for (name, kubectl) in [("alpha", &alpha), ("beta", &beta)] {
        kubectl.run_with(&["delete", "-f", "-"], manifest(name))?.ok()?;
        if name == "alpha" {
            beta.wait(&["deployment/web"], "--for=condition=Available")?;
        }
    }
    stage.no_machine()?;
    stage.run(&["cluster", "delete", "alpha"])?;
    ensure!(beta.names(&["configmaps", "kube-root-ca.crt"])?.len() == 1, "the end of one does not touch the other");
    stage.run(&["cluster", "delete", "beta"])?;
    stage.strike()
}

fn objects_are_apart(alpha: &Kubectl, beta: &Kubectl) -> Result<()> {
    for kind in ["pods", "nodes", "replicasets", "services", "endpointslices", "secrets", "events"] {
        let uids = |kubectl: &Kubectl| -> Result<Vec<String>> {
            let found = kubectl.list(&[kind, "-A"])?;
            Ok(found.iter().map(|object| object["metadata"]["uid"].to_string()).collect())
        };
        let (ours, theirs) = (uids(alpha)?, uids(beta)?);
        // What every cluster has from the beginning is stored in none.
        let stored = |uids: Vec<String>| uids.into_iter().filter(|uid| uid != "null").collect::<Vec<_>>();
        let (ours, theirs) = (stored(ours), stored(theirs));
        let shared: Vec<_> = ours.iter().filter(|uid| theirs.contains(uid)).collect();
        ensure!(kind == "services" || shared.is_empty(), "{kind} in both: {shared:?}");
    }
    alpha.quiet(&["create", "configmap", "only-here"])?;
    beta.run(&["get", "configmap", "only-here"])?.refused("configmaps \"only-here\" not found")?;
    Ok(())
}

fn certificates_are_refused(alpha: &Kubectl, beta: &Kubectl) -> Result<()> {
    for (ours, theirs) in [(alpha, beta), (beta, alpha)] {
        let there = format!("--server={}", server(theirs)?);
        for what in [["get", "pods"], ["get", "nodes"], ["delete", "deployment/web"]] {
            let said = ours.run(&[&what[..], &[&there, "--insecure-skip-tls-verify"]].concat())?;
            said.refused("Unauthorized").or_else(|_| {
                ours.run(&[&what[..], &[&there, "--insecure-skip-tls-verify"]].concat())?.refused("must be logged in")
            })?;
        }
    }
    Ok(())
}

fn pods_are_apart(alpha: &Kubectl, beta: &Kubectl) -> Result<()> {
    for (name, kubectl, other) in [("alpha", alpha, "beta"), ("beta", beta, "alpha")] {
        let page = kubectl.output(&["exec", "deployment/web", "--", "wget", "-qO-", "http://web"])?;
        ensure!(page == format!("a page of {name}\n"), "a name leads to one's own Service: {page}");
        // Whatever answers at the other's Pod address from here, it is not the other's Pod.
        let pods = if name == "alpha" { beta } else { alpha }.list(&["pods", "-l", "app=web"])?;
        let address = pods[0]["status"]["podIP"].as_str().context("the Pod has no address")?.to_owned();
        let url = format!("http://{address}:8080");
        let said = kubectl.run(&["exec", "deployment/web", "--", "wget", "-T", "2", "-qO-", &url])?;
        ensure!(!said.output.contains(&format!("a page of {other}")), "{other}'s Pod answered {name}: {said:?}");
    }
    Ok(())
}

/// A Pod's token is good for its own cluster and for nothing of the other, from inside and outside.
fn tokens_are_refused(alpha: &Kubectl, beta: &Kubectl) -> Result<()> {
    let ask = |server: &str, token: &str| {
        alpha.run(&[
            "--kubeconfig=/dev/null",
            &format!("--server={server}"),
            &format!("--token={}", token.trim()),
            "--insecure-skip-tls-verify",
            "get",
            "pods",
        ])
    };
    alpha.quiet(&["create", "rolebinding", "look", "--clusterrole=view", "--serviceaccount=default:default"])?;
    let token = alpha.output(&["create", "token", "default"])?;
    ask(&server(alpha)?, &token)?.ok()?;
    ask(&server(beta)?, &token)?.refused("must be logged in")?;
    let mounted = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    let token = alpha.output(&["exec", "deployment/web", "--", "cat", mounted])?;
    ask(&server(alpha)?, &token)?.ok()?;
    ask(&server(beta)?, &token)?.refused("must be logged in")?;
    Ok(())
}
