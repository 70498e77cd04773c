//! Bounds and choices of the registry.

use apimachinery::definition::GroupResource;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Bounds and choices of a [`Registry`](super::Registry).
#[derive(Clone, Debug)]
pub struct Options {
    /// The kind whose objects are logical clusters: creating one creates the logical cluster's
    /// record in the same transaction.
    pub hosts: Option<GroupResource>,
    /// Size of a request body, bytes.
    pub max_body_bytes: usize,
    /// Entries read from the store at once while a list is answered.
    pub page_entries: usize,
    /// How often a change is tried again when another writer was faster.
    pub attempts: usize,
    /// Addresses or ports tried before a Service is refused.
    pub allocation_attempts: usize,
    /// Network of Service addresses: base and prefix length.
    pub service_network: (Ipv4Addr, u8),
    /// First and last node port.
    pub node_ports: (u16, u16),
    /// How long a watch lives that does not say so itself; up to as much again is added, so that
    /// watches do not end together.
    pub watch_lifetime: Duration,
    /// Shortest time between two bookmarks of a watch.
    pub bookmark_interval: Duration,
    /// Changes per transaction when a logical cluster is purged.
    pub purge_entries: usize,
    /// Events looked at in one step of the sweep that lets them expire.
    pub expire_entries: usize,
    /// Grace of a Pod that does not say so itself, seconds.
    pub default_grace_seconds: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hosts: None,
            max_body_bytes: 3 << 20,
            page_entries: 1000,
            attempts: 8,
            allocation_attempts: 64,
            service_network: (Ipv4Addr::new(10, 96, 0, 0), 16),
            node_ports: (30_000, 32_767),
            watch_lifetime: Duration::from_secs(1800),
            bookmark_interval: Duration::from_secs(30),
            purge_entries: 512,
            expire_entries: 512,
            default_grace_seconds: 30,
        }
    }
}
