//! Links, addresses and routes by routing netlink.

use super::netlink::{Connection, Message, flag};
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use std::io;
use std::net::Ipv4Addr;

const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const UP: u32 = 1;

/// Routing netlink of the thread's network namespace.
#[derive(Debug)]
pub(crate) struct Links(Connection);

fn link_header(flags: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&flags.to_ne_bytes());
    header
}

/// The number of a link in the thread's network namespace.
pub(crate) fn index(name: &str) -> io::Result<u32> {
    let probe = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(netdevice::name_to_index(&probe, name)?)
}

impl Links {
    /// Connects.
    pub(crate) fn open() -> io::Result<Self> {
        Connection::open(0).map(Self)
    }

    /// Sets a link up.
    pub(crate) fn up(&mut self, name: &str) -> io::Result<()> {
        let mut message = Message::new(NEW_LINK, 0);
        message.raw(&link_header(UP)).string(IFLA_IFNAME, name);
        self.0.request(message)
    }

    /// Adds a bridge and sets it up.
    pub(crate) fn add_bridge(&mut self, name: &str) -> io::Result<()> {
        let mut message = Message::new(NEW_LINK, flag::CREATE | flag::EXCLUSIVE);
        message.raw(&link_header(UP)).string(IFLA_IFNAME, name);
        message.nested(IFLA_LINKINFO, |info| {
            info.string(1, "bridge");
        });
        self.0.request(message)
    }

    /// Adds a pair of links: `name` here, on a bridge and up, and `peer` in another namespace.
    pub(crate) fn add_pair(&mut self, name: &str, bridge: u32, peer: &str, namespace: i32) -> io::Result<()> {
        let mut message = Message::new(NEW_LINK, flag::CREATE | flag::EXCLUSIVE);
        message.raw(&link_header(UP)).string(IFLA_IFNAME, name).number(IFLA_MASTER, bridge);
        message.nested(IFLA_LINKINFO, |info| {
            info.string(1, "veth").nested(2, |data| {
                data.nested(1, |other| {
                    other.raw(&link_header(0)).string(IFLA_IFNAME, peer);
                    other.attribute(IFLA_NET_NS_FD, &namespace.to_ne_bytes());
                });
            });
        });
        self.0.request(message)
    }

    /// Removes a link, and its peer with it.
    pub(crate) fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut message = Message::new(DELETE_LINK, 0);
        message.raw(&link_header(0)).string(IFLA_IFNAME, name);
        self.0.request(message)
    }

    /// Adds an address to a link.
    pub(crate) fn add_address(&mut self, link: u32, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut message = Message::new(NEW_ADDRESS, flag::CREATE | flag::EXCLUSIVE);
        let mut header = [2, prefix, 0, 0, 0, 0, 0, 0];
        header[4..].copy_from_slice(&link.to_ne_bytes());
        message.raw(&header).attribute(2, &address.octets()).attribute(1, &address.octets());
        self.0.request(message)
    }

    /// Adds the default route.
    pub(crate) fn add_default_route(&mut self, gateway: Ipv4Addr) -> io::Result<()> {
        let mut message = Message::new(NEW_ROUTE, flag::CREATE | flag::EXCLUSIVE);
        message.raw(&[2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0]).attribute(5, &gateway.octets());
        self.0.request(message)
    }
}

/// Addresses of a machine on user-mode networking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostNetwork {
    /// The machine's.
    pub(crate) address: Ipv4Addr,
    /// Bits of the network's prefix.
    pub(crate) prefix: u8,
    /// The host.
    pub(crate) gateway: Ipv4Addr,
}

impl Default for HostNetwork {
    fn default() -> Self {
        Self { address: Ipv4Addr::new(10, 0, 2, 15), prefix: 24, gateway: Ipv4Addr::new(10, 0, 2, 2) }
    }
}

/// Gives the machine its address.
pub(crate) fn set_up_host(network: &HostNetwork) -> io::Result<()> {
    let mut links = Links::open()?;
    links.up("lo")?;
    links.add_address(index("eth0")?, network.address, network.prefix)?;
    links.up("eth0")?;
    links.add_default_route(network.gateway)
}
