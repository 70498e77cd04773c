//! The node's nftables: Service addresses become endpoints, Pod traffic leaves with the node's
//! address. The whole table is replaced in one transaction.

use super::address::Cidr;
use super::netlink::{Connection, Message, flag};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

const TABLE: &str = "socialweb";
const NETFILTER: isize = 12;
const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const DELETE_TABLE: u16 = SUBSYSTEM << 8 | 2;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const PREROUTING: u32 = 0;
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;

/// Transport of a Service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

/// One Service port and where its connections go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Forward {
    /// Transport.
    pub(crate) protocol: Protocol,
    /// The Service's address.
    pub(crate) address: Ipv4Addr,
    /// The Service's port.
    pub(crate) port: u16,
    /// Ready endpoints.
    pub(crate) endpoints: Vec<SocketAddrV4>,
}

/// Replaces the table. Blocking.
pub(crate) fn apply(pods: Cidr, forwards: &[Forward]) -> io::Result<()> {
    let batch = |kind| {
        let mut message = Message::new(kind, 0);
        // Family, version, then the subsystem in network byte order.
        message.raw(&[0, 0, 0, 10]);
        message
    };
    Connection::open(NETFILTER)?.transaction(batch(BATCH_BEGIN), messages(pods, forwards), batch(BATCH_END))
}

/// The messages between the transaction's begin and end.
pub(crate) fn messages(pods: Cidr, forwards: &[Forward]) -> Vec<Message> {
    let mut messages = vec![
        // So that there is one to delete.
        table(NEW_TABLE, flag::CREATE),
        table(DELETE_TABLE, 0),
        table(NEW_TABLE, flag::CREATE),
        chain("prerouting", PREROUTING, -100),
        chain("output", OUTPUT, -100),
        chain("postrouting", POSTROUTING, 100),
    ];
    for hook in ["prerouting", "output"] {
        for forward in forwards {
            let count = forward.endpoints.len();
            for (index, endpoint) in forward.endpoints.iter().enumerate() {
                let left = u32::try_from(count - index).unwrap_or(u32::MAX);
                messages.push(rule(hook, |expressions| destination(expressions, forward, *endpoint, left)));
            }
        }
    }
    messages.push(rule("postrouting", |expressions| {
        // Whatever a Pod sends beyond the bridge, or through a Service back onto it.
        payload(expressions, 1, 12, 4);
        expression(expressions, "bitwise", |data| {
            data.network(1, 1).network(2, 1).network(3, 4);
            data.nested(4, |mask| {
                mask.attribute(1, &pods.mask().to_be_bytes());
            });
            data.nested(5, |xor| {
                xor.attribute(1, &[0; 4]);
            });
        });
        equal(expressions, &pods.base.octets());
        expression(expressions, "masq", |_| {});
    }));
    messages
}

/// One endpoint's share of the connections that earlier rules left.
fn destination(expressions: &mut Message, forward: &Forward, endpoint: SocketAddrV4, left: u32) {
    expression(expressions, "meta", |data| {
        data.network(1, 1).network(2, 16);
    });
    equal(expressions, &[forward.protocol.number()]);
    payload(expressions, 1, 16, 4);
    equal(expressions, &forward.address.octets());
    payload(expressions, 2, 2, 2);
    equal(expressions, &forward.port.to_be_bytes());
    if left > 1 {
        expression(expressions, "numgen", |data| {
            data.network(1, 1).network(2, left).network(3, 1).network(4, 0);
        });
        equal(expressions, &0u32.to_ne_bytes());
    }
    immediate(expressions, 1, &endpoint.ip().octets());
    immediate(expressions, 2, &endpoint.port().to_be_bytes());
    expression(expressions, "nat", |data| {
        data.network(1, 1).network(2, 2).network(3, 1).network(4, 1).network(5, 2).network(6, 2);
    });
}

fn header(kind: u16, flags: u16) -> Message {
    let mut message = Message::new(kind, flags);
    message.raw(&[2, 0, 0, 0]);
    message
}

fn table(kind: u16, flags: u16) -> Message {
    let mut message = header(kind, flags);
    message.string(1, TABLE);
    message
}

fn chain(name: &str, hook: u32, priority: i32) -> Message {
    let mut message = header(NEW_CHAIN, flag::CREATE);
    message.string(1, TABLE).string(3, name);
    message.nested(4, |place| {
        place.network(1, hook).attribute(2, &priority.to_be_bytes());
    });
    message.network(5, 1).string(7, "nat");
    message
}

fn rule(chain: &str, write: impl FnOnce(&mut Message)) -> Message {
    let mut message = header(NEW_RULE, flag::CREATE | flag::APPEND);
    message.string(1, TABLE).string(2, chain).nested(4, write);
    message
}

fn expression(list: &mut Message, name: &str, write: impl FnOnce(&mut Message)) {
    list.nested(1, |element| {
        element.string(1, name).nested(2, write);
    });
}

/// Loads bytes of the network (1) or transport (2) header into register 1.
fn payload(list: &mut Message, base: u32, offset: u32, length: u32) {
    expression(list, "payload", |data| {
        data.network(1, 1).network(2, base).network(3, offset).network(4, length);
    });
}

/// Goes on only if register 1 holds these bytes.
fn equal(list: &mut Message, value: &[u8]) {
    expression(list, "cmp", |data| {
        data.network(1, 1).network(2, 0).nested(3, |inner| {
            inner.attribute(1, value);
        });
    });
}

fn immediate(list: &mut Message, register: u32, value: &[u8]) {
    expression(list, "immediate", |data| {
        data.network(1, register).nested(2, |inner| {
            inner.attribute(1, value);
        });
    });
}
