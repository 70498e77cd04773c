//! A connection to a port inside a Pod.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for the Pod to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to a port on the loopback of a network namespace; without one, of the node.
pub(super) async fn connect(namespace: Option<PathBuf>, port: u16) -> io::Result<tokio::net::TcpStream> {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A thread of its own, as it changes its namespace; the socket stays in the one it was made in.
    std::thread::Builder::new().name("portforward".into()).spawn(move || {
        let connected = (|| {
            if let Some(path) = namespace {
                let file = std::fs::File::open(path)?;
                rustix::thread::move_into_link_name_space(
                    std::os::fd::AsFd::as_fd(&file),
                    Some(rustix::thread::LinkNameSpaceType::Network),
                )?;
            }
            let stream = TcpStream::connect_timeout(&at, CONNECT_TIMEOUT)?;
            stream.set_nonblocking(true)?;
            io::Result::Ok(stream)
        })();
        let _ = sender.send(connected);
    })?;
    let stream = receiver.await.map_err(|_| io::Error::other("the connection was lost track of"))??;
    tokio::net::TcpStream::from_std(stream)
}
