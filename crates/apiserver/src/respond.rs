//! Responses: bodies, `Status` errors, compression, and permits that live as long as a body.

use apimachinery::status::ApiError;
use bytes::Bytes;
use controller_runtime::{Body, BoxError};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, Full};
use serde::Serialize;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A whole body.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Body::new(Full::new(bytes.into()).map_err(|never| match never {}))
}

/// The body of a request from a connection.
pub(crate) fn incoming(body: hyper::body::Incoming) -> Body {
    Body::new(body.map_err(BoxError::from))
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(bytes) => typed(status, "application/json", bytes),
        Err(error) => status_error(&ApiError::internal(error)),
    }
}

/// A response of some media type.
pub(crate) fn typed(status: StatusCode, media_type: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(whole(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// The response that tells an error.
pub(crate) fn status_error(error: &ApiError) -> Response<Body> {
    let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = typed(status, "application/json", error.to_status().to_string());
    let seconds = error.details.as_ref().and_then(|details| details["retryAfterSeconds"].as_u64());
    if let Some(seconds) = seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The error of a request body that could not be read: over the limit, or broken off.
pub(crate) fn body_error(error: BoxError) -> ApiError {
    match error.downcast::<ApiError>() {
        Ok(error) => *error,
        Err(error) => ApiError::bad_request(format!("the request body could not be read: {error}")),
    }
}

/// A request body that ends with an [`ApiError`] when it is over the limit.
pub(crate) fn limited<B>(body: B, limit: usize) -> Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    Body::new(http_body_util::Limited::new(body, limit).map_err(move |error| {
        if error.is::<http_body_util::LengthLimitError>() { Box::new(ApiError::too_large(limit)) } else { error }
    }))
}

/// Compresses a whole body of at least `threshold` bytes for a client that accepts gzip.
pub(crate) async fn compress(request: &HeaderMap, response: Response<Body>, threshold: usize) -> Response<Body> {
    let accepted = request.get_all(header::ACCEPT_ENCODING).iter().any(|value| {
        value.to_str().is_ok_and(|text| text.split(',').any(|coding| coding.trim().split(';').next() == Some("gzip")))
    });
    let size = response.body().size_hint().exact().unwrap_or(0);
    let large = usize::try_from(size).is_ok_and(|size| size >= threshold);
    if !accepted || !large || response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // A body of known size is in memory already.
    let bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => return status_error(&ApiError::internal(error)),
    };
    let packed = tokio::task::spawn_blocking(move || {
        let mut encoder =
            flate2::write::GzEncoder::new(Vec::with_capacity(bytes.len() / 4), flate2::Compression::fast());
        encoder.write_all(&bytes).and_then(|()| encoder.finish()).map_err(|_| bytes)
    });
    let body = match packed.await {
        Ok(Ok(packed)) => {
            parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
            parts.headers.remove(header::CONTENT_LENGTH);
            whole(packed)
        }
        Ok(Err(plain)) => whole(plain),
        Err(_) => return status_error(&ApiError::internal("the response could not be compressed")),
    };
    Response::from_parts(parts, body)
}

/// A body that holds something until it ends or is dropped.
pub(crate) struct Holding<T> {
    body: Body,
    _held: T,
}

impl<T: Send + Unpin + 'static> Holding<T> {
    /// The body, holding `held`.
    pub(crate) fn wrap(body: Body, held: T) -> Body {
        Body::new(Self { body, _held: held })
    }
}

impl<T: Unpin> http_body::Body for Holding<T> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
