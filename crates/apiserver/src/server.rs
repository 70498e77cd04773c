//! The server: in-process transports, and connections over TLS.

use crate::administration::Administration;
use crate::authentication::Peer;
use crate::expiry;
use crate::local::LocalTransport;
use crate::options::Options;
use crate::pki::ServerKeys;
use crate::registry::Registry;
use crate::respond;
use crate::service::{Caller, Service};
use crate::tls;
use apimachinery::auth::UserInfo;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use runtime::{Shutdown, SystemClock, error_chain};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Longest time between two looks at what ends by time: the serving certificate, cached rules.
const HOUSEKEEPING: Duration = Duration::from_secs(60);
/// Pause after a failed accept, such as with no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A Kubernetes API server for many logical clusters. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    service: Arc<Service>,
    keys: Arc<ServerKeys>,
    administration: Administration,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn new(service: Arc<Service>, keys: Arc<ServerKeys>, administration: Administration) -> Self {
        Self { service, keys, administration }
    }

    /// A transport for clients in this process that act as `user`.
    #[must_use]
    pub fn local(&self, user: UserInfo) -> LocalTransport {
        LocalTransport::new(Arc::clone(&self.service), user)
    }

    /// The objects of every cluster.
    #[must_use]
    pub fn registry(&self) -> Registry {
        self.service.registry.clone()
    }

    /// Administration of the logical clusters.
    #[must_use]
    pub fn administration(&self) -> Administration {
        self.administration.clone()
    }

    /// Serves connections until `shutdown`; requests in progress then have the options' grace.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub async fn serve(&self, listener: TcpListener, shutdown: Shutdown) -> Result<(), rustls::Error> {
        let acceptor = TlsAcceptor::from(Arc::new(tls::config(Arc::clone(&self.keys))?));
        let options = &self.service.options;
        let slots = Arc::new(Semaphore::new(options.max_connections));
        let mut connections: JoinSet<()> = JoinSet::new();
        let mut housekeeping = tokio::time::interval(HOUSEKEEPING.min(options.rbac_cache_idle));
        housekeeping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let accept = async {
                let slot = Arc::clone(&slots).acquire_owned().await;
                (listener.accept().await, slot)
            };
            let (accepted, slot) = tokio::select! {
                accepted = accept => accepted,
                _ = housekeeping.tick() => {
                    self.housekeeping().await;
                    continue;
                }
                Some(_) = connections.join_next() => continue,
                () = shutdown.triggered() => break,
            };
            match accepted {
                Ok((stream, address)) => {
                    let connection = Connection {
                        service: Arc::clone(&self.service),
                        acceptor: acceptor.clone(),
                        address,
                        shutdown: shutdown.clone(),
                    };
                    // The slot goes with the stream, also when a tunnel takes the stream over.
                    connections.spawn(connection.run(tls::Slotted::new(stream, slot.ok())));
                }
                Err(error) => {
                    tracing::warn!(error = error_chain(&error), "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        self.service.stopping.trigger();
        drop(listener);
        let drained = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(options.shutdown_grace, drained).await.is_err() {
            tracing::debug!(connections = connections.len(), "connections did not end in time");
            connections.shutdown().await;
        }
        Ok(())
    }

    /// Lets Events expire in every cluster until `shutdown`. To be run once per store.
    pub async fn expire_events(&self, shutdown: &Shutdown) {
        let lifetime = self.service.options.event_lifetime;
        if !lifetime.is_zero() {
            expiry::run(&self.service.registry, lifetime, &SystemClock, shutdown).await;
        }
    }

    async fn housekeeping(&self) {
        self.service.authorizer.sweep().await;
        if let Err(error) = self.keys.renew_if_due().await {
            tracing::warn!(error = error_chain(&error), "the serving certificate could not be replaced");
        }
    }
}

/// One connection from the network.
struct Connection {
    service: Arc<Service>,
    acceptor: TlsAcceptor,
    address: SocketAddr,
    shutdown: Shutdown,
}

impl Connection {
    async fn run(self, stream: tls::Slotted<TcpStream>) {
        let Self { service, acceptor, address, shutdown } = self;
        let options: &Options = &service.options;
        let handshake = tokio::time::timeout(options.handshake_timeout, acceptor.accept(stream));
        let tls = match shutdown.unless_triggered(handshake).await {
            Some(Ok(Ok(tls))) => tls,
            Some(Ok(Err(error))) => {
                tracing::debug!(%address, error = error_chain(&error), "a TLS handshake failed");
                return;
            }
            Some(Err(_)) | None => return,
        };
        let certificate =
            tls.get_ref().1.peer_certificates().and_then(|chain| chain.first()).map(|c| c.clone().into_owned());
        let peer = Arc::new(Peer::new(certificate));
        let builder = builder(options);
        let handler = hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| {
            let (service, peer) = (Arc::clone(&service), Arc::clone(&peer));
            async move {
                let request = request.map(respond::incoming);
                Ok::<_, Infallible>(service.answer(Caller::Network(&peer), request).await)
            }
        });
        let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(tls), handler));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = shutdown.triggered() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%address, error = error.to_string(), "a connection broke");
        }
    }
}

fn builder(options: &Options) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    let header_bytes = usize::try_from(options.max_header_bytes).unwrap_or(usize::MAX);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_timeout)
        .max_buf_size(header_bytes.max(8192))
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(options.max_concurrent_streams)
        .max_header_list_size(options.max_header_bytes)
        .keep_alive_interval(options.keep_alive)
        .keep_alive_timeout(options.keep_alive);
    builder
}
