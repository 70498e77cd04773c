//! Pulls from registries over the OCI distribution API.

mod auth;
mod http;
mod resolver;

#[cfg(test)]
mod tests;

use std::io::{self, Read};
use std::sync::Arc;

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::mpsc;

use super::archive::verify;
use super::digest::Digest;
use super::error::Error;
use super::model::{ManifestOrIndex, RegistryAuth, select};
use super::options::{DEFAULT_REGISTRY, ImageOptions};
use super::reference::Reference;
use auth::Challenge;
use http::{Client, Url};

const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// Pieces of a layer that are read ahead of unpacking.
const READ_AHEAD: usize = 8;

/// Registries as a source of images.
pub(super) struct Registry {
    client: Client,
    options: ImageOptions,
}

/// What to fetch of an image that this machine can run.
#[derive(Debug, Clone)]
pub(super) struct Manifest {
    /// The digest that the image's name stands for: of the index if it has one.
    pub(super) digest: Digest,
    pub(super) config: Digest,
    pub(super) layers: Vec<Digest>,
}

/// An image in the registry, or mirror, that has it.
pub(super) struct Source<'a> {
    registry: &'a Registry,
    endpoint: Endpoint,
    pub(super) manifest: Manifest,
}

/// One registry and what it let us in with.
struct Endpoint {
    base: Url,
    repository: String,
    auth: Option<RegistryAuth>,
    authorization: Option<HeaderValue>,
}

impl Registry {
    pub(super) fn new(options: ImageOptions) -> Result<Self, Error> {
        Ok(Self { client: Client::new(&options)?, options })
    }

    /// Finds the image: in the mirrors in order, then in its own registry, whose error counts.
    pub(super) async fn resolve(&self, name: &Reference, auth: Option<&RegistryAuth>) -> Result<Source<'_>, Error> {
        for mirror in self.options.mirrors.get(&name.registry).into_iter().flatten() {
            // The credentials are for the registry, not for its mirrors.
            match self.resolve_at(mirror, name, None).await {
                Ok(source) => return Ok(source),
                Err(error) => {
                    tracing::info!(mirror, error = %runtime::error_chain(&error), "mirror does not have {name}");
                }
            }
        }
        self.resolve_at(&name.registry, name, auth).await
    }

    async fn resolve_at(&self, host: &str, name: &Reference, auth: Option<&RegistryAuth>) -> Result<Source<'_>, Error> {
        let insecure = self.options.insecure_registries.iter().any(|insecure| insecure == host);
        // The default registry is served under another name than it is known by.
        let address = if host == DEFAULT_REGISTRY { "registry-1.docker.io" } else { host };
        let base = Url::new(if insecure { "http" } else { "https" }, address)?;
        let mut endpoint =
            Endpoint { base, repository: name.repository.clone(), auth: auth.cloned(), authorization: None };
        let (digest, document) = self.manifest(&mut endpoint, name, name.selector(), name.digest.as_ref()).await?;
        let document = match &document.manifests {
            Some(manifests) => {
                let chosen = select(manifests).ok_or_else(|| Error::NotFound {
                    reference: format!("{name}: no image for linux/{}", super::model::ARCHITECTURE),
                })?;
                self.manifest(&mut endpoint, name, chosen.digest.as_str(), Some(&chosen.digest)).await?.1
            }
            None => document,
        };
        let config = document.config.ok_or_else(|| Error::Malformed("a manifest without configuration".into()))?;
        let layers: Vec<_> = document.layers.unwrap_or_default().into_iter().map(|layer| layer.digest).collect();
        if layers.len() > self.options.max_layers {
            return Err(Error::TooLarge("the number of layers"));
        }
        let manifest = Manifest { digest, config: config.digest, layers };
        Ok(Source { registry: self, endpoint, manifest })
    }

    async fn manifest(
        &self,
        endpoint: &mut Endpoint,
        name: &Reference,
        selector: &str,
        expected: Option<&Digest>,
    ) -> Result<(Digest, ManifestOrIndex), Error> {
        let path = format!("manifests/{selector}");
        let body = self.get(endpoint, &path).await?.ok_or_else(|| Error::NotFound { reference: name.to_string() })?;
        let bytes = self.collect(&endpoint.base, body).await?;
        if let Some(expected) = expected {
            verify(expected, &bytes)?;
        }
        Ok((Digest::of(&bytes), serde_json::from_slice(&bytes).map_err(Error::malformed)?))
    }

    /// Fetches from the repository, logging in if asked to; `None` if there is no such thing.
    async fn get(&self, endpoint: &mut Endpoint, path: &str) -> Result<Option<Incoming>, Error> {
        let url = endpoint.base.join(&format!("/v2/{}/{path}", endpoint.repository))?;
        let mut logged_in = false;
        loop {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(ACCEPTED));
            if let Some(authorization) = &endpoint.authorization {
                headers.insert(header::AUTHORIZATION, authorization.clone());
            }
            let response = self.client.get(&url, headers).await?;
            match response.status() {
                StatusCode::OK => return Ok(Some(response.into_body())),
                StatusCode::NOT_FOUND => return Ok(None),
                StatusCode::UNAUTHORIZED if !logged_in => {
                    let challenge = auth::challenge(response.headers());
                    endpoint.authorization = Some(self.log_in(endpoint, challenge).await?);
                    logged_in = true;
                }
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(denied(endpoint)),
                status => {
                    return Err(Error::Status { host: endpoint.base.host().to_owned(), status: status.as_u16() });
                }
            }
        }
    }

    async fn log_in(&self, endpoint: &Endpoint, challenge: Option<Challenge>) -> Result<HeaderValue, Error> {
        let basic = match &endpoint.auth {
            Some(RegistryAuth::Bearer(token)) => return auth::bearer(token).ok_or_else(|| denied(endpoint)),
            Some(RegistryAuth::Basic { username, password }) => auth::basic(username, password),
            None => None,
        };
        let Some(Challenge::Bearer { realm, service }) = challenge else {
            return basic.ok_or_else(|| denied(endpoint));
        };
        let url = Url::parse(&auth::token_url(&realm, service.as_deref(), &endpoint.repository))?;
        // A registry spoken to in the clear may have its token service so, but no other.
        if !url.is_secure() && endpoint.base.is_secure() {
            return Err(denied(endpoint));
        }
        let headers = basic.map(|basic| (header::AUTHORIZATION, basic)).into_iter().collect();
        let response = self.client.get(&url, headers).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(denied(endpoint)),
            status => return Err(Error::Status { host: url.host().to_owned(), status: status.as_u16() }),
        }
        let bytes = self.collect(&url, response.into_body()).await?;
        auth::token(&bytes).ok_or_else(|| Error::Malformed("a token service sent no token".into()))
    }

    async fn collect(&self, url: &Url, mut body: Incoming) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while let Some(data) = self.next(url, &mut body).await {
            bytes.extend_from_slice(&data?);
            if bytes.len() as u64 > self.options.max_document_bytes {
                return Err(Error::TooLarge("a document of the registry"));
            }
        }
        Ok(bytes)
    }

    async fn next(&self, url: &Url, body: &mut Incoming) -> Option<Result<Bytes, Error>> {
        next_piece(body, self.options.read_timeout)
            .await
            .map(|piece| piece.map_err(|error| http::connection(url, error)))
    }
}

impl Source<'_> {
    /// The image's configuration.
    pub(super) async fn config(&mut self) -> Result<Vec<u8>, Error> {
        let digest = self.manifest.config.clone();
        let body = self.fetch(&digest).await?;
        let bytes = self.registry.collect(&self.endpoint.base, body).await?;
        verify(&digest, &bytes)?;
        Ok(bytes)
    }

    /// The bytes of a layer, to be read on a thread that may block. Its digest is not checked.
    pub(super) async fn blob(&mut self, digest: &Digest) -> Result<BlobReader, Error> {
        let mut body = self.fetch(digest).await?;
        let (sender, receiver) = mpsc::channel(READ_AHEAD);
        let timeout = self.registry.options.read_timeout;
        tokio::spawn(async move {
            while let Some(piece) = next_piece(&mut body, timeout).await {
                let failed = piece.is_err();
                if sender.send(piece).await.is_err() || failed {
                    return;
                }
            }
        });
        Ok(BlobReader { receiver, piece: Bytes::new() })
    }

    async fn fetch(&mut self, digest: &Digest) -> Result<Incoming, Error> {
        let body = self.registry.get(&mut self.endpoint, &format!("blobs/{digest}")).await?;
        body.ok_or_else(|| Error::NotFound { reference: digest.to_string() })
    }
}

async fn next_piece(body: &mut Incoming, timeout: std::time::Duration) -> Option<io::Result<Bytes>> {
    loop {
        let frame = match tokio::time::timeout(timeout, body.frame()).await {
            Ok(frame) => frame?,
            Err(_) => return Some(Err(io::ErrorKind::TimedOut.into())),
        };
        match frame.map(hyper::body::Frame::into_data) {
            Ok(Ok(data)) => return Some(Ok(data)),
            // Trailers.
            Ok(Err(_)) => {}
            Err(error) => return Some(Err(io::Error::other(error))),
        }
    }
}

/// A transfer, read on a thread that may block.
pub(super) struct BlobReader {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.piece.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

fn denied(endpoint: &Endpoint) -> Error {
    Error::Denied { host: endpoint.base.host().to_owned() }
}

/// The trust in registries' certificates.
fn trust(options: &ImageOptions) -> Result<Arc<rustls::ClientConfig>, Error> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let mut texts = Vec::new();
    if let Some(path) = &options.ca_file {
        texts.push(
            std::fs::read(path).map_err(|source| Error::Io { what: "read the certificate authorities", source })?,
        );
    }
    texts.extend(options.authorities.as_ref().map(|text| text.clone().into_bytes()));
    for text in texts {
        for certificate in CertificateDer::pem_slice_iter(&text) {
            roots.add(certificate.map_err(Error::malformed)?).map_err(Error::malformed)?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::malformed)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
