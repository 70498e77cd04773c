//! The connection over which the API server reaches this node: opened by the node, then the API
//! server speaks HTTP/2 to it.

mod dial;
mod frames;
mod reply;
mod route;
mod service;

#[cfg(test)]
mod tests;

pub(crate) use service::Streams;

use crate::identity::NodeTransport;
use http::header;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use node_api::{BootConfig, tunnel, tunnel_path};
use runtime::{Backoff, BackoffOptions, BoxError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// Limits and times of the tunnel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TunnelOptions {
    /// Delays between attempts to open it.
    pub(crate) backoff: BackoffOptions,
    /// Longest wait until it is open.
    pub(crate) open_timeout: Duration,
    /// How often a silent tunnel is checked, and how long an answer may take.
    pub(crate) keep_alive: Duration,
    /// Requests at once.
    pub(crate) max_streams: u32,
}

impl Default for TunnelOptions {
    fn default() -> Self {
        Self {
            backoff: BackoffOptions {
                initial: Duration::from_millis(200),
                max: Duration::from_secs(10),
                ..BackoffOptions::default()
            },
            open_timeout: Duration::from_secs(15),
            keep_alive: Duration::from_secs(15),
            max_streams: 128,
        }
    }
}

/// Keeps a tunnel open, for ever.
pub(crate) async fn run(config: BootConfig, transport: Arc<NodeTransport>, streams: Streams, options: TunnelOptions) {
    let mut backoff = Backoff::new(options.backoff);
    loop {
        match tokio::time::timeout(options.open_timeout, open(&config, &transport)).await {
            Ok(Ok(upgraded)) => {
                backoff.reset();
                if let Err(error) = serve(upgraded, streams.clone(), &options).await {
                    tracing::info!(error = runtime::error_chain(&error), "the tunnel ended");
                }
            }
            Ok(Err(error)) => {
                tracing::warn!(error = runtime::error_chain(&*error), "cannot open the tunnel");
            }
            Err(_) => tracing::warn!("the tunnel did not open in time"),
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

async fn open(config: &BootConfig, transport: &NodeTransport) -> Result<hyper::upgrade::Upgraded, BoxError> {
    let uri: http::Uri = config.server.parse()?;
    let host = uri.host().ok_or("the server's address has no host")?.trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(443);
    let identity = transport.identity();
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(config.certificate_authority.as_bytes()) {
        roots.add(certificate?)?;
    }
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
    // Only HTTP/1.1: an upgrade is not part of anything newer.
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    stream.set_nodelay(true)?;
    let stream = tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(ServerName::try_from(host)?, stream).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection.with_upgrades());
    let request = http::Request::get(tunnel_path(&config.cluster, &config.node_name))
        .header(header::HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, tunnel::PROTOCOL)
        .body(Empty::<bytes::Bytes>::new())?;
    let response = sender.send_request(request).await?;
    if response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
        return Err(format!("the API server answered {}", response.status()).into());
    }
    Ok(hyper::upgrade::on(response).await?)
}

/// Answers the API server's requests until the connection ends.
pub(crate) async fn serve<I>(io: I, streams: Streams, options: &TunnelOptions) -> hyper::Result<()>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
{
    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(options.keep_alive)
        .keep_alive_timeout(options.keep_alive)
        .max_concurrent_streams(options.max_streams)
        .serve_connection(
            io,
            hyper::service::service_fn(move |request| {
                let streams = streams.clone();
                async move { Ok::<_, std::convert::Infallible>(streams.answer(request).await) }
            }),
        )
        .await
}
