//! A server of its own for each test, and clients for it.

use apimachinery::auth::{GROUP_MASTERS, UserInfo};
use apimachinery::builtin::{self, base};
use apiserver::registry::LogicalClusterKind;
use apiserver::{Options, Server, ServerBuilder, pki, registry};
use bytes::Bytes;
use controller_runtime::{ClientCredential, HttpOptions, HttpTransport, LogicalClusters as _, Transport};
use http_body_util::BodyExt as _;
use runtime::Shutdown;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: Shutdown,
    pub(crate) ended: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.trigger();
    }
}

/// An answer with its body read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) bytes: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// A builder over a store in memory, with every built-in kind and the base layer.
pub(crate) async fn builder(options: Options) -> ServerBuilder {
    let base = |root_ca_pem: &str| {
        base::objects(&base::BaseParams {
            root_ca_pem: root_ca_pem.to_owned(),
            kubernetes_ip: Ipv4Addr::new(10, 96, 0, 1),
            dns_ip: Ipv4Addr::new(10, 96, 0, 10),
            api_server_port: 6443,
        })
    };
    let store = Arc::new(store::Memory::default());
    ServerBuilder::open(store, builtin::definitions(), base, options, registry::Options::default()).await.unwrap()
}

/// A server with options, listening.
pub(crate) async fn start_with(builder: ServerBuilder) -> Running {
    let server = builder.build();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::new();
    let ended = tokio::spawn({
        let (server, shutdown) = (server.clone(), shutdown.clone());
        async move { server.serve(listener, shutdown).await.unwrap() }
    });
    Running { server, address, shutdown, ended }
}

/// A server with the default options, listening.
pub(crate) async fn start() -> Running {
    start_with(builder(Options::default()).await).await
}

impl Running {
    pub(crate) fn authority(&self) -> String {
        self.server.administration().certificate_authority()
    }

    /// A second logical cluster.
    pub(crate) async fn create_cluster(&self, name: &str) {
        let authority = pki::new_client_authority(name).unwrap();
        self.server.registry().create_logical_cluster(name, LogicalClusterKind::Cluster, authority).await.unwrap();
    }

    pub(crate) async fn credential(&self, cluster: &str, user: &str, groups: &[&str]) -> ClientCredential {
        let groups: Vec<String> = groups.iter().map(|g| (*g).to_owned()).collect();
        self.server.administration().issue_credential(cluster, user, &groups, PATIENCE).await.unwrap()
    }

    fn options(&self) -> HttpOptions {
        HttpOptions::new(format!("https://{}", self.address), self.authority())
    }

    pub(crate) fn anonymous(&self) -> HttpTransport {
        HttpTransport::new(self.options()).unwrap()
    }

    pub(crate) fn with_certificate(&self, credential: &ClientCredential) -> HttpTransport {
        let pair = (credential.certificate.clone(), credential.key.clone());
        HttpTransport::new(HttpOptions { client_certificate: Some(pair), ..self.options() }).unwrap()
    }

    pub(crate) fn with_token(&self, token: &str) -> HttpTransport {
        HttpTransport::new(HttpOptions { token: Some(token.to_owned()), ..self.options() }).unwrap()
    }

    /// A client with a certificate for a user of a cluster.
    pub(crate) async fn user(&self, cluster: &str, user: &str, groups: &[&str]) -> HttpTransport {
        self.with_certificate(&self.credential(cluster, user, groups).await)
    }

    /// A client of an administrator of a cluster.
    pub(crate) async fn admin(&self, cluster: &str) -> HttpTransport {
        self.user(cluster, "admin", &[GROUP_MASTERS]).await
    }

    /// A client in process.
    pub(crate) fn local(&self, groups: &[&str]) -> impl Transport {
        let groups = groups.iter().map(|g| (*g).to_owned()).collect();
        self.server.local(UserInfo { name: "local".into(), groups, ..UserInfo::default() })
    }
}

/// Sends a request and reads the answer.
pub(crate) async fn send(client: &impl Transport, method: &str, path: &str, body: Value) -> Answer {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    send_with(client, method, path, &[("content-type", kind)], body).await
}

/// Sends a request with headers and reads the answer.
pub(crate) async fn send_with(
    client: &impl Transport,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Answer {
    let mut request = http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let work = async {
        let response = client.send(request.body(body).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status.as_u16(), headers: parts.headers, bytes }
    };
    tokio::time::timeout(PATIENCE, work).await.unwrap()
}

pub(crate) async fn get(client: &impl Transport, path: &str) -> Answer {
    send(client, "GET", path, Value::Null).await
}

pub(crate) async fn post(client: &impl Transport, path: &str, body: Value) -> Answer {
    send(client, "POST", path, body).await
}
