//! Bodies and errors of answers.

use apimachinery::status::ApiError;
use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use runtime::BoxError;
use tokio::sync::mpsc;

/// An answer's body.
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// An answer that is known whole.
pub(super) fn whole(status: StatusCode, kind: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// An error as a `Status`.
pub(super) fn error(code: u16, reason: &str, message: impl Into<String>) -> Response<Body> {
    let status = ApiError::new(code, reason, message).to_status().to_string();
    whole(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), "application/json", status)
}

/// An answer that goes on for as long as the sender lives.
pub(super) fn stream(kind: &'static str, buffer: usize) -> (mpsc::Sender<Result<Bytes, BoxError>>, Response<Body>) {
    let (sender, receiver) = mpsc::channel(buffer);
    let pieces = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let piece: Result<Bytes, BoxError> = receiver.recv().await?;
        Some((piece.map(Frame::data), receiver))
    });
    let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    (sender, response)
}
