//! A small HTTP client: GET with redirects, one connection for each request.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::uri::Uri;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::resolver::resolve;
use crate::image::error::Error;
use crate::image::options::ImageOptions;

const MAX_REDIRECTS: usize = 5;

/// An absolute address of HTTP or HTTPS.
#[derive(Debug, Clone)]
pub(super) struct Url(Uri);

impl Url {
    pub(super) fn new(scheme: &str, host: &str) -> Result<Self, Error> {
        Self::parse(&format!("{scheme}://{host}/"))
    }

    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let malformed =
            || Error::Malformed(format!("a registry names the address {:?}", text.get(..200).unwrap_or(text)));
        let uri: Uri = text.parse().map_err(|_| malformed())?;
        match (uri.scheme_str(), uri.host()) {
            (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(Self(uri)),
            _ => Err(malformed()),
        }
    }

    /// Another address, relative to this one or absolute.
    pub(super) fn join(&self, target: &str) -> Result<Self, Error> {
        if target.contains("://") {
            return Self::parse(target);
        }
        let scheme = if self.is_secure() { "https" } else { "http" };
        let host = self.host();
        if target.starts_with("//") {
            return Self::parse(&format!("{scheme}:{target}"));
        }
        match target.starts_with('/') {
            true => Self::parse(&format!("{scheme}://{host}{target}")),
            false => {
                let directory = self.0.path().rsplit_once('/').map_or("", |(directory, _)| directory);
                Self::parse(&format!("{scheme}://{host}{directory}/{target}"))
            }
        }
    }

    pub(super) fn is_secure(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    /// `host` or `host:port`.
    pub(super) fn host(&self) -> &str {
        self.0.authority().map_or("", |authority| authority.as_str())
    }

    fn name(&self) -> &str {
        self.0.host().unwrap_or("").trim_start_matches('[').trim_end_matches(']')
    }

    fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(if self.is_secure() { 443 } else { 80 })
    }
}

/// Says which registry it was that cannot be talked to.
pub(super) fn connection(url: &Url, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Connection { host: url.host().to_owned(), source: source.into() }
}

/// The client.
pub(super) struct Client {
    tls: TlsConnector,
    options: ImageOptions,
}

impl Client {
    pub(super) fn new(options: &ImageOptions) -> Result<Self, Error> {
        Ok(Self { tls: TlsConnector::from(super::trust(options)?), options: options.clone() })
    }

    /// Asks and follows redirects. Credentials stay with the host they are for.
    pub(super) async fn get(&self, url: &Url, mut headers: HeaderMap) -> Result<Response<Incoming>, Error> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.once(&url, &headers).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
            let next = url.join(location.ok_or_else(|| connection(&url, "redirected to nowhere"))?)?;
            if url.is_secure() && !next.is_secure() {
                return Err(connection(&url, "redirected from HTTPS to HTTP"));
            }
            if next.host() != url.host() {
                headers.remove(header::AUTHORIZATION);
            }
            url = next;
        }
        Err(connection(&url, "redirected too often"))
    }

    async fn once(&self, url: &Url, headers: &HeaderMap) -> Result<Response<Incoming>, Error> {
        let connect = within(self.options.connect_timeout, self.connect(url));
        let stream = connect.await.map_err(|error| connection(url, error))?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, running) = handshake.map_err(|error| connection(url, error))?;
        // Ends with the response's body, or when that is dropped.
        tokio::spawn(async move {
            if let Err(error) = running.await {
                tracing::debug!(%error, "connection to a registry ended");
            }
        });
        let target = url.0.path_and_query().map_or("/", |target| target.as_str());
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = target.parse().map_err(|error| connection(url, error))?;
        *request.headers_mut() = headers.clone();
        let host = HeaderValue::from_str(url.host()).map_err(|error| connection(url, error))?;
        request.headers_mut().insert(header::HOST, host);
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static("socialweb-node"));
        let answer =
            within(self.options.read_timeout, async { sender.send_request(request).await.map_err(io::Error::other) });
        answer.await.map_err(|error| connection(url, error))
    }

    async fn connect(&self, url: &Url) -> io::Result<Box<dyn Stream>> {
        let addresses = resolve(url.name(), url.port(), &self.options.name_servers).await?;
        let stream = TcpStream::connect(addresses.as_slice()).await?;
        stream.set_nodelay(true)?;
        if !url.is_secure() {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(url.name().to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(self.tls.connect(name, stream).await?))
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
