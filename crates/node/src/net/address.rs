//! IPv4 ranges, and addresses given out of one.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// An IPv4 range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    /// First address.
    pub(crate) base: Ipv4Addr,
    /// Bits of the prefix.
    pub(crate) prefix: u8,
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not an IPv4 range");
        let (base, prefix) = text.split_once('/').ok_or_else(bad)?;
        let base: Ipv4Addr = base.parse().map_err(|_| bad())?;
        let prefix: u8 = prefix.parse().ok().filter(|prefix| *prefix <= 32).ok_or_else(bad)?;
        let cidr = Self { base, prefix };
        Ok(Self { base: Ipv4Addr::from(u32::from(base) & cidr.mask()), prefix })
    }
}

impl Cidr {
    /// The mask as a number.
    pub(crate) fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0)
    }

    /// The address so many after the first; `None` outside the range.
    pub(crate) fn nth(self, n: u32) -> Option<Ipv4Addr> {
        let last = !self.mask();
        (n <= last).then(|| Ipv4Addr::from(u32::from(self.base).wrapping_add(n)))
    }
}

/// Gives out the addresses of a range but its first (the network), its second (the gateway) and
/// its last (broadcast). An address comes back into use as late as possible.
#[derive(Debug)]
pub(crate) struct Pool {
    range: Cidr,
    taken: BTreeSet<u32>,
    next: u32,
}

impl Pool {
    /// Every address of the range is free.
    pub(crate) fn new(range: Cidr) -> Self {
        Self { range, taken: BTreeSet::new(), next: 2 }
    }

    /// The gateway's address.
    pub(crate) fn gateway(&self) -> Option<Ipv4Addr> {
        self.range.nth(1)
    }

    /// Takes a free address.
    pub(crate) fn take(&mut self) -> Option<Ipv4Addr> {
        let last = !self.range.mask();
        let count = last.saturating_sub(2);
        for step in 0..count {
            let candidate = 2 + (self.next - 2 + step) % count;
            if self.taken.insert(candidate) {
                self.next = 2 + (candidate - 1) % count;
                return self.range.nth(candidate);
            }
        }
        None
    }

    /// Gives an address back.
    pub(crate) fn free(&mut self, address: Ipv4Addr) {
        self.taken.remove(&u32::from(address).wrapping_sub(u32::from(self.range.base)));
    }
}
