//! The agent: joins the cluster, registers the Node, and then does everything that a node does.

use crate::boot::{console, drives, init};
use crate::container::{Runtime, RuntimeOptions};
use crate::events::{EventOptions, recorder};
use crate::identity::{self, Identity, IdentityError, NodeTransport};
use crate::image::{ImageOptions, Images};
use crate::net::address::Cidr;
use crate::net::dns_server::{self, DnsOptions, SharedZone};
use crate::net::link::{self, HostNetwork};
use crate::net::pods::PodNetworks;
use crate::net::services::{self, Fixed};
use crate::node_object::{self, Machine, NodeOptions};
use crate::pod::context::{Context, PodOptions};
use crate::pod::machinery::Machinery;
use crate::pod::manager;
use crate::pod::views::Views;
use crate::tunnel::{self, Streams, TunnelOptions};
use controller_runtime::Client;
use node_api::{BootConfig, JoinSecret};
use runtime::{Backoff, BackoffOptions, BoxError};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Limits and times of the agent as a whole.
#[derive(Clone, Copy, Debug)]
struct AgentOptions {
    /// Longest wait for the seed drive.
    drives: Duration,
    /// Longest time in which joining and registering are tried.
    register: Duration,
    /// Delays between tries.
    backoff: BackoffOptions,
    /// Where names outside the cluster are asked for: the host's resolver in user-mode networking.
    resolver: SocketAddr,
    /// Changes of Services are taken together for so long.
    settle: Duration,
    /// The least time between two renewals of the certificate.
    renew_retry: Duration,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self {
            drives: Duration::from_secs(10),
            register: Duration::from_secs(120),
            backoff: BackoffOptions {
                initial: Duration::from_millis(200),
                max: Duration::from_secs(5),
                ..BackoffOptions::default()
            },
            resolver: SocketAddr::from(([10, 0, 2, 3], 53)),
            settle: Duration::from_millis(50),
            renew_retry: Duration::from_secs(60),
        }
    }
}

/// Runs the agent on a machine that [`init`] prepared. It returns only with a failure.
pub(crate) fn run() -> BoxError {
    let started = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match started {
        Ok(runtime) => match runtime.block_on(work(AgentOptions::default())) {
            Ok(never) => match never {},
            Err(error) => error,
        },
        Err(error) => error.into(),
    }
}

async fn work(options: AgentOptions) -> Result<std::convert::Infallible, BoxError> {
    let network = HostNetwork::default();
    link::set_up_host(&network).map_err(|error| format!("cannot set up the network: {error}"))?;
    let found = drives::wait(options.drives)?;
    let seed = found.get("cidata").ok_or("there is no drive with the serial number cidata")?;
    let config = drives::boot_config(seed)?;
    let secret = found.get("join").ok_or("there is no drive with the serial number join")?;
    let secret = drives::join_secret(secret)?;
    rustix::system::sethostname(config.node_name.as_bytes())?;
    let pods: Cidr = config.pod_cidr.parse()?;
    let dns: Ipv4Addr = config.cluster_dns.parse()?;

    let state = PathBuf::from(init::STATE);
    let log_root = state.join("logs");
    let images = Images::open(&state.join("images"), image_options(&config, options.resolver))?;
    let runtime = Runtime::open(RuntimeOptions::new(state.join("run"), &log_root, "/sys/fs/cgroup/pods"))?;
    let (imported, images_ready) = watch::channel(false);

    let identity = join(&config, &secret, &options).await?;
    drop(secret);
    let transport = Arc::new(NodeTransport::new(config.clone(), identity)?);
    let client = Client::new(transport.clone(), config.cluster.as_str());
    let machine = Machine::observe(network.address.to_string(), init::STATE);
    let node_options = NodeOptions::default();
    let uid = register(&client, &config, &machine, &node_options, &options).await?;
    console::ready();

    let mut tasks: JoinSet<&'static str> = JoinSet::new();
    let archives = drives::images(&found);
    tasks.spawn(named("keep-alive", {
        node_object::keep_alive(client.clone(), config.clone(), machine.clone(), uid.clone(), node_options)
    }));
    let import = images.clone();
    tokio::spawn(async move {
        import_all(import, archives).await;
        imported.send_replace(true);
    });
    let (recorder, events) = recorder(client.clone(), config.node_name.clone(), EventOptions::default());
    tasks.spawn(named("events", events));
    recorder.node(&config.node_name, &uid, "Starting", "Starting kubelet.");

    let zone = SharedZone::default();
    let fixed = Fixed { domain: config.cluster_domain.clone(), api_server: api_server(&config), own: vec![dns] };
    let (services, follow_services) = services::run(client.clone(), fixed, pods, zone.clone(), options.settle);
    tasks.spawn(named("services", follow_services));
    link::Links::open()?.add_address(link::index("lo")?, dns, 32)?;
    let udp = tokio::net::UdpSocket::bind((dns, 53)).await?;
    let tcp = tokio::net::TcpListener::bind((dns, 53)).await?;
    let dns_options = DnsOptions { resolver: Some(options.resolver), ..DnsOptions::default() };
    tasks.spawn(named("dns", async move {
        if let Err(error) = dns_server::serve(udp, tcp, zone, dns_options).await {
            tracing::error!(%error, "the DNS server failed");
        }
    }));

    let views = Views::default();
    let streams = Streams { runtime: runtime.clone(), views: views.clone(), log_root: log_root.clone() };
    tasks.spawn(named("tunnel", { tunnel::run(config.clone(), transport.clone(), streams, TunnelOptions::default()) }));
    tasks.spawn(named("certificate", async move { transport.keep_valid(options.renew_retry).await }));
    let networks = Arc::new(PodNetworks::new(pods, "/run/netns"));
    let context = Context {
        client,
        engine: Arc::new(Machinery { runtime, images, imported: images_ready }),
        networks: Some(networks),
        services: Some(services),
        recorder,
        views,
        options: PodOptions::default(),
        node: config.node_name.clone(),
        host: network.address.to_string(),
        domain: config.cluster_domain.clone(),
        dns: config.cluster_dns.clone(),
        cpus: i64::try_from(machine.cpus).unwrap_or(1),
        memory: i64::try_from(machine.memory_kib.saturating_mul(1024)).unwrap_or(i64::MAX),
        root: state.join("pods"),
        log_root,
    };
    tasks.spawn(named("pods", manager::run(Arc::new(context))));
    // None of them ends.
    match tasks.join_next().await {
        Some(Ok(name)) => Err(format!("the task {name:?} ended").into()),
        Some(Err(error)) => Err(error.into()),
        None => Err("there is nothing to do".into()),
    }
}

async fn named(name: &'static str, work: impl Future<Output = ()>) -> &'static str {
    work.await;
    name
}

fn image_options(config: &BootConfig, resolver: SocketAddr) -> ImageOptions {
    ImageOptions {
        insecure_registries: config.insecure_registries.clone(),
        mirrors: config.registry_mirrors.iter().map(|(host, other)| (host.clone(), vec![other.clone()])).collect(),
        name_servers: vec![resolver],
        ..ImageOptions::default()
    }
}

/// The API server's address, if it is one.
fn api_server(config: &BootConfig) -> Option<SocketAddrV4> {
    let uri: http::Uri = config.server.parse().ok()?;
    Some(SocketAddrV4::new(uri.host()?.parse().ok()?, uri.port_u16().unwrap_or(443)))
}

/// Imports preloaded images, one after the other: there is one CPU.
async fn import_all(images: Images, archives: Vec<PathBuf>) {
    for path in archives {
        if let Err(error) = import(&images, &path).await {
            tracing::warn!(path = %path.display(), error = runtime::error_chain(&*error), "cannot import images");
        }
    }
}

async fn import(images: &Images, path: &Path) -> Result<(), BoxError> {
    images.import_archive(std::fs::File::open(path)?).await?;
    Ok(())
}

async fn join(config: &BootConfig, secret: &JoinSecret, options: &AgentOptions) -> Result<Identity, IdentityError> {
    let deadline = tokio::time::Instant::now() + options.register;
    let mut backoff = Backoff::new(options.backoff);
    loop {
        match identity::join(config, secret).await {
            Err(error) if error.is_passing() && tokio::time::Instant::now() < deadline => {
                tracing::warn!(error = runtime::error_chain(&error), "cannot join yet");
                tokio::time::sleep(backoff.next_delay()).await;
            }
            other => return other,
        }
    }
}

async fn register(
    client: &Client,
    config: &BootConfig,
    machine: &Machine,
    node: &NodeOptions,
    options: &AgentOptions,
) -> Result<String, BoxError> {
    let deadline = tokio::time::Instant::now() + options.register;
    let mut backoff = Backoff::new(options.backoff);
    loop {
        match node_object::register(client, config, machine, node).await {
            Ok(uid) => return Ok(uid),
            Err(error) if tokio::time::Instant::now() < deadline => {
                tracing::warn!(error = runtime::error_chain(&error), "cannot register the node yet");
                tokio::time::sleep(backoff.next_delay()).await;
            }
            Err(error) => return Err(format!("cannot register the node: {}", runtime::error_chain(&error)).into()),
        }
    }
}
