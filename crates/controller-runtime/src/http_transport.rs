//! `Transport` over TLS: one shared HTTP/2 connection, or a few HTTP/1.1 ones where the server
//! speaks nothing newer.

use crate::{Body, BoxError, Transport};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;

/// Where an API server is and how to talk to it.
#[derive(Clone)]
pub struct HttpOptions {
    /// `https://host:port`.
    pub server: String,
    /// Authorities that may have signed the server's certificate, PEM.
    pub certificate_authority: String,
    /// Name to expect in the server's certificate, if not the host of `server`.
    pub server_name: Option<String>,
    /// Client certificate chain and key, PEM.
    pub client_certificate: Option<(String, String)>,
    /// Bearer token.
    pub token: Option<String>,
    /// Longest wait for a connection with TLS.
    pub connect_timeout: Duration,
    /// How often an otherwise silent HTTP/2 connection is checked.
    pub keep_alive_interval: Duration,
    /// How long an answer to such a check may take before the connection counts as broken.
    pub keep_alive_timeout: Duration,
    /// Idle HTTP/1.1 connections kept.
    pub max_idle_connections: usize,
}

impl HttpOptions {
    /// Options with the usual limits and no credential.
    pub fn new(server: impl Into<String>, certificate_authority: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            certificate_authority: certificate_authority.into(),
            server_name: None,
            client_certificate: None,
            token: None,
            connect_timeout: Duration::from_secs(5),
            keep_alive_interval: Duration::from_secs(15),
            keep_alive_timeout: Duration::from_secs(10),
            max_idle_connections: 4,
        }
    }
}

impl std::fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpOptions").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Why a transport cannot be made, or a connection not be had.
#[derive(Debug, thiserror::Error)]
pub enum HttpTransportError {
    /// The URL is not usable.
    #[error("{0:?} is not a usable server address: expected https://host:port")]
    Server(String),
    /// Unreadable PEM, or a certificate and key that do not fit.
    #[error("the {what} cannot be used: {reason}")]
    Credential {
        /// Which.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// No connection.
    #[error("cannot connect to {server}")]
    Connect {
        /// `host:port`.
        server: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// No connection in time.
    #[error("cannot connect to {server} within {limit:?}")]
    ConnectTimeout {
        /// `host:port`.
        server: String,
        /// How long was waited.
        limit: Duration,
    },
}

/// Carries requests over TLS. A broken connection is replaced by the next request.
pub struct HttpTransport {
    options: HttpOptions,
    authority: String,
    host: String,
    port: u16,
    server_name: ServerName<'static>,
    tls: tokio_rustls::TlsConnector,
    authorization: Option<HeaderValue>,
    shared: tokio::sync::Mutex<Option<http2::SendRequest<Full<Bytes>>>>,
    idle: Arc<Mutex<Vec<http1::SendRequest<Full<Bytes>>>>>,
}

impl std::fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpTransport").field("server", &self.authority).finish_non_exhaustive()
    }
}

enum Connection {
    Shared(http2::SendRequest<Full<Bytes>>),
    Own(http1::SendRequest<Full<Bytes>>),
}

impl HttpTransport {
    /// Reads the options; connects on the first request.
    ///
    /// # Errors
    /// When the address or a credential cannot be used.
    pub fn new(options: HttpOptions) -> Result<Self, HttpTransportError> {
        let bad = || HttpTransportError::Server(options.server.clone());
        let uri: Uri = options.server.parse().map_err(|_| bad())?;
        let host = uri.host().filter(|_| uri.scheme_str() == Some("https")).ok_or_else(bad)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = options.server_name.clone().unwrap_or_else(|| host.clone());
        let server_name = ServerName::try_from(name).map_err(|_| bad())?;
        let authorization = options.token.as_ref().map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|error| HttpTransportError::Credential { what: "bearer token", reason: error.to_string() })?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(Self {
            authority: uri.authority().map(ToString::to_string).unwrap_or_default(),
            port: uri.port_u16().unwrap_or(443),
            host,
            server_name,
            tls: Arc::new(tls_config(&options)?).into(),
            authorization: authorization.transpose()?,
            shared: tokio::sync::Mutex::new(None),
            idle: Arc::default(),
            options,
        })
    }

    /// A connection that is open, as far as is known.
    async fn connection(&self) -> Result<Connection, HttpTransportError> {
        let mut shared = self.shared.lock().await;
        if let Some(sender) = shared.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(Connection::Shared(sender.clone()));
        }
        *shared = None;
        {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            while let Some(sender) = idle.pop() {
                if sender.is_ready() {
                    return Ok(Connection::Own(sender));
                }
            }
        }
        let connected = tokio::time::timeout(self.options.connect_timeout, self.connect());
        let connection = match connected.await {
            Ok(result) => {
                result.map_err(|source| HttpTransportError::Connect { server: self.authority.clone(), source })?
            }
            Err(_) => {
                return Err(HttpTransportError::ConnectTimeout {
                    server: self.authority.clone(),
                    limit: self.options.connect_timeout,
                });
            }
        };
        if let Connection::Shared(sender) = &connection {
            *shared = Some(sender.clone());
        }
        Ok(connection)
    }

    async fn connect(&self) -> std::io::Result<Connection> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await?;
        tcp.set_nodelay(true)?;
        let tls = self.tls.connect(self.server_name.clone(), tcp).await?;
        let newer = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        let io = TokioIo::new(tls);
        if newer {
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .adaptive_window(true)
                .keep_alive_interval(self.options.keep_alive_interval)
                .keep_alive_timeout(self.options.keep_alive_timeout)
                .handshake(io)
                .await
                .map_err(std::io::Error::other)?;
            // Ends with the last sender and stream, or when the connection breaks.
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(error = runtime::error_chain(&error), "a connection to the API server ended");
                }
            });
            Ok(Connection::Shared(sender))
        } else {
            let (sender, connection) = http1::handshake(io).await.map_err(std::io::Error::other)?;
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(error = runtime::error_chain(&error), "a connection to the API server ended");
                }
            });
            Ok(Connection::Own(sender))
        }
    }

    /// The request as the protocol wants it: a full URI for HTTP/2, a Host header for HTTP/1.1.
    fn addressed(&self, mut request: Request<Full<Bytes>>, full: bool) -> Result<Request<Full<Bytes>>, BoxError> {
        if full {
            let path =
                request.uri().path_and_query().cloned().unwrap_or_else(|| http::uri::PathAndQuery::from_static("/"));
            *request.uri_mut() =
                Uri::builder().scheme("https").authority(self.authority.as_str()).path_and_query(path).build()?;
        } else {
            request.headers_mut().insert(header::HOST, HeaderValue::try_from(self.authority.as_str())?);
        }
        Ok(request)
    }

    /// Keeps an HTTP/1.1 connection for the next request once its answer has been read.
    fn keep(&self, mut sender: http1::SendRequest<Full<Bytes>>) {
        let (idle, max) = (Arc::downgrade(&self.idle), self.options.max_idle_connections);
        tokio::spawn(async move {
            if sender.ready().await.is_err() {
                return;
            }
            if let Some(idle) = idle.upgrade() {
                let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
                if idle.len() < max {
                    idle.push(sender);
                }
            }
        });
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        let mut request = request.map(Full::new);
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
        }
        // A connection may turn out to be closed when it is used. A request that provably was not
        // sent is tried on other connections; the bound is every idle one and then a new one.
        let mut tries = self.options.max_idle_connections + 2;
        loop {
            tries -= 1;
            let failed = match self.connection().await? {
                Connection::Shared(mut sender) => match sender.try_send_request(self.addressed(request, true)?).await {
                    Ok(response) => return Ok(response.map(boxed)),
                    Err(failed) => failed,
                },
                Connection::Own(mut sender) => match sender.try_send_request(self.addressed(request, false)?).await {
                    Ok(response) => {
                        self.keep(sender);
                        return Ok(response.map(boxed));
                    }
                    Err(failed) => failed,
                },
            };
            let mut failed = failed;
            match failed.take_message() {
                Some(unsent) if tries > 0 => request = unsent,
                _ => return Err(failed.into_error().into()),
            }
        }
    }
}

fn boxed(body: hyper::body::Incoming) -> Body {
    Body::new(body.map_err(BoxError::from))
}

fn tls_config(options: &HttpOptions) -> Result<rustls::ClientConfig, HttpTransportError> {
    fn bad<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> HttpTransportError {
        move |error| HttpTransportError::Credential { what, reason: error.to_string() }
    }
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(options.certificate_authority.as_bytes()) {
        let what = "certificate authority";
        roots.add(certificate.map_err(bad(what))?).map_err(bad(what))?;
    }
    if roots.is_empty() {
        return Err(bad("certificate authority")("it holds no certificate"));
    }
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(bad("TLS configuration"))?
        .with_root_certificates(roots);
    let mut config = match &options.client_certificate {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let what = "client certificate";
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(bad(what))?;
            builder.with_client_auth_cert(chain.map_err(bad(what))?, key).map_err(bad(what))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
