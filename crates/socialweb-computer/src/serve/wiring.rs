//! Putting the components together.

use super::credential::{Admin, Kubeconfig};
use crate::arguments::ServeOptions;
use anyhow::{Context, Result};
use apimachinery::auth::{GROUP_MASTERS, UserInfo};
use apimachinery::builtin::base::{self, BaseParams};
use apimachinery::definition::{GroupResource, ResourceDefinition};
use apiserver::ServerBuilder;
use apiserver::streams::{self, StreamOptions, TunnelHub};
use clusters::Clusters;
use compute_api::NodeProvider;
use controller_runtime::{Client, InformerOptions, Informers, LogicalClusters};
use microvm::{HostOptions, HostProvider};
use runtime::{BackoffOptions, Shutdown, TaskPolicy, TaskSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use store::Embedded;
use tokio::net::TcpListener;

/// The host as a guest on QEMU's user network reaches it.
const HOST_FROM_GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// Watches and tunnels never end by themselves, so waiting longer for them gains nothing.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
const KUBERNETES_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

/// A control plane that has been started.
pub(super) struct ControlPlane {
    pub(super) tasks: TaskSet,
    pub(super) admin: Admin,
}

/// Starts everything on an open store and a bound socket.
pub(super) async fn start(
    store: Embedded,
    listener: TcpListener,
    mut machines: HostOptions,
    options: &ServeOptions,
    shutdown: Shutdown,
) -> Result<ControlPlane> {
    let address = listener.local_addr()?;
    let (url, node_url) = urls(address);
    let server = build_server(store, address, options).await?;
    let logical_clusters: Arc<dyn LogicalClusters> = Arc::new(server.administration());

    let mut tasks = TaskSet::new(shutdown.clone());
    let (serving, stop) = (server.clone(), shutdown.clone());
    let mut listener = Some(listener);
    tasks.spawn("api server", TaskPolicy::Fail, move || {
        let (serving, stop, listener) = (serving.clone(), stop.clone(), listener.take());
        async move {
            if let Some(listener) = listener {
                serving.serve(listener, stop).await?;
            }
            Ok(())
        }
    });

    let (expiring, stop) = (server.clone(), shutdown.clone());
    tasks.spawn("event expiry", TaskPolicy::Restart(BackoffOptions::default()), move || {
        let (expiring, stop) = (expiring.clone(), stop.clone());
        async move {
            expiring.expire_events(&stop).await;
            Ok(())
        }
    });

    machines.insecure_registries.clone_from(&options.insecure_registries);
    let provider = Arc::new(HostProvider::open(machines).await.context("cannot open this host's machines")?);
    if !options.no_prepare {
        let prepare = provider.clone();
        tasks.spawn("guest image", TaskPolicy::Restart(BackoffOptions::default()), move || {
            let prepare = prepare.clone();
            async move {
                // What is missing is said again, to the cluster, when a machine is asked for.
                if let Err(error) = prepare.prepare().await {
                    tracing::warn!(error = runtime::error_chain(&error), "nodes cannot start on this host yet");
                }
                Ok(())
            }
        });
    }

    let client = Client::every(Arc::new(server.local(controller_user())));
    let informers = Arc::new(Informers::new(&client, InformerOptions::default()));
    let controllers = controllers::Options::new(definitions(), logical_clusters.certificate_authority());
    controllers::run(&client, &informers, controllers, &mut tasks);
    let defaults = clusters::Options::default();
    Clusters {
        client,
        informers: informers.clone(),
        logical_clusters: logical_clusters.clone(),
        provider: provider as Arc<dyn NodeProvider>,
        options: clusters::Options {
            scale: clusters::scale::Options { hold: i64::from(options.hold), ..defaults.scale.clone() },
            url: url.clone(),
            node_url,
            insecure_registries: options.insecure_registries.clone(),
            ..defaults
        },
    }
    .spawn(&mut tasks);
    informers.start(&mut tasks);
    Ok(ControlPlane { tasks, admin: Admin { logical_clusters, url } })
}

async fn build_server(store: Embedded, address: SocketAddr, options: &ServeOptions) -> Result<apiserver::Server> {
    let mut server_options = apiserver::Options {
        shutdown_grace: SHUTDOWN_GRACE,
        event_lifetime: Duration::from_secs(options.event_ttl.into()),
        ..apiserver::Options::default()
    };
    server_options.serving_addresses.push(HOST_FROM_GUEST.into());
    server_options.serving_addresses.push(KUBERNETES_SERVICE.into());
    if !address.ip().is_unspecified() {
        server_options.serving_addresses.push(address.ip());
    }
    for name in &options.names {
        match name.parse::<IpAddr>() {
            Ok(address) => server_options.serving_addresses.push(address),
            Err(_) => server_options.serving_names.push(name.clone()),
        }
    }
    let clusters = GroupResource { group: api::GROUP.to_owned(), resource: "clusters".to_owned() };
    let registry_options =
        apiserver::registry::Options { hosts: Some(clusters.clone()), ..apiserver::registry::Options::default() };
    let base = |authority: &str| {
        base::objects(&BaseParams {
            root_ca_pem: authority.to_owned(),
            kubernetes_ip: KUBERNETES_SERVICE,
            dns_ip: DNS_SERVICE,
            api_server_port: address.port(),
        })
    };
    let builder = ServerBuilder::open(Arc::new(store), definitions(), base, server_options, registry_options)
        .await
        .context("cannot open the API server")?;
    let administration = Arc::new(builder.administration());
    let hub = TunnelHub::new(StreamOptions::default());
    let pods = || GroupResource { group: String::new(), resource: "pods".to_owned() };
    Ok(builder
        .connect(clusters, api::KUBECONFIG, Arc::new(Kubeconfig { logical_clusters: administration }))
        .connect(pods(), "log", streams::log(&hub))
        .connect(pods(), "exec", streams::exec(&hub))
        .connect(pods(), "attach", streams::attach(&hub))
        .connect(pods(), "portforward", streams::port_forward(&hub))
        .node_tunnel(Arc::new(hub))
        .build())
}

/// Every kind that is served.
fn definitions() -> Vec<ResourceDefinition> {
    let mut definitions = apimachinery::builtin::definitions();
    definitions.extend(api::definitions());
    definitions
}

/// The identity of everything that runs in this process.
fn controller_user() -> UserInfo {
    UserInfo {
        name: "system:socialweb:controller".to_owned(),
        groups: vec![GROUP_MASTERS.to_owned(), apiserver::GROUP_CONTROLLERS.to_owned()],
        ..UserInfo::default()
    }
}

/// The server as clients on this host and as guests reach it.
fn urls(address: SocketAddr) -> (String, String) {
    let port = address.port();
    let ip = address.ip();
    let host = if ip.is_unspecified() { IpAddr::from(Ipv4Addr::LOCALHOST) } else { ip };
    let guest = if ip.is_unspecified() || ip.is_loopback() { IpAddr::from(HOST_FROM_GUEST) } else { ip };
    let url = |ip| format!("https://{}", SocketAddr::new(ip, port));
    (url(host), url(guest))
}
