//! Netlink messages: an encoder for attributes and a synchronous connection.

use netlink_sys::{Socket, SocketAddr};
use std::io;

/// Flags of a message's header.
pub(crate) mod flag {
    pub(crate) const REQUEST: u16 = 1;
    pub(crate) const ACK: u16 = 4;
    pub(crate) const EXCLUSIVE: u16 = 0x200;
    pub(crate) const CREATE: u16 = 0x400;
    pub(crate) const APPEND: u16 = 0x800;
}

const HEADER: usize = 16;
const NESTED: u16 = 0x8000;
const ERROR: u16 = 2;

/// One message being written.
#[derive(Clone, Debug)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// A request of a kind with flags.
    pub(crate) fn new(kind: u16, flags: u16) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | flag::REQUEST).to_ne_bytes());
        Self(bytes)
    }

    /// Appends a fixed structure.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// Appends an attribute.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = u16::try_from(4 + value.len()).expect("attribute values here are short");
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.pad();
        self
    }

    /// Appends a string attribute, ended by a zero byte.
    pub(crate) fn string(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    /// Appends a number in the machine's byte order.
    pub(crate) fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Appends a number in network byte order.
    pub(crate) fn network(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// Appends an attribute that holds what `write` appends.
    pub(crate) fn nested(&mut self, kind: u16, write: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; 4]);
        write(self);
        let length = u16::try_from(self.0.len() - start).expect("nested attributes here are short");
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0[start + 2..start + 4].copy_from_slice(&(kind | NESTED).to_ne_bytes());
        self
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn add_flags(&mut self, flags: u16) {
        let old = u16::from_ne_bytes([self.0[6], self.0[7]]);
        self.0[6..8].copy_from_slice(&(old | flags).to_ne_bytes());
    }

    /// The finished bytes.
    pub(crate) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).expect("messages here are short");
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

/// A socket to the kernel, of the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    sequence: u32,
}

impl Connection {
    /// Connects to `protocol`: 0 is routing, 12 is netfilter.
    pub(crate) fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends one request and waits for its acknowledgement.
    pub(crate) fn request(&mut self, mut message: Message) -> io::Result<()> {
        message.add_flags(flag::ACK);
        self.sequence += 1;
        let sequence = self.sequence;
        self.send(&message.finish(sequence))?;
        self.acknowledged(sequence)
    }

    /// Sends messages as one transaction between `begin` and `end`; none or all take effect. The
    /// connection must not be used again after an error.
    pub(crate) fn transaction(&mut self, begin: Message, messages: Vec<Message>, end: Message) -> io::Result<()> {
        let mut bytes = Vec::new();
        let count = messages.len();
        for (index, mut message) in std::iter::once(begin).chain(messages).chain([end]).enumerate() {
            if index == count {
                message.add_flags(flag::ACK);
            }
            self.sequence += 1;
            bytes.extend(message.finish(self.sequence));
        }
        self.send(&bytes)?;
        // The last message but the end is the only one that asks for an answer.
        self.acknowledged(self.sequence - 1)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match self.socket.send(bytes, 0)? {
            sent if sent == bytes.len() => Ok(()),
            _ => Err(io::Error::other("the kernel took only a part of a message")),
        }
    }

    fn acknowledged(&self, sequence: u32) -> io::Result<()> {
        loop {
            let (data, _) = self.socket.recv_from_full()?;
            if let Some(result) = answer(&data, sequence) {
                return result;
            }
        }
    }
}

/// What a datagram from the kernel says about the request with that number; an error about any
/// request counts.
pub(crate) fn answer(mut data: &[u8], sequence: u32) -> Option<io::Result<()>> {
    while let Some(header) = data.get(..HEADER) {
        let word = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let length = (word(0) as usize).clamp(HEADER, data.len());
        if u16::from_ne_bytes([header[4], header[5]]) == ERROR {
            let code = data.get(HEADER..HEADER + 4)?;
            let code = i32::from_ne_bytes([code[0], code[1], code[2], code[3]]);
            if code != 0 {
                return Some(Err(io::Error::from_raw_os_error(code.wrapping_neg())));
            }
            if word(8) == sequence {
                return Some(Ok(()));
            }
        }
        data = &data[length.next_multiple_of(4).min(data.len())..];
    }
    None
}
