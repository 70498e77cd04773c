//! The server's socket. Its port is kept from run to run, so that nodes find the server again.

use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// How long a port that is still taken, by a process that is just ending, is tried again.
const TAKEN_PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(50);

/// Binds where the caller says, else where the last run was, else to a free port on loopback.
pub(super) async fn bind(remembered: &Path, listen: Option<SocketAddr>) -> Result<TcpListener> {
    let last = std::fs::read_to_string(remembered).ok().and_then(|text| parse(&text));
    let address = listen.or(last).unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let begin = Instant::now();
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == ErrorKind::AddrInUse && begin.elapsed() < TAKEN_PATIENCE => {
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "cannot listen on {address}; running nodes look for the server there. \
                         Free the port, or choose another with --listen (running nodes are then lost)"
                    )
                });
            }
        }
    }
}

fn parse(text: &str) -> Option<SocketAddr> {
    text.trim().strip_prefix("https://")?.parse().ok()
}

#[cfg(test)]
mod tests;
