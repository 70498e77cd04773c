//! Finds a registry's addresses. A static program has no name services of a C library to rely on,
//! so with name servers given it asks them itself, for IPv4 addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;

const ATTEMPTS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(2);
const MAX_ANSWER: usize = 4096;
const TYPE_A: u16 = 1;
const CLASS_IN: u16 = 1;

/// Addresses of a host, which may be one itself.
pub(super) async fn resolve(host: &str, port: u16, name_servers: &[SocketAddr]) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    if host == "localhost" {
        return Ok(vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)]);
    }
    if name_servers.is_empty() {
        return Ok(tokio::net::lookup_host((host, port)).await?.collect());
    }
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for server in name_servers.iter().cycle().take(ATTEMPTS.max(name_servers.len())) {
        match tokio::time::timeout(PATIENCE, ask(host, *server)).await {
            Ok(Ok(addresses)) if !addresses.is_empty() => {
                return Ok(addresses.into_iter().map(|address| SocketAddr::new(address.into(), port)).collect());
            }
            Ok(Ok(_)) => last = io::Error::new(io::ErrorKind::NotFound, format!("no such host: {host}")),
            Ok(Err(error)) => last = error,
            Err(_) => {}
        }
    }
    Err(last)
}

async fn ask(host: &str, server: SocketAddr) -> io::Result<Vec<Ipv4Addr>> {
    let mut id = [0; 2];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut id)
        .map_err(|_| io::Error::other("no random numbers"))?;
    let question = question(id, host)?;
    let local: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0; 16], 0).into() };
    let socket = UdpSocket::bind(local).await?;
    socket.connect(server).await?;
    socket.send(&question).await?;
    let mut answer = vec![0; MAX_ANSWER];
    loop {
        let count = socket.recv(&mut answer).await?;
        // Something else that came to this port is not the answer.
        if let Some(addresses) = addresses(&answer[..count], id) {
            return Ok(addresses);
        }
    }
}

/// A query for the IPv4 addresses of a host.
pub(super) fn question(id: [u8; 2], host: &str) -> io::Result<Vec<u8>> {
    let mut message = vec![id[0], id[1], 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in host.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length));
        message.push(length.ok_or(io::ErrorKind::InvalidInput)?);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend_from_slice(&TYPE_A.to_be_bytes());
    message.extend_from_slice(&CLASS_IN.to_be_bytes());
    Ok(message)
}

/// The addresses of an answer; `None` if it does not belong to the question. Names that stand for
/// others need no care, because the server sends the addresses at their end along.
pub(super) fn addresses(message: &[u8], id: [u8; 2]) -> Option<Vec<Ipv4Addr>> {
    let word = |at: usize| Some(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]));
    if message.get(..2)? != id || message.get(2)? & 0x80 == 0 {
        return None;
    }
    let (questions, answers) = (word(4)?, word(6)?);
    let mut at = 12;
    for _ in 0..questions {
        at = after_name(message, at)? + 4;
    }
    let mut found = Vec::new();
    for _ in 0..answers {
        at = after_name(message, at)?;
        let (kind, class, length) = (word(at)?, word(at + 2)?, usize::from(word(at + 8)?));
        at += 10;
        let data = message.get(at..at + length)?;
        if let (TYPE_A, CLASS_IN, &[a, b, c, d]) = (kind, class, data) {
            found.push(Ipv4Addr::new(a, b, c, d));
        }
        at += length;
    }
    Some(found)
}

fn after_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            // The rest of the name is elsewhere.
            pointer if pointer & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}
