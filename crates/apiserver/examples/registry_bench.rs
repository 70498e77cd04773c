//! Measures what clusters cost: durable creations per second, resident memory per idle cluster,
//! and the time until a restarted registry answers.
//!
//! `cargo run --release -p apiserver --example registry_bench -- [clusters] [in flight]`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use apimachinery::auth::UserInfo;
use apimachinery::builtin::base::{BaseParams, objects};
use apimachinery::definition::GroupResource;
use apiserver::pki;
use apiserver::registry::{LogicalClusterKind, Options, Registry};
use apiserver::request::{ClusterScope, RequestContext, RequestInfo, ResourceRequest};
use http::HeaderMap;
use serde_json::json;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use store::embedded;

async fn open(dir: &Path) -> Registry {
    let store = store::Embedded::open(dir.join("store"), embedded::Options::default()).unwrap();
    let definitions = apimachinery::builtin::definitions().into_iter().chain(api::definitions()).collect();
    let base = objects(&BaseParams {
        root_ca_pem: "PEM".into(),
        kubernetes_ip: Ipv4Addr::new(10, 96, 0, 1),
        dns_ip: Ipv4Addr::new(10, 96, 0, 10),
        api_server_port: 6443,
    });
    let hosts = GroupResource { group: api::GROUP.into(), resource: "clusters".into() };
    Registry::open(Arc::new(store), definitions, base, Options { hosts: Some(hosts), ..Options::default() }).unwrap()
}

fn request(verb: &str, name: Option<&str>) -> RequestContext {
    let resource = ResourceRequest {
        group: api::GROUP.into(),
        version: api::VERSION.into(),
        resource: "clusters".into(),
        namespace: None,
        name: name.map(str::to_owned),
        subresource: None,
    };
    let info = RequestInfo {
        cluster: ClusterScope::One("root".into()),
        verb: verb.into(),
        path: String::new(),
        resource: Some(resource),
        query: Vec::new(),
    };
    RequestContext { info, user: UserInfo::anonymous() }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let clusters = arguments.next().unwrap_or(10_000);
    let in_flight = arguments.next().unwrap_or(64);
    let dir = tempfile::tempdir().unwrap();
    let registry = open(dir.path()).await;
    let authority = pki::new_client_authority("root").unwrap();
    registry.create_logical_cluster("root", LogicalClusterKind::Workspace, authority).await.unwrap();
    registry.serve(&request("list", None), &HeaderMap::new(), "".into()).await.unwrap();

    let before = resident_kib();
    let start = Instant::now();
    let tasks: Vec<_> = (0..in_flight)
        .map(|task| {
            let registry = registry.clone();
            tokio::spawn(async move {
                for n in (task..clusters).step_by(in_flight) {
                    let body = json!({"metadata": {"name": format!("c{n}")}, "spec": {}}).to_string();
                    registry.serve(&request("create", None), &HeaderMap::new(), body.into()).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let took = start.elapsed().as_secs_f64();
    let grown = resident_kib().saturating_sub(before);
    println!("created {clusters} clusters in {took:.2} s: {:.0}/s", clusters as f64 / took);
    println!("resident memory grew by {grown} KiB: {:.2} KiB per cluster", grown as f64 / clusters as f64);

    drop(registry);
    let start = Instant::now();
    let registry = open(dir.path()).await;
    registry.serve(&request("get", Some("c0")), &HeaderMap::new(), "".into()).await.unwrap();
    println!("answered {:.3} s after opening again", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let all = registry.logical_clusters().await.unwrap();
    println!("read {} records in {:.3} s", all.len(), start.elapsed().as_secs_f64());
}
