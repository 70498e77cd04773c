//! Serves one workspace from memory on a free port and writes an administrator's kubeconfig:
//! `cargo run -p apiserver --example serve -- KUBECONFIG`.
//!
//! There are no controllers and no nodes: it is for looking at the API with clients.

use apimachinery::builtin::{self, base};
use apiserver::request::ROOT_CLUSTER;
use apiserver::{Options, ServerBuilder, registry};
use controller_runtime::LogicalClusters as _;
use runtime::{BoxError, Shutdown};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let path = std::env::args().nth(1).ok_or("usage: serve KUBECONFIG")?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let base = |root_ca_pem: &str| {
        base::objects(&base::BaseParams {
            root_ca_pem: root_ca_pem.to_owned(),
            kubernetes_ip: Ipv4Addr::new(10, 96, 0, 1),
            dns_ip: Ipv4Addr::new(10, 96, 0, 10),
            api_server_port: address.port(),
        })
    };
    let store = Arc::new(store::Memory::default());
    let builder =
        ServerBuilder::open(store, builtin::definitions(), base, Options::default(), registry::Options::default())
            .await?;
    let server = builder.build();
    let administration = server.administration();
    let groups = [apimachinery::auth::GROUP_MASTERS.to_owned()];
    let lifetime = Duration::from_secs(24 * 3600);
    let credential = administration.issue_credential(ROOT_CLUSTER, "admin", &groups, lifetime).await?;
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "serve",
        "clusters": [{"name": "serve", "cluster": {
            "server": format!("https://{address}/clusters/{ROOT_CLUSTER}"),
            "certificate-authority-data": base64(&administration.certificate_authority()),
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": base64(&credential.certificate), "client-key-data": base64(&credential.key),
        }}],
        "contexts": [{"name": "serve", "context": {"cluster": "serve", "user": "admin"}}],
    });
    std::fs::write(&path, serde_json::to_vec_pretty(&config)?)?;
    println!("serving on https://{address}; kubeconfig: {path}");
    let shutdown = Shutdown::new();
    shutdown.trigger_on_signals()?;
    server.serve(listener, shutdown).await?;
    Ok(())
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
