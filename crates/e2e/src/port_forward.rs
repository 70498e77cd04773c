//! `kubectl port-forward`, and a client of the port that it opens.

use crate::streaming::Streaming;
use crate::wait::PATIENCE;
use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A port of this host that leads into a Pod, until this is dropped.
#[derive(Debug)]
pub struct PortForward {
    process: Streaming,
    port: u16,
}

impl PortForward {
    pub(crate) fn start(process: Streaming) -> Result<Self> {
        let said = process.hear(" -> ", PATIENCE)?;
        let port = said.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
        let port = port.and_then(|port| port.parse().ok()).with_context(|| format!("no port in {said:?}"))?;
        Ok(Self { process, port })
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends these bytes over a new connection and returns what comes back until its end.
    ///
    /// # Errors
    /// When there is no connection or nothing comes back; with what kubectl said.
    pub fn exchange(&self, request: &[u8]) -> Result<Vec<u8>> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.write_all(request)?;
        let mut answer = Vec::new();
        // kubectl may end the connection hard once the other side has closed it.
        match socket.read_to_end(&mut answer) {
            Err(error) if answer.is_empty() => {
                let said = self.process.hear("", PATIENCE)?;
                Err(error).with_context(|| format!("nothing came back; kubectl said {said:?}"))
            }
            _ => Ok(answer),
        }
    }

    /// Fetches `/` over HTTP, headers included.
    ///
    /// # Errors
    /// When nothing comes back.
    pub fn page(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.exchange(b"GET / HTTP/1.0\r\n\r\n")?).into_owned())
    }
}
