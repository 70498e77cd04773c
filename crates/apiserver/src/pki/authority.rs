//! A certificate authority and what it signs.

use super::Error;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How far a certificate's start lies in the past, for clocks that run late.
const BACKDATE: Duration = Duration::from_secs(300);

/// A certificate authority: its certificate and its private key, DER.
///
/// It serialises as base64, for the logical cluster's record; `Debug` hides the key.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Authority {
    common_name: String,
    organisation: String,
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    certificate: Vec<u8>,
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    key: Vec<u8>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("common_name", &self.common_name).finish_non_exhaustive()
    }
}

/// What a signed certificate says.
#[derive(Clone, Debug)]
pub struct Leaf<'a> {
    /// Common name: the user, or the server's name.
    pub common_name: &'a str,
    /// Organisations: the groups. At most two, as the encoder writes an attribute type once.
    pub organisations: &'a [String],
    /// Host names; a certificate with names or addresses is a serving certificate, any other a
    /// client certificate.
    pub names: &'a [String],
    /// Addresses.
    pub addresses: &'a [IpAddr],
    /// How long it is valid from now.
    pub lifetime: Duration,
}

impl Authority {
    /// A new self-signed authority.
    ///
    /// # Errors
    /// When the system has no randomness or the name cannot be encoded.
    pub fn generate(common_name: &str, organisation: &str, lifetime: Duration) -> Result<Self, Error> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = authority_params(common_name, organisation);
        set_validity(&mut params, lifetime);
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            common_name: common_name.into(),
            organisation: organisation.into(),
            certificate: certificate.der().to_vec(),
            key: key.serialize_der(),
        })
    }

    /// The authority's certificate.
    #[must_use]
    pub fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from(self.certificate.clone())
    }

    /// The authority's certificate, PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// Signs a certificate for somebody's public key.
    ///
    /// # Errors
    /// When the leaf has more than two organisations or a name cannot be encoded.
    pub fn sign(&self, leaf: &Leaf<'_>, key: &impl PublicKeyData) -> Result<CertificateDer<'static>, Error> {
        let own = KeyPair::from_pkcs8_der_and_sign_algo(
            &PrivatePkcs8KeyDer::from(self.key.as_slice()),
            &PKCS_ECDSA_P256_SHA256,
        )?;
        let issuer = Issuer::new(authority_params(&self.common_name, &self.organisation), own);
        let certificate = leaf_params(leaf)?.signed_by(key, &issuer)?;
        Ok(certificate.der().clone())
    }

    /// Makes a key and signs a certificate for it: `(certificate, PKCS #8 key)`, both DER.
    ///
    /// # Errors
    /// As [`Authority::sign`].
    pub fn issue(&self, leaf: &Leaf<'_>) -> Result<(CertificateDer<'static>, Vec<u8>), Error> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        Ok((self.sign(leaf, &key)?, key.serialize_der()))
    }
}

fn authority_params(common_name: &str, organisation: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, organisation);
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn leaf_params(leaf: &Leaf<'_>) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, leaf.common_name);
    // The encoder keeps one value per attribute type. The second organisation goes in under the
    // same object identifier, given as a custom type.
    let types = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    if leaf.organisations.len() > types.len() {
        return Err(Error::Certificate(format!("at most {} groups fit a client certificate", types.len())));
    }
    for (type_, organisation) in types.into_iter().zip(leaf.organisations) {
        params.distinguished_name.push(type_, organisation.as_str());
    }
    for name in leaf.names {
        params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
    }
    params.subject_alt_names.extend(leaf.addresses.iter().map(|address| SanType::IpAddress(*address)));
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![if params.subject_alt_names.is_empty() {
        ExtendedKeyUsagePurpose::ClientAuth
    } else {
        ExtendedKeyUsagePurpose::ServerAuth
    }];
    params.serial_number = Some(SerialNumber::from_slice(&uuid::Uuid::new_v4().as_bytes()[1..]));
    set_validity(&mut params, leaf.lifetime);
    Ok(params)
}

fn set_validity(params: &mut CertificateParams, lifetime: Duration) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(BACKDATE);
    params.not_after = epoch + (now + lifetime);
}

/// PEM of one DER block.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = tail;
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}
