//! Every bound and choice of the server, with the defaults of kube-apiserver where it has one.

use std::net::IpAddr;
use std::time::Duration;

/// Limits and names of a [`Server`](crate::Server).
#[derive(Clone, Debug)]
pub struct Options {
    /// Host names in the serving certificate besides the standard ones.
    pub serving_names: Vec<String>,
    /// Addresses in the serving certificate besides the standard ones.
    pub serving_addresses: Vec<IpAddr>,
    /// How long a serving certificate is valid.
    pub serving_lifetime: Duration,
    /// How long before its end a serving certificate is replaced.
    pub serving_renewal: Duration,
    /// Connections open at once; further ones wait in the kernel's backlog.
    pub max_connections: usize,
    /// Time for the TLS handshake.
    pub handshake_timeout: Duration,
    /// Time for a client to send its request head.
    pub header_timeout: Duration,
    /// Size of a request head, bytes.
    pub max_header_bytes: u32,
    /// Size of a request body, bytes.
    pub max_body_bytes: usize,
    /// HTTP/2 streams of one connection.
    pub max_concurrent_streams: u32,
    /// How often an HTTP/2 connection is probed, and how long the answer may take.
    pub keep_alive: Duration,
    /// Requests from the network in progress at once, watches and streams not counted.
    pub max_requests_in_flight: usize,
    /// Watches and streams from the network at once.
    pub max_long_running: usize,
    /// Time for a request that is neither a watch nor a stream.
    pub request_timeout: Duration,
    /// How long shutdown waits for requests in progress.
    pub shutdown_grace: Duration,
    /// How long the verdict about a client certificate is kept on its connection.
    pub certificate_recheck: Duration,
    /// Clusters whose compiled RBAC rules are kept.
    pub rbac_cache_clusters: usize,
    /// How long compiled RBAC rules are kept without use.
    pub rbac_cache_idle: Duration,
    /// Discovery and OpenAPI documents kept.
    pub document_cache_entries: usize,
    /// Bodies of at least this many bytes are compressed for clients that accept it.
    pub gzip_threshold: usize,
    /// How long an Event is kept after it was last written; zero keeps it for ever.
    pub event_lifetime: Duration,
    /// Longest lifetime of a ServiceAccount token.
    pub max_token_lifetime: Duration,
    /// Lifetime of a node's certificate.
    pub node_certificate_lifetime: Duration,
    /// Longest lifetime of a credential or join token that [`controller_runtime::LogicalClusters`] hands out.
    pub max_credential_lifetime: Duration,
}

impl Default for Options {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self {
            serving_names: Vec::new(),
            serving_addresses: Vec::new(),
            serving_lifetime: 365 * 24 * HOUR,
            serving_renewal: 30 * 24 * HOUR,
            max_connections: 8192,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(90),
            max_header_bytes: 64 * 1024,
            max_body_bytes: 3 * 1024 * 1024,
            max_concurrent_streams: 250,
            keep_alive: Duration::from_secs(30),
            max_requests_in_flight: 600,
            max_long_running: 16_384,
            request_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(10),
            certificate_recheck: Duration::from_secs(60),
            rbac_cache_clusters: 256,
            rbac_cache_idle: Duration::from_secs(300),
            document_cache_entries: 128,
            gzip_threshold: 128 * 1024,
            event_lifetime: HOUR,
            max_token_lifetime: 24 * HOUR,
            node_certificate_lifetime: 24 * HOUR,
            max_credential_lifetime: 7 * 24 * HOUR,
        }
    }
}
