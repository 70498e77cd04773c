//! `cluster create | list | get | kubeconfig | delete`.

use crate::arguments::{ClusterCommand, NodeFlags};
use crate::kubeconfig;
use crate::output::{Format, Progress, table};
use crate::paths::{Paths, write_private};
use anyhow::{Context, Result, bail};
use api::{API_VERSION, Cluster, ClusterPhase, ClusterSpec, NodeScaling};
use controller_runtime::{ApiKind, Client, DeleteOptions, ListOptions};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Longest wait for a cluster to become Ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for a cluster to be gone, machines included.
const GONE_TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(2);
const SLOW_POLL: Duration = Duration::from_millis(200);

/// Runs one of the commands.
pub(crate) async fn run(paths: &Paths, output: Format, command: ClusterCommand) -> Result<ExitCode> {
    let client = kubeconfig::client(&paths.admin_kubeconfig()?)?;
    match command {
        ClusterCommand::Create { name, nodes } => create(&client, output, &name, &nodes).await?,
        ClusterCommand::List => {
            let clusters: Vec<Cluster> = client.list("", &ListOptions::default()).await?;
            output.print(&clusters, || match clusters.as_slice() {
                [] => "no clusters".to_owned(),
                some => rows(some),
            })?;
        }
        ClusterCommand::Get { name } => {
            let cluster = get(&client, &name).await?;
            output.print(&cluster, || describe(&cluster))?;
        }
        ClusterCommand::Kubeconfig { name, file, lifetime } => {
            let text = credential(&client, &name, lifetime).await?;
            match file {
                Some(file) => {
                    write_private(&file, &text)?;
                    output.print(&json!({"file": file}), || format!("wrote {}", file.display()))?;
                }
                None => output.print(&json!({"kubeconfig": text}), || text.clone())?,
            }
        }
        ClusterCommand::Delete { name, no_wait } => delete(&client, output, &name, no_wait).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn create(client: &Client, output: Format, name: &str, nodes: &NodeFlags) -> Result<()> {
    let begin = Instant::now();
    let wanted = Cluster {
        api_version: API_VERSION.to_owned(),
        kind: "Cluster".to_owned(),
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        spec: ClusterSpec {
            nodes: NodeScaling {
                max: nodes.max_nodes,
                pods_per_node: nodes.pods_per_node,
                hold_seconds: nodes.hold,
                cpus: nodes.cpus,
                memory_mi_b: nodes.memory,
            },
        },
        ..Cluster::default()
    };
    let mut cluster = client.create(&wanted).await?;
    while cluster.status.phase != ClusterPhase::Ready {
        if begin.elapsed() > READY_TIMEOUT {
            bail!("cluster {name:?} was created but is not Ready after {READY_TIMEOUT:?}; see the server's log");
        }
        tokio::time::sleep(POLL).await;
        cluster = get(client, name).await?;
    }
    let took = begin.elapsed();
    output.print(&cluster, || {
        format!(
            "cluster {name} is Ready with no nodes, after {:.1} ms\nnext: socialweb-computer cluster kubeconfig {name}",
            took.as_secs_f64() * 1000.0
        )
    })
}

async fn delete(client: &Client, output: Format, name: &str, no_wait: bool) -> Result<()> {
    let begin = Instant::now();
    let uid = get(client, name).await?.metadata.uid;
    client.delete::<Cluster>("", name, &DeleteOptions::default()).await?;
    if no_wait {
        return output.print(&json!({"deleting": name}), || format!("cluster {name} is being deleted"));
    }
    let mut progress = Progress::new();
    while let Some(cluster) = client.get::<Cluster>("", name).await?.filter(|cluster| cluster.metadata.uid == uid) {
        let refused = cluster.status.conditions.iter().find(|c| c.reason == "TeardownRefused");
        if let Some(condition) = refused {
            bail!("cluster {name:?} is not torn down: {}", condition.message);
        }
        if begin.elapsed() > GONE_TIMEOUT {
            bail!("cluster {name:?} is still there after {GONE_TIMEOUT:?}; see the server's log");
        }
        progress.say(&format!("releasing the nodes of {name}"));
        tokio::time::sleep(SLOW_POLL).await;
    }
    drop(progress);
    output.print(&json!({"deleted": name}), || format!("cluster {name} is gone"))
}

async fn get(client: &Client, name: &str) -> Result<Cluster> {
    client.get::<Cluster>("", name).await?.with_context(|| {
        format!("there is no cluster {name:?}; `socialweb-computer cluster list` shows those there are")
    })
}

/// Asks for a kubeconfig with a client certificate.
async fn credential(client: &Client, name: &str, lifetime: u32) -> Result<String> {
    let body = json!({
        "apiVersion": API_VERSION, "kind": "Kubeconfig", "spec": {"expirationSeconds": lifetime},
    });
    let answer = client.dynamic(ApiKind::of::<Cluster>()).create_subresource("", name, api::KUBECONFIG, &body).await?;
    let text = answer["status"]["kubeconfig"].as_str().context("the server answered without a kubeconfig")?;
    Ok(text.to_owned())
}

fn rows(clusters: &[Cluster]) -> String {
    let now = jiff::Timestamp::now();
    let row = |cluster: &Cluster| {
        let created = cluster.metadata.creation_timestamp.as_ref();
        vec![
            cluster.metadata.name.clone().unwrap_or_default(),
            format!("{:?}", cluster.status.phase),
            cluster.status.nodes.unwrap_or(0).to_string(),
            created.map_or_else(String::new, |time| {
                apimachinery::table::human_duration(now.duration_since(time.0).unsigned_abs())
            }),
        ]
    };
    table(&["NAME", "PHASE", "NODES", "AGE"], &clusters.iter().map(row).collect::<Vec<_>>())
}

fn describe(cluster: &Cluster) -> String {
    let status = &cluster.status;
    let mut lines = vec![
        format!("name:             {}", cluster.metadata.name.as_deref().unwrap_or_default()),
        format!("phase:            {:?}", status.phase),
        format!("logical cluster:  {}", status.logical_cluster.as_deref().unwrap_or("-")),
        format!("url:              {}", status.url.as_deref().unwrap_or("-")),
        format!("nodes:            {}", status.nodes.unwrap_or(0)),
    ];
    for condition in &status.conditions {
        lines.push(format!(
            "condition:        {}={} ({}) {}",
            condition.type_, condition.status, condition.reason, condition.message
        ));
    }
    lines.join("\n")
}
