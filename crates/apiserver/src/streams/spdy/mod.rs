//! SPDY/3.1, as far as Kubernetes clients use it: the server's side of streams that a client opens.
//!
//! Only port-forward needs it: kubectl speaks it inside a WebSocket (KEP-4006) or after an HTTP/1.1
//! upgrade. There is no flow control, because the clients' implementation has none; a stream that is
//! not read holds its connection back.

mod frame;
mod headers;
mod session;
#[cfg(test)]
mod tests;

pub(super) use session::{Session, SpdyStream};
