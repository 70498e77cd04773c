//! Frames of SPDY/3.1 (draft-mbelshe-httpbis-spdy-00 section 2.2, 2.6).

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Flag: the sender sends no more on this stream.
pub(super) const FLAG_FIN: u8 = 1;
const VERSION: u16 = 3;
const HEADER: usize = 8;

/// Control frame types.
pub(super) const SYN_STREAM: u16 = 1;
pub(super) const SYN_REPLY: u16 = 2;
pub(super) const RST_STREAM: u16 = 3;
pub(super) const PING: u16 = 6;
pub(super) const GOAWAY: u16 = 7;
pub(super) const HEADERS: u16 = 8;

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Bytes of a stream.
    Data { stream: u32, fin: bool, payload: Bytes },
    /// Anything else.
    Control { type_: u16, flags: u8, payload: Bytes },
}

/// A frame that breaks the format.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Error {
    #[error("SPDY version {0} is not 3")]
    Version(u16),
    #[error("a SPDY frame of {0} bytes is over the limit")]
    TooLarge(usize),
}

impl Frame {
    /// Takes one whole frame off the front, or `None` when more bytes are needed.
    pub(super) fn decode(input: &mut BytesMut, max: usize) -> Result<Option<Self>, Error> {
        let Some((head, _)) = input.split_first_chunk::<HEADER>() else { return Ok(None) };
        let first = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let flags = head[4];
        let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
        if length > max {
            return Err(Error::TooLarge(length));
        }
        let control = first & 0x8000_0000 != 0;
        let version = u16::from_be_bytes([head[0] & 0x7f, head[1]]);
        if control && version != VERSION {
            return Err(Error::Version(version));
        }
        let type_ = u16::from_be_bytes([head[2], head[3]]);
        if input.len() < HEADER + length {
            return Ok(None);
        }
        input.advance(HEADER);
        let payload = input.split_to(length).freeze();
        Ok(Some(if control {
            Self::Control { type_, flags, payload }
        } else {
            Self::Data { stream: first, fin: flags & FLAG_FIN != 0, payload }
        }))
    }

    /// The frame's bytes. A payload is below 2^24 bytes.
    pub(super) fn encode(&self) -> Bytes {
        let (first, flags, payload) = match self {
            Self::Data { stream, fin, payload } => (stream & 0x7fff_ffff, u8::from(*fin), payload),
            Self::Control { type_, flags, payload } => {
                (0x8000_0000 | u32::from(VERSION) << 16 | u32::from(*type_), *flags, payload)
            }
        };
        let mut bytes = BytesMut::with_capacity(HEADER + payload.len());
        bytes.put_u32(first);
        let length = u32::try_from(payload.len()).expect("payloads are bounded far below 2^24");
        bytes.put_u32(u32::from(flags) << 24 | length);
        bytes.put_slice(payload);
        bytes.freeze()
    }
}
