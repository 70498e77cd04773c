//! Limits of streams.

use std::time::Duration;

/// Limits of streams and of the tunnels that carry them.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Nodes that may hold a tunnel at once.
    pub max_tunnels: usize,
    /// Wait for a node's answer to begin.
    pub answer_timeout: Duration,
    /// Wait for a node's tunnel, which may just be reconnecting.
    pub tunnel_wait: Duration,
    /// How often a silent tunnel is checked.
    pub keep_alive_interval: Duration,
    /// How long the answer to such a check may take before the tunnel counts as broken.
    pub keep_alive_timeout: Duration,
    /// Largest WebSocket message, bytes.
    pub max_message_bytes: usize,
    /// Messages of one stream in flight in one direction.
    pub queue: usize,
    /// Ports and connections of one port-forward at once.
    pub max_forwards: usize,
    /// A stream without traffic is closed after this long, as the kubelet does.
    pub idle_timeout: Duration,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            max_tunnels: 10_000,
            answer_timeout: Duration::from_secs(30),
            tunnel_wait: Duration::from_secs(3),
            keep_alive_interval: Duration::from_secs(15),
            keep_alive_timeout: Duration::from_secs(15),
            max_message_bytes: 1 << 20,
            queue: 16,
            max_forwards: 256,
            idle_timeout: Duration::from_secs(4 * 3600),
        }
    }
}
