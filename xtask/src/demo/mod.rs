//! `cargo xtask demo`: the story of one cluster, from nothing to a running Pod and back to zero
//! nodes, told with a stock kubectl.

mod cast;
mod figures;

use crate::artifacts;
use crate::host;
use crate::step::root;
use anyhow::{Context, Result, ensure};
use cast::Cast;
use clap::Args;
use figures::Figures;
use std::time::{Duration, Instant};

/// Longest wait for a machine to boot and join, and for its Pod to run.
const PATIENCE: Duration = Duration::from_secs(120);
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
    let cast = Cast::start(artifacts)?;
    cast.say("the control plane is up");

    cast.chapter("A cluster: Ready at once, with no nodes");
    let created = Instant::now();
    cast.show(&["cluster", "create", "demo", "--hold", HOLD])?;
    figures.note("create to Ready", created.elapsed());
    cast.run(&["cluster", "kubeconfig", "demo", "--file", &cast.kubeconfig()])?;
    cast.kubectl(&["get", "nodes"])?;
    cast.kubectl(&["get", "namespaces"])?;

    for round in 1..=options.runs {
        if options.runs > 1 {
            cast.chapter(&format!("Round {round} of {}", options.runs));
        }
        workload(&cast, &mut figures, round == 1)?;
    }

    cast.chapter("The end");
    cast.show(&["cluster", "delete", "demo"])?;
    cast.stop()?;
    println!();
    figures.print();
    println!("\nThe story took {:.0} s. Next:", begin.elapsed().as_secs_f32());
    println!("  target/debug/socialweb-computer serve --help     run a control plane of your own");
    println!("  cargo xtask test                                 run every check and test");
    Ok(())
}

fn workload(cast: &Cast, figures: &mut Figures, talk: bool) -> Result<()> {
    cast.chapter("Work appears: at zero nodes its Pod is honestly Pending");
    let manifest = root().join("examples/hello.yaml");
    let manifest = manifest.to_str().context("the workspace's path is not UTF-8")?;
    cast.kubectl(&["apply", "-f", manifest])?;
    let applied = Instant::now();
    if talk {
        cast.kubectl(&["get", "pods"])?;
        let pod = cast.output(&["get", "pods", "-l", "app=hello", "-o", "name"])?;
        cast.refused(&["exec", pod.trim(), "--", "true"], "does not have a host assigned")?;
        cast.until("a FailedScheduling event", PATIENCE, || {
            let events = cast.output(&["get", "events", "--field-selector", "reason=FailedScheduling"])?;
            Ok(events.contains("no nodes available to schedule pods"))
        })?;
        cast.kubectl(&["get", "events", "--field-selector", "reason=FailedScheduling"])?;
    }

    cast.chapter("A machine is started, boots, and joins as a node");
    let started = cast.machine_started(PATIENCE)?;
    figures.note("apply to VM start", started.saturating_duration_since(applied));
    cast.until("a node", PATIENCE, || Ok(!cast.output(&["get", "nodes", "-o", "name"])?.trim().is_empty()))?;
    cast.quiet(&["wait", "node", "--all", "--for=condition=Ready", "--timeout=120s"])?;
    let ready = Instant::now();
    figures.note("VM start to Node Ready", ready.saturating_duration_since(started));
    cast.kubectl(&["get", "nodes"])?;
    cast.quiet(&["wait", "pod", "-l", "app=hello", "--for=jsonpath={.status.phase}=Running", "--timeout=120s"])?;
    figures.note("Node Ready to Pod Running", ready.elapsed());
    figures.note("apply to Pod Running", applied.elapsed());
    cast.kubectl(&["wait", "deployment/hello", "--for=condition=Available", "--timeout=60s"])?;
    cast.kubectl(&["get", "pods", "-o", "wide"])?;

    if talk {
        cast.chapter("kubectl works as it does anywhere");
        cast.kubectl(&["logs", "deployment/hello"])?;
        cast.kubectl(&[
            "exec",
            "deployment/hello",
            "--",
            "sh",
            "-c",
            "echo inside $(hostname); wget -qO- http://hello",
        ])?;
        cast.port_forward("deployment/hello", 8080, "hello from a cluster", PATIENCE)?;
    }

    cast.chapter("The work goes, and after the hold the node goes");
    cast.kubectl(&["delete", "-f", manifest])?;
    let deleted = Instant::now();
    cast.until("zero nodes", PATIENCE, || Ok(cast.output(&["get", "nodes", "-o", "name"])?.trim().is_empty()))?;
    cast.until("no machine", PATIENCE, || Ok(cast.machines()?.is_empty()))?;
    figures.note("delete to zero (hold of 5 s included)", deleted.elapsed());
    cast.kubectl(&["get", "nodes"])?;
    cast.kubectl(&["get", "namespaces"])?;
    ensure!(cast.output(&["get", "ns", "default", "-o", "name"])?.contains("default"), "the API does not answer");
    Ok(())
}
