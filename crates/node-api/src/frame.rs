//! Frames of an exec or attach stream: channel (1 byte), length (4 bytes, big endian), payload.
//!
//! Channels are those of Kubernetes' remote command protocol v5 (KEP-4006).

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The largest payload of one frame, in bytes.
pub const MAX_PAYLOAD: usize = 64 * 1024;

/// The stream a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Client to container.
    Stdin = 0,
    /// Container to client.
    Stdout = 1,
    /// Container to client.
    Stderr = 2,
    /// Container to client, last: a `Status` as JSON with the command's end.
    Error = 3,
    /// Client to container: `{"Width":W,"Height":H}`.
    Resize = 4,
    /// Either way: the payload is the one-byte channel that ended.
    Close = 255,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its stream.
    pub channel: Channel,
    /// Its bytes.
    pub payload: Bytes,
}

/// A frame that breaks the format.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// No such channel.
    #[error("unknown channel {0}")]
    UnknownChannel(u8),
    /// Over [`MAX_PAYLOAD`].
    #[error("frame of {0} bytes is over the limit of {MAX_PAYLOAD}")]
    TooLarge(usize),
}

impl Frame {
    /// Appends the encoded frame. A payload over [`MAX_PAYLOAD`] is split into several.
    pub fn encode(&self, out: &mut BytesMut) {
        let mut rest = self.payload.clone();
        loop {
            let part = rest.split_to(rest.len().min(MAX_PAYLOAD));
            out.put_u8(self.channel as u8);
            out.put_u32(u32::try_from(part.len()).expect("split below MAX_PAYLOAD"));
            out.put_slice(&part);
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Takes one whole frame off the front of `input`, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// When the bytes are not a frame; the stream cannot be resynchronised.
    pub fn decode(input: &mut BytesMut) -> Result<Option<Self>, Error> {
        let Some((&[channel, a, b, c, d], _)) = input.split_first_chunk::<5>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > MAX_PAYLOAD {
            return Err(Error::TooLarge(length));
        }
        let channel = match channel {
            0 => Channel::Stdin,
            1 => Channel::Stdout,
            2 => Channel::Stderr,
            3 => Channel::Error,
            4 => Channel::Resize,
            255 => Channel::Close,
            other => return Err(Error::UnknownChannel(other)),
        };
        if input.len() < 5 + length {
            return Ok(None);
        }
        input.advance(5);
        let payload = input.split_to(length).freeze();
        Ok(Some(Self { channel, payload }))
    }
}
