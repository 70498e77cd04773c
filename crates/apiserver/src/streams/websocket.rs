//! The server's side of a WebSocket (RFC 6455) that was asked for by an HTTP/1.1 upgrade.

use super::hub::switching;
use apimachinery::status::ApiError;
use base64::Engine;
use controller_runtime::{Body, BoxError};
use http::{HeaderMap, HeaderName, Request, Response, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A WebSocket that is about to be.
pub(super) struct Handshake {
    /// The subprotocol that was agreed on.
    pub(super) protocol: String,
    accept: String,
    upgrade: OnUpgrade,
}

/// Whether a request asks for a WebSocket.
pub(super) fn is_requested(headers: &HeaderMap) -> bool {
    let has = |name: HeaderName, token: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|value| value.trim().eq_ignore_ascii_case(token))
    };
    has(header::UPGRADE, "websocket") && has(header::CONNECTION, "upgrade")
}

impl Handshake {
    /// Checks the request and agrees on the first subprotocol of `offered` that the client speaks.
    pub(super) fn of(request: &mut Request<Body>, offered: &[&str]) -> Result<Self, ApiError> {
        let headers = request.headers();
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        if text(header::SEC_WEBSOCKET_VERSION) != Some("13") {
            return Err(ApiError::bad_request("unsupported WebSocket version: expected 13"));
        }
        let key =
            text(header::SEC_WEBSOCKET_KEY).ok_or_else(|| ApiError::bad_request("Sec-WebSocket-Key is missing"))?;
        let spoken: Vec<&str> = headers
            .get_all(header::SEC_WEBSOCKET_PROTOCOL)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(',').map(str::trim))
            .collect();
        let protocol = offered.iter().find(|protocol| spoken.contains(protocol)).ok_or_else(|| {
            ApiError::bad_request(format!(
                "unable to negotiate protocol: client supports {spoken:?}, server {offered:?}"
            ))
        })?;
        let (protocol, accept) = ((*protocol).to_owned(), accept_key(key));
        Ok(Self { protocol, accept, upgrade: hyper::upgrade::on(request) })
    }

    /// The answer that makes it a WebSocket.
    pub(super) fn response(&self) -> Response<Body> {
        let headers =
            [(header::SEC_WEBSOCKET_ACCEPT, &*self.accept), (header::SEC_WEBSOCKET_PROTOCOL, &*self.protocol)];
        switching("websocket", &headers)
    }

    /// The WebSocket, once the answer has been sent.
    pub(super) async fn socket(self, max_message_bytes: usize) -> Result<Socket, BoxError> {
        let config = WebSocketConfig::default()
            .max_message_size(Some(max_message_bytes))
            .max_frame_size(Some(max_message_bytes));
        let io = TokioIo::new(self.upgrade.await?);
        Ok(WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await)
    }
}

/// The proof that the server understood the client's key (RFC 6455 section 4.2.2).
fn accept_key(key: &str) -> String {
    const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes());
    base64::engine::general_purpose::STANDARD.encode(digest)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_accept_key_is_that_of_the_rfc() {
        assert_eq!(super::accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
