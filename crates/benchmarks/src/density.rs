//! `density`: what an idle cluster costs.

use crate::server::{Server, Usage};
use anyhow::{Context, Result, ensure};
use api::{API_VERSION, Cluster, ClusterPhase};
use controller_runtime::{Client, DeleteOptions, ListOptions};
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::path::Path;
use std::time::{Duration, Instant};

/// Memory and controllers settle for this long before memory is read.
const SETTLE: Duration = Duration::from_secs(8);
const PATIENCE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(200);

/// Runs the benchmark and prints its figures.
pub(crate) async fn run(program: &Path, counts: &[usize], concurrency: usize) -> Result<()> {
    let state = tempfile::tempdir()?;
    let server = Server::start(program, state.path()).await?;
    println!("empty server: ready after {:.1} ms", millis(server.ready_after));
    let empty = settled(&server).await?;
    println!("empty server: {empty}");

    let (mut have, mut last) = (0, empty);
    for &count in counts {
        ensure!(count > have, "the numbers of clusters must ascend");
        let (took, mut latencies) = create(&server.client, have..count, concurrency).await?;
        latencies.sort();
        all_ready(&server.client, count).await?;
        let now = settled(&server).await?;
        println!(
            "{count} clusters: {:.0} creates/s, create p50 {:.2} ms, p99 {:.2} ms",
            (count - have) as f64 / took.as_secs_f64(),
            millis(latencies[latencies.len() / 2]),
            millis(latencies[latencies.len() * 99 / 100])
        );
        let slope = (now.rss_kib as f64 - last.rss_kib as f64) / (count - have) as f64;
        println!("{count} clusters: {now}; {slope:.1} KiB per cluster since {have}");
        (have, last) = (count, now);
    }

    let took = delete(&server.client, have, concurrency).await?;
    let after = settled(&server).await?;
    let grown = last.rss_kib.saturating_sub(empty.rss_kib).max(1);
    let back = last.rss_kib.saturating_sub(after.rss_kib);
    println!("delete of {have} clusters: {:.1} s", took.as_secs_f64());
    println!("empty again: {after}; {:.0} % of the growth is back", 100.0 * back as f64 / grown as f64);

    create(&server.client, 0..have, concurrency).await?;
    server.kill()?;
    let server = Server::start(program, state.path()).await?;
    println!("restart with {have} clusters after a crash: ready after {:.1} ms", millis(server.ready_after));
    all_ready(&server.client, have).await?;
    println!("restarted with {have} clusters: {}", settled(&server).await?);
    Ok(())
}

async fn settled(server: &Server) -> Result<Usage> {
    tokio::time::sleep(SETTLE).await;
    server.usage().await
}

/// Creates clusters and returns the time of all and of each.
async fn create(
    client: &Client,
    which: std::ops::Range<usize>,
    concurrency: usize,
) -> Result<(Duration, Vec<Duration>)> {
    let begin = Instant::now();
    let latencies = stream::iter(which)
        .map(|number| async move {
            let cluster = Cluster {
                api_version: API_VERSION.to_owned(),
                kind: "Cluster".to_owned(),
                metadata: ObjectMeta { name: Some(name(number)), ..ObjectMeta::default() },
                ..Cluster::default()
            };
            let begin = Instant::now();
            client.create(&cluster).await.with_context(|| format!("cluster {number}"))?;
            anyhow::Ok(begin.elapsed())
        })
        .buffer_unordered(concurrency)
        .try_collect()
        .await?;
    Ok((begin.elapsed(), latencies))
}

async fn all_ready(client: &Client, count: usize) -> Result<()> {
    let begin = Instant::now();
    loop {
        let clusters: Vec<Cluster> = client.list("", &ListOptions::default()).await?;
        let ready = clusters.iter().filter(|cluster| cluster.status.phase == ClusterPhase::Ready).count();
        if ready == count {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "{ready} of {count} clusters are Ready after {PATIENCE:?}");
        tokio::time::sleep(POLL).await;
    }
}

/// Deletes clusters and returns how long it took until all were gone.
async fn delete(client: &Client, count: usize, concurrency: usize) -> Result<Duration> {
    let begin = Instant::now();
    stream::iter(0..count)
        .map(|number| async move { client.delete::<Cluster>("", &name(number), &DeleteOptions::default()).await })
        .buffer_unordered(concurrency)
        .try_collect::<Vec<()>>()
        .await?;
    loop {
        let left: Vec<Cluster> = client.list("", &ListOptions::default()).await?;
        if left.is_empty() {
            return Ok(begin.elapsed());
        }
        ensure!(begin.elapsed() < PATIENCE, "{} clusters are left after {PATIENCE:?}", left.len());
        tokio::time::sleep(POLL).await;
    }
}

fn name(number: usize) -> String {
    format!("density-{number}")
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
