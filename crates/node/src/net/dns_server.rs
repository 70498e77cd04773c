//! Answers DNS on UDP and TCP, and passes on what is not the cluster's.

use super::dns::{Outcome, Zone, answer, failure};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

const SERVER_FAILURE: u8 = 2;
const NO_SUCH_NAME: u8 = 3;

/// Limits of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DnsOptions {
    /// Where names outside the cluster are asked for; without it they do not exist.
    pub(crate) resolver: Option<SocketAddr>,
    /// Longest wait for the resolver, and for a silent TCP client.
    pub(crate) timeout: Duration,
    /// Queries to the resolver, and TCP clients, at once.
    pub(crate) max_concurrent: usize,
}

impl Default for DnsOptions {
    fn default() -> Self {
        Self { resolver: None, timeout: Duration::from_secs(4), max_concurrent: 128 }
    }
}

/// The zone that a server answers from, replaced as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedZone(Arc<RwLock<Arc<Zone>>>);

impl SharedZone {
    /// The zone now.
    pub(crate) fn get(&self) -> Arc<Zone> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces it.
    pub(crate) fn set(&self, zone: Zone) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(zone);
    }
}

/// Serves until an error of the listening sockets.
pub(crate) async fn serve(udp: UdpSocket, tcp: TcpListener, zone: SharedZone, options: DnsOptions) -> io::Result<()> {
    let slots = Arc::new(Semaphore::new(options.max_concurrent));
    tokio::try_join!(serve_udp(udp, zone.clone(), options, slots.clone()), serve_tcp(tcp, zone, options, slots))?;
    Ok(())
}

async fn serve_udp(socket: UdpSocket, zone: SharedZone, options: DnsOptions, slots: Arc<Semaphore>) -> io::Result<()> {
    let socket = Arc::new(socket);
    let mut buffer = vec![0; 4096];
    loop {
        let (length, client) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            // A client that is gone says nothing about the socket.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(error),
        };
        let query = &buffer[..length];
        match answer(query, &zone.get(), true) {
            Outcome::Reply(reply) => drop(socket.send_to(&reply, client).await),
            Outcome::Drop => {}
            Outcome::Forward => {
                let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
                let (socket, query) = (socket.clone(), query.to_vec());
                tokio::spawn(async move {
                    if let Some(reply) = forward(&query, &options).await {
                        let _ = socket.send_to(&reply, client).await;
                    }
                    drop(slot);
                });
            }
        }
    }
}

async fn serve_tcp(
    listener: TcpListener,
    zone: SharedZone,
    options: DnsOptions,
    slots: Arc<Semaphore>,
) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
        let zone = zone.clone();
        tokio::spawn(async move {
            let _ = serve_client(stream, &zone, &options).await;
            drop(slot);
        });
    }
}

async fn serve_client(mut stream: TcpStream, zone: &SharedZone, options: &DnsOptions) -> io::Result<()> {
    loop {
        let query = tokio::time::timeout(options.timeout, async {
            let length = stream.read_u16().await?;
            let mut query = vec![0; usize::from(length)];
            stream.read_exact(&mut query).await?;
            io::Result::Ok(query)
        })
        .await??;
        let reply = match answer(&query, &zone.get(), false) {
            Outcome::Reply(reply) => Some(reply),
            Outcome::Drop => None,
            Outcome::Forward => forward(&query, options).await,
        };
        let Some(reply) = reply else { return Ok(()) };
        stream.write_u16(u16::try_from(reply.len()).map_err(io::Error::other)?).await?;
        stream.write_all(&reply).await?;
    }
}

/// The resolver's answer, or one that says that there is none.
async fn forward(query: &[u8], options: &DnsOptions) -> Option<Vec<u8>> {
    let Some(resolver) = options.resolver else { return failure(query, NO_SUCH_NAME) };
    let ask = async {
        let socket = UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0)).await?;
        socket.connect(resolver).await?;
        socket.send(query).await?;
        let mut buffer = vec![0; 4096];
        loop {
            let length = socket.recv(&mut buffer).await?;
            if length >= 12 && buffer[..2] == query[..2] {
                buffer.truncate(length);
                return io::Result::Ok(buffer);
            }
        }
    };
    match tokio::time::timeout(options.timeout, ask).await {
        Ok(Ok(reply)) => Some(reply),
        _ => failure(query, SERVER_FAILURE),
    }
}
