use super::*;
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use std::time::Duration;
use x509_parser::prelude::*;

fn leaf<'a>(user: &'a str, groups: &'a [String]) -> Leaf<'a> {
    Leaf { common_name: user, organisations: groups, names: &[], addresses: &[], lifetime: Duration::from_secs(60) }
}

#[test]
fn a_client_certificate_names_user_groups_and_issuer() {
    let authority = new_client_authority("a-1").unwrap();
    let groups = ["one".to_owned(), "two".to_owned()];
    let (der, _) = authority.issue(&leaf("jane", &groups)).unwrap();
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    assert_eq!(certificate.subject().iter_common_name().next().unwrap().as_str(), Ok("jane"));
    let found: Vec<_> = certificate.subject().iter_organization().map(|o| o.as_str().unwrap()).collect();
    assert_eq!(found, groups);
    assert_eq!(certificate.issuer().iter_common_name().next().unwrap().as_str(), Ok("a-1"));
    assert_eq!(certificate.issuer().iter_organization().next().unwrap().as_str(), Ok(CLIENT_AUTHORITY_ORGANISATION));
}

#[test]
fn more_groups_than_fit_are_an_error_and_not_dropped() {
    let groups = ["a", "b", "c"].map(str::to_owned);
    assert!(new_client_authority("a").unwrap().issue(&leaf("jane", &groups)).is_err());
}

#[test]
fn an_authority_survives_its_record_and_hides_its_key() {
    let authority = new_client_authority("a").unwrap();
    let text = serde_json::to_string(&authority).unwrap();
    let back: Authority = serde_json::from_str(&text).unwrap();
    assert!(back == authority);
    assert!(!format!("{authority:?}").contains("key"));
    assert!(back.issue(&leaf("jane", &[])).is_ok());
}

#[test]
fn a_request_must_be_signed_by_its_own_p256_key() {
    let key = KeyPair::generate().unwrap();
    let request = CertificateParams::default().serialize_request(&key).unwrap();
    let found = requested_key(&request.pem().unwrap()).unwrap();
    assert_eq!(rcgen::PublicKeyData::der_bytes(&found), key.public_key_raw());

    let mut forged = request.der().to_vec();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    assert!(requested_key(&authority::pem("CERTIFICATE REQUEST", &forged)).is_err());

    let other = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let request = CertificateParams::default().serialize_request(&other).unwrap();
    assert!(requested_key(&request.pem().unwrap()).is_err());
    assert!(requested_key("nonsense").is_err());
}
