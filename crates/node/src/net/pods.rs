//! A network namespace for each Pod, joined to the node's bridge.

use super::address::{Cidr, Pool};
use super::link::{self, Links};
use crate::boot::modules::Modules;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The bridge that Pods are on.
pub(crate) const BRIDGE: &str = "pods0";

/// A Pod's network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodNetwork {
    /// Its address.
    pub(crate) address: Ipv4Addr,
    /// Its namespace, as a file to join.
    pub(crate) namespace: PathBuf,
    link: String,
}

/// Makes and removes Pod networks.
#[derive(Debug)]
pub(crate) struct PodNetworks {
    range: Cidr,
    dir: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pool: Pool,
    links: u64,
    bridge: Option<u32>,
}

impl PodNetworks {
    /// No Pod has a network; the bridge is made with the first.
    pub(crate) fn new(range: Cidr, dir: impl Into<PathBuf>) -> Self {
        Self { range, dir: dir.into(), state: Mutex::new(State { pool: Pool::new(range), links: 0, bridge: None }) }
    }

    /// Makes the bridge, if there is none.
    fn bridge(&self, state: &mut State) -> io::Result<u32> {
        if let Some(bridge) = state.bridge {
            return Ok(bridge);
        }
        Modules::system().load("pod")?;
        fs::create_dir_all(&self.dir)?;
        let mut links = Links::open()?;
        links.add_bridge(BRIDGE)?;
        let bridge = link::index(BRIDGE)?;
        let gateway = state.pool.gateway().ok_or_else(|| io::Error::other("the Pod range has no gateway"))?;
        links.add_address(bridge, gateway, self.range.prefix)?;
        fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        state.bridge = Some(bridge);
        Ok(bridge)
    }

    /// Makes a Pod's network. Blocking.
    pub(crate) fn add(&self, uid: &str) -> io::Result<PodNetwork> {
        let (bridge, gateway, network) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let bridge = self.bridge(&mut state)?;
            let gateway = state.pool.gateway().ok_or_else(|| io::Error::other("the Pod range has no gateway"))?;
            let address = state.pool.take().ok_or_else(|| io::Error::other("the node has no free Pod address"))?;
            state.links += 1;
            let link = format!("pod{}", state.links);
            (bridge, gateway, PodNetwork { address, namespace: self.dir.join(uid), link })
        };
        let made = std::thread::scope(|scope| {
            // A thread of its own: it changes its namespace and then ends.
            scope.spawn(|| make(&network, bridge, gateway, self.range.prefix)).join()
        });
        match made.unwrap_or_else(|_| Err(io::Error::other("the network thread panicked"))) {
            Ok(()) => Ok(network),
            Err(error) => {
                self.remove(&network);
                Err(error)
            }
        }
    }

    /// Removes a Pod's network; what is gone already is no error. Blocking.
    pub(crate) fn remove(&self, network: &PodNetwork) {
        if let Ok(mut links) = Links::open() {
            let _ = links.remove(&network.link);
        }
        forget(&network.namespace);
        self.state.lock().unwrap_or_else(PoisonError::into_inner).pool.free(network.address);
    }
}

fn forget(namespace: &Path) {
    let _ = unmount(namespace, UnmountFlags::DETACH);
    let _ = fs::remove_file(namespace);
}

fn make(network: &PodNetwork, bridge: u32, gateway: Ipv4Addr, prefix: u8) -> io::Result<()> {
    let mut node = Links::open()?;
    os_linux::network_namespace::enter_new()?;
    File::create(&network.namespace)?;
    mount_bind("/proc/thread-self/ns/net", &network.namespace)?;
    let namespace = File::open(&network.namespace)?;
    node.add_pair(&network.link, bridge, "eth0", namespace.as_raw_fd())?;
    let mut pod = Links::open()?;
    pod.up("lo")?;
    pod.add_address(link::index("eth0")?, network.address, prefix)?;
    pod.up("eth0")?;
    pod.add_default_route(gateway)
}
