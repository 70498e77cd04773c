//! Certificate requests (PKCS #10) of nodes: only their public key is used.

use super::Error;
use rcgen::{PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::oid_registry::{OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY};
use x509_parser::prelude::FromDer as _;

/// A P-256 public key whose holder signed the request that it came in.
#[derive(Clone, Debug)]
pub struct RequestedKey {
    point: Vec<u8>,
}

impl PublicKeyData for RequestedKey {
    fn der_bytes(&self) -> &[u8] {
        &self.point
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// Reads the public key of a PEM certificate request and checks that the request is signed by it.
///
/// # Errors
/// [`Error::Request`] when it is malformed, of another key type, or not signed by its own key.
pub fn requested_key(pem: &str) -> Result<RequestedKey, Error> {
    let bad = |what: &str| Error::Request(what.into());
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|_| bad("it is not PEM"))?;
    if pem.label != "CERTIFICATE REQUEST" && pem.label != "NEW CERTIFICATE REQUEST" {
        return Err(bad("the PEM block is not a CERTIFICATE REQUEST"));
    }
    let (_, request) =
        X509CertificationRequest::from_der(&pem.contents).map_err(|_| bad("it is not a PKCS #10 request"))?;
    request.verify_signature().map_err(|_| bad("its signature does not verify"))?;
    let key = &request.certification_request_info.subject_pki;
    let curve = key.algorithm.parameters.as_ref().and_then(|p| p.as_oid().ok());
    if key.algorithm.algorithm != OID_KEY_TYPE_EC_PUBLIC_KEY || curve != Some(OID_EC_P256) {
        return Err(bad("its key is not an ECDSA P-256 key"));
    }
    Ok(RequestedKey { point: key.subject_public_key.data.to_vec() })
}
