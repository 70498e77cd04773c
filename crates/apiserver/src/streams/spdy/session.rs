//! One SPDY connection: the streams that the client opens, and one writer for all of them.

use super::frame::{FLAG_FIN, Frame, GOAWAY, HEADERS, PING, RST_STREAM, SYN_REPLY, SYN_STREAM};
use super::headers::{Reader, Writer};
use bytes::{Buf, Bytes, BytesMut};
use controller_runtime::BoxError;
use std::collections::HashMap;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Largest frame that is taken, bytes.
const MAX_FRAME: usize = 1 << 20;
/// Largest frame that is sent, bytes.
const SEND: usize = 32 * 1024;
const REFUSED_STREAM: u32 = 3;

enum Write {
    Frame(Frame),
    Reply(u32),
}

/// A stream that the client opened.
pub(in super::super) struct SpdyStream {
    id: u32,
    headers: Vec<(String, String)>,
    /// What the client sends; ends when it has sent everything.
    pub(in super::super) input: mpsc::Receiver<Bytes>,
    writer: mpsc::Sender<Write>,
}

impl SpdyStream {
    /// A header that the client opened the stream with.
    pub(in super::super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The sending side alone.
    pub(in super::super) fn output(&self) -> Output {
        Output { id: self.id, writer: self.writer.clone() }
    }
}

/// The sending side of a stream.
pub(in super::super) struct Output {
    id: u32,
    writer: mpsc::Sender<Write>,
}

impl Output {
    /// Sends bytes. False when the connection is gone.
    pub(in super::super) async fn send(&self, mut bytes: Bytes) -> bool {
        while !bytes.is_empty() {
            let payload = bytes.split_to(bytes.len().min(SEND));
            let frame = Frame::Data { stream: self.id, fin: false, payload };
            if self.writer.send(Write::Frame(frame)).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Says that nothing more comes.
    pub(in super::super) async fn finish(self) {
        let frame = Frame::Data { stream: self.id, fin: true, payload: Bytes::new() };
        // A connection that is gone needs no end.
        let _ = self.writer.send(Write::Frame(frame)).await;
    }
}

/// Limits of a session.
#[derive(Clone, Copy)]
pub(in super::super) struct Session {
    pub(in super::super) max_streams: usize,
    pub(in super::super) queue: usize,
    pub(in super::super) idle: Duration,
}

impl Session {
    /// Serves a connection until its end, handing every stream that the client opens to `accept`.
    pub(in super::super) async fn serve<IO: AsyncRead + AsyncWrite>(
        self,
        io: IO,
        accept: mpsc::Sender<SpdyStream>,
    ) -> Result<(), BoxError> {
        let (reader, writer) = tokio::io::split(io);
        tokio::pin!(reader, writer);
        let (writes, queue) = mpsc::channel(self.queue);
        tokio::select! {
            end = self.read(reader, writes, accept) => end,
            end = write(writer, queue) => end,
        }
    }

    async fn read(
        self,
        mut reader: impl AsyncRead + Unpin,
        writer: mpsc::Sender<Write>,
        accept: mpsc::Sender<SpdyStream>,
    ) -> Result<(), BoxError> {
        let mut buffer = BytesMut::new();
        let mut headers = Reader::new();
        let mut streams: HashMap<u32, mpsc::Sender<Bytes>> = HashMap::new();
        let gone = || BoxError::from("the connection ended");
        loop {
            while let Some(frame) = Frame::decode(&mut buffer, MAX_FRAME)? {
                match frame {
                    Frame::Data { stream, fin, payload } => {
                        if let Some(input) = streams.get(&stream).filter(|_| !payload.is_empty()) {
                            // A stream that nobody reads any more swallows what comes.
                            let _ = input.send(payload).await;
                        }
                        if fin {
                            streams.remove(&stream);
                        }
                    }
                    Frame::Control { type_: SYN_STREAM, flags, mut payload } => {
                        if payload.len() < 10 {
                            return Err("a SYN_STREAM frame is too short".into());
                        }
                        let id = payload.get_u32() & 0x7fff_ffff;
                        payload.advance(6);
                        let pairs = headers.read(&payload)?;
                        if streams.len() >= self.max_streams {
                            let mut payload = BytesMut::new();
                            payload.extend_from_slice(&id.to_be_bytes());
                            payload.extend_from_slice(&REFUSED_STREAM.to_be_bytes());
                            let refuse = Frame::Control { type_: RST_STREAM, flags: 0, payload: payload.freeze() };
                            writer.send(Write::Frame(refuse)).await.map_err(|_| gone())?;
                            continue;
                        }
                        let (input, receiver) = mpsc::channel(self.queue);
                        if flags & FLAG_FIN == 0 {
                            streams.insert(id, input);
                        }
                        writer.send(Write::Reply(id)).await.map_err(|_| gone())?;
                        let stream = SpdyStream { id, headers: pairs, input: receiver, writer: writer.clone() };
                        accept.send(stream).await.map_err(|_| gone())?;
                    }
                    Frame::Control { type_: RST_STREAM, mut payload, .. } => {
                        if let Ok(id) = payload.try_get_u32() {
                            streams.remove(&(id & 0x7fff_ffff));
                        }
                    }
                    // The window of compressed headers is shared, so these are read too.
                    Frame::Control { type_: HEADERS | SYN_REPLY, payload, .. } => {
                        headers.read(payload.get(4..).unwrap_or_default())?;
                    }
                    Frame::Control { type_: PING, flags, payload } => {
                        let echo = Frame::Control { type_: PING, flags, payload };
                        writer.send(Write::Frame(echo)).await.map_err(|_| gone())?;
                    }
                    Frame::Control { type_: GOAWAY, .. } => return Ok(()),
                    Frame::Control { .. } => {}
                }
            }
            let read = tokio::time::timeout(self.idle, reader.read_buf(&mut buffer));
            if read.await.map_err(|_| "idle for too long")?? == 0 {
                return Ok(());
            }
        }
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<Write>) -> Result<(), BoxError> {
    let mut headers = Writer::new();
    while let Some(next) = queue.recv().await {
        let frame = match next {
            Write::Frame(frame) => frame,
            Write::Reply(id) => {
                let mut payload = BytesMut::new();
                payload.extend_from_slice(&id.to_be_bytes());
                payload.extend_from_slice(&headers.write(&[]));
                Frame::Control { type_: SYN_REPLY, flags: 0, payload: payload.freeze() }
            }
        };
        writer.write_all(&frame.encode()).await?;
        writer.flush().await?;
    }
    Ok(())
}
