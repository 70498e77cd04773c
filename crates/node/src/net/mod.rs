//! The machine's network: its own address, Pods on a bridge, Services by nftables, cluster DNS.

pub(crate) mod address;
pub(crate) mod dns;
pub(crate) mod dns_server;
pub(crate) mod link;
pub(crate) mod netlink;
pub(crate) mod nft;
pub(crate) mod pods;
pub(crate) mod services;

#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod tests;
