//! `cargo xtask demo`: the story of one cluster, from nothing to a running Pod and back to zero
//! nodes, told with a stock kubectl.

mod figures;
mod narrator;

use crate::artifacts;
use crate::host;
use crate::step::root;
use anyhow::{Context, Result, ensure};
use clap::Args;
use e2e::{Kubectl, PATIENCE, Stage, until};
use figures::Figures;
use narrator::Narrator;
use std::time::Instant;

/// Seconds that the demo's cluster must be idle before its nodes go.
const HOLD: &str = "5";

#[derive(Args)]
pub(crate) struct Options {
    /// How often to go from zero nodes to a running Pod and back
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=50))]
    runs: u32,
    /// Build with optimisations (a much longer build)
    #[arg(long)]
    release: bool,
}

/// Tells the story.
pub(crate) fn run(options: &Options) -> Result<()> {
    let begin = Instant::now();
    host::packages()?;
    let artifacts = artifacts::make(options.release)?;
    let mut figures = Figures::default();
    let rise = Instant::now();
    let stage = Stage::set(artifacts, &[])?;
    let narrator = Narrator::new(&stage, rise);
    narrator.say("the control plane is up");

    narrator.chapter("A cluster: Ready at once, with no nodes");
    let created = Instant::now();
    narrator.program(&["cluster", "create", "demo", "--hold", HOLD])?;
    figures.note("create to Ready", created.elapsed());
    let kubectl = stage.kubectl("demo")?;
    narrator.kubectl(&kubectl, &["get", "nodes"])?;
    narrator.kubectl(&kubectl, &["get", "namespaces"])?;

    for round in 1..=options.runs {
        if options.runs > 1 {
            narrator.chapter(&format!("Round {round} of {}", options.runs));
        }
        workload(&stage, &narrator, &kubectl, &mut figures, round == 1)?;
    }

    narrator.chapter("The end");
    narrator.program(&["cluster", "delete", "demo"])?;
    stage.strike()?;
    println!("the control plane stopped; nothing is left\n");
    figures.print();
    println!("\nThe story took {:.0} s. Next:", begin.elapsed().as_secs_f32());
    println!("  target/debug/socialweb-computer serve --help     run a control plane of your own");
    println!("  cargo xtask test                                 run every check and test");
    Ok(())
}

fn workload(
    stage: &Stage,
    narrator: &Narrator<'_>,
    kubectl: &Kubectl,
    figures: &mut Figures,
    talk: bool,
) -> Result<()> {
    let show = |arguments: &[&str]| narrator.kubectl(kubectl, arguments);
    narrator.chapter("Work appears: at zero nodes its Pod is honestly Pending");
    let manifest = root().join("examples/hello.yaml");
    let manifest = manifest.to_str().context("the workspace's path is not UTF-8")?;
    show(&["apply", "-f", manifest])?;
    let applied = Instant::now();
    if talk {
        show(&["get", "pods"])?;
        let pod = kubectl.output(&["get", "pods", "-l", "app=hello", "-o", "name"])?;
        narrator.refused(kubectl, &["exec", pod.trim(), "--", "true"], "does not have a host assigned")?;
        until("a FailedScheduling event", PATIENCE, || {
            let events = kubectl.output(&["get", "events", "--field-selector", "reason=FailedScheduling"])?;
            Ok(events.contains("no nodes available to schedule pods"))
        })?;
        show(&["get", "events", "--field-selector", "reason=FailedScheduling"])?;
    }

    narrator.chapter("A machine is started, boots, and joins as a node");
    let started = stage.machine()?.started()?;
    figures.note("apply to VM start", started.saturating_duration_since(applied));
    until("a node", PATIENCE, || Ok(!kubectl.names(&["nodes"])?.is_empty()))?;
    kubectl.wait(&["node", "--all"], "--for=condition=Ready")?;
    let ready = Instant::now();
    figures.note("VM start to Node Ready", ready.saturating_duration_since(started));
    show(&["get", "nodes"])?;
    kubectl.wait(&["pod", "-l", "app=hello"], "--for=jsonpath={.status.phase}=Running")?;
    figures.note("Node Ready to Pod Running", ready.elapsed());
    figures.note("apply to Pod Running", applied.elapsed());
    show(&["wait", "deployment/hello", "--for=condition=Available", "--timeout=60s"])?;
    show(&["get", "pods", "-o", "wide"])?;

    if talk {
        narrator.chapter("kubectl works as it does anywhere");
        show(&["logs", "deployment/hello"])?;
        show(&["exec", "deployment/hello", "--", "sh", "-c", "echo inside $(hostname); wget -qO- http://hello"])?;
        let page = narrator.page(kubectl, "deployment/hello", 8080)?;
        ensure!(page.contains("hello from a cluster"), "port-forward brought {page:?}");
    }

    narrator.chapter("The work goes, and after the hold the node goes");
    show(&["delete", "-f", manifest])?;
    let deleted = Instant::now();
    until("zero nodes", PATIENCE, || Ok(kubectl.names(&["nodes"])?.is_empty()))?;
    stage.no_machine()?;
    figures.note("delete to zero (hold of 5 s included)", deleted.elapsed());
    show(&["get", "nodes"])?;
    show(&["get", "namespaces"])?;
    ensure!(kubectl.output(&["get", "ns", "default", "-o", "name"])?.contains("default"), "the API does not answer");
    Ok(())
}
