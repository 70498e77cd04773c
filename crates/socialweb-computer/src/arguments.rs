//! The command line.

use crate::output::Format;
use crate::paths::Paths;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Parser)]
#[command(
    name = "socialweb-computer",
    version,
    about = "Virtual Kubernetes clusters whose nodes scale to zero",
    max_term_width = 100
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) paths: Paths,
    /// How to print results
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Human)]
    pub(crate) output: Format,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the control plane: API server, controllers and this host's microVMs
    Serve(Box<ServeOptions>),
    /// Create, list, look at and delete clusters
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Whether the control plane runs, and what it holds
    Status,
    /// What this host can do, and what to install
    CheckHost(MachineOptions),
    /// Print the version
    Version,
    /// Print a shell's completion script
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Where machines come from.
#[derive(Args, Clone)]
pub(crate) struct MachineOptions {
    /// The node agent, a static executable [default: socialweb-node beside this program]
    #[arg(long, value_name = "FILE", env = "SOCIALWEB_AGENT")]
    pub(crate) agent: Option<PathBuf>,
    /// Image archives (OCI layout or `docker save`, as tar) that every node gets
    #[arg(long = "image", value_name = "FILE")]
    pub(crate) images: Vec<PathBuf>,
}

#[derive(Args, Clone)]
pub(crate) struct ServeOptions {
    /// Address to listen on [default: the port of the last run, else a free one, on 127.0.0.1]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Further host names or addresses under which clients reach the server
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) machines: MachineOptions,
    /// Do not prepare the kernel and the guest image before the first node needs them
    #[arg(long)]
    pub(crate) no_prepare: bool,
    /// Plain-HTTP registries that nodes may pull from
    #[arg(long = "insecure-registry", value_name = "HOST:PORT")]
    pub(crate) insecure_registries: Vec<String>,
    /// Seconds that a cluster must be idle before its nodes go, where it does not say
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(crate) hold: u32,
    /// Seconds that an Event is kept after it was last written; 0 keeps it for ever
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub(crate) event_ttl: u32,
    /// Log lines: human or json
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) log_format: String,
    /// Log filter, such as info or "info,apiserver=debug"
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum ClusterCommand {
    /// Create a cluster and wait until it is Ready
    Create {
        /// Its name
        name: String,
        #[command(flatten)]
        nodes: NodeFlags,
    },
    /// List clusters
    #[command(visible_alias = "ls")]
    List,
    /// Show one cluster
    Get {
        /// Its name
        name: String,
    },
    /// Print a kubeconfig with a short-lived client certificate
    Kubeconfig {
        /// The cluster's name
        name: String,
        /// Write it here (mode 0600) instead of printing it
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// How long the certificate is valid, seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
        lifetime: u32,
    },
    /// Delete a cluster with everything in it, and wait until it is gone
    #[command(visible_alias = "rm")]
    Delete {
        /// Its name
        name: String,
        /// Return at once
        #[arg(long)]
        no_wait: bool,
    },
}

/// How a new cluster's nodes scale; what is left out is the server's default.
#[derive(Args, Clone, Default)]
pub(crate) struct NodeFlags {
    /// At most this many nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) max_nodes: Option<i32>,
    /// Pods that one node is asked to hold
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pods_per_node: Option<i32>,
    /// Seconds that it must be idle before its nodes go
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) hold: Option<i32>,
    /// Virtual CPUs of a node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) cpus: Option<i32>,
    /// Memory of a node, MiB
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(i32).range(128..))]
    pub(crate) memory: Option<i32>,
}
