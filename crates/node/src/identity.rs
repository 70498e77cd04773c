//! The node's credential: an own key, a certificate for it, and another certificate before that
//! one runs out.

use async_trait::async_trait;
use controller_runtime::{Body, BoxError, HttpOptions, HttpTransport, Transport};
use http_body_util::BodyExt;
use node_api::{BootConfig, JoinRequest, JoinResponse, JoinSecret, join_path};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Largest answer to a join, bytes.
const MAX_ANSWER: usize = 256 * 1024;

/// Why a node has no credential.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    /// The key or the request for it could not be made.
    #[error("cannot make a key")]
    Key(#[source] rcgen::Error),
    /// The credential cannot be used.
    #[error("the credential cannot be used")]
    Transport(#[from] controller_runtime::HttpTransportError),
    /// The API server was not reached.
    #[error("cannot reach {server}")]
    Unreachable {
        /// Where.
        server: String,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// The API server said no; it will say so again.
    #[error("{server} refused the join with {status}: {message}")]
    Refused {
        /// Where.
        server: String,
        /// HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// The answer is not a certificate.
    #[error("the answer to the join is not usable: {0}")]
    Answer(String),
}

impl IdentityError {
    /// Whether another try may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 429,
            _ => false,
        }
    }
}

/// A certificate and its key, PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(..)")
    }
}

/// A new key and the request for its certificate, both PEM.
pub(crate) fn request(node: &str) -> Result<(String, JoinRequest), IdentityError> {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(IdentityError::Key)?;
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, format!("system:node:{node}"));
    let certificate_request =
        parameters.serialize_request(&key).and_then(|request| request.pem()).map_err(IdentityError::Key)?;
    Ok((key.serialize_pem(), JoinRequest { certificate_request }))
}

/// Trades a join secret for a certificate.
pub(crate) async fn join(config: &BootConfig, secret: &JoinSecret) -> Result<Identity, IdentityError> {
    let mut options = HttpOptions::new(&config.server, &config.certificate_authority);
    options.token = Some(secret.token.clone());
    exchange(config, HttpTransport::new(options)?.into()).await
}

/// Asks for a certificate with whatever credential the transport has.
async fn exchange(config: &BootConfig, transport: Arc<HttpTransport>) -> Result<Identity, IdentityError> {
    let (key, request) = request(&config.node_name)?;
    let body = serde_json::to_vec(&request).map_err(|error| IdentityError::Answer(error.to_string()))?;
    let request = http::Request::post(join_path(&config.cluster, &config.node_name))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.into())
        .map_err(|error| IdentityError::Answer(error.to_string()))?;
    let unreachable = |source: BoxError| IdentityError::Unreachable { server: config.server.clone(), source };
    let response = transport.send(request).await.map_err(unreachable)?;
    let status = response.status();
    let body = read(response.into_body()).await.map_err(unreachable)?;
    if !status.is_success() {
        let value: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = value["message"].as_str().unwrap_or("no reason given").to_owned();
        return Err(IdentityError::Refused { server: config.server.clone(), status: status.as_u16(), message });
    }
    let answer: JoinResponse = serde_json::from_slice(&body).map_err(|e| IdentityError::Answer(e.to_string()))?;
    Ok(Identity { certificate: answer.certificate, key })
}

/// Reads an answer, up to a bound.
async fn read(mut body: Body) -> Result<bytes::Bytes, BoxError> {
    let mut read = bytes::BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            if read.len() + data.len() > MAX_ANSWER {
                return Err("the answer is too long".into());
            }
            read.extend_from_slice(&data);
        }
    }
    Ok(read.freeze())
}

/// The transport with the node's present certificate.
pub(crate) struct NodeTransport {
    config: BootConfig,
    current: RwLock<(Arc<HttpTransport>, Identity)>,
}

impl std::fmt::Debug for NodeTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeTransport")
    }
}

impl NodeTransport {
    /// A transport with this identity.
    pub(crate) fn new(config: BootConfig, identity: Identity) -> Result<Self, IdentityError> {
        let current = RwLock::new((Arc::new(transport(&config, &identity)?), identity));
        Ok(Self { config, current })
    }

    /// The present identity.
    pub(crate) fn identity(&self) -> Identity {
        self.current.read().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    fn current(&self) -> Arc<HttpTransport> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Gets another certificate and uses it from now on.
    async fn renew(&self) -> Result<(), IdentityError> {
        let identity = exchange(&self.config, self.current()).await?;
        let transport = Arc::new(transport(&self.config, &identity)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = (transport, identity);
        Ok(())
    }

    /// Renews whenever a third of the certificate's lifetime is left.
    pub(crate) async fn keep_valid(&self, retry: Duration) {
        loop {
            let (from, until) = validity(&self.identity().certificate).unwrap_or((0, 0));
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
            tokio::time::sleep(Duration::from_secs(renewal(from, until).saturating_sub(now)).max(retry)).await;
            if let Err(error) = self.renew().await {
                tracing::warn!(error = runtime::error_chain(&error), "cannot renew the certificate");
            }
        }
    }
}

/// When a certificate with this validity is renewed.
pub(crate) fn renewal(from: u64, until: u64) -> u64 {
    until - until.saturating_sub(from) / 3
}

/// When a PEM certificate starts and ends to be valid, seconds since 1970.
pub(crate) fn validity(pem: &str) -> Option<(u64, u64)> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let (_, certificate) = x509_parser::parse_x509_certificate(&der).ok()?;
    let validity = certificate.validity();
    let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).ok();
    Some((seconds(validity.not_before)?, seconds(validity.not_after)?))
}

fn transport(config: &BootConfig, identity: &Identity) -> Result<HttpTransport, IdentityError> {
    let mut options = HttpOptions::new(&config.server, &config.certificate_authority);
    options.client_certificate = Some((identity.certificate.clone(), identity.key.clone()));
    Ok(HttpTransport::new(options)?)
}

#[async_trait]
impl Transport for NodeTransport {
    async fn send(&self, request: http::Request<bytes::Bytes>) -> Result<http::Response<Body>, BoxError> {
        self.current().send(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::{renewal, request, validity};

    #[test]
    fn each_request_has_its_own_key() {
        let (first, one) = request("n").unwrap();
        let (second, two) = request("n").unwrap();
        assert_ne!(first, second);
        assert_ne!(one.certificate_request, two.certificate_request);
        assert!(one.certificate_request.contains("CERTIFICATE REQUEST"));
    }

    #[test]
    fn a_certificate_is_renewed_when_a_third_is_left() {
        assert_eq!(renewal(0, 900), 600);
        assert_eq!(renewal(100, 100), 100);
        assert_eq!(renewal(200, 100), 100);
    }

    #[test]
    fn validity_is_read_from_the_certificate() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::default();
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2026, 1, 2);
        let (from, until) = validity(&parameters.self_signed(&key).unwrap().pem()).unwrap();
        assert_eq!(until - from, 86_400);
        assert!(validity("no certificate").is_none());
    }
}
