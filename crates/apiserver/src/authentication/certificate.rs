//! Client certificates: whose authority signed one, whether it is valid, and whom it names.

use crate::pki::CLIENT_AUTHORITY_ORGANISATION;
use apimachinery::auth::{GROUP_AUTHENTICATED, UserInfo};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Name;

/// The logical cluster whose client authority issued a certificate, by the issuer's name alone:
/// nothing is verified yet.
pub(crate) fn issuing_cluster(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let issuer = certificate.issuer();
    let organisation = one(organisations(issuer))?;
    (organisation == CLIENT_AUTHORITY_ORGANISATION).then(|| common_name(issuer))?
}

/// The identity in a certificate that `authority` (DER) signed for a client, if it is valid now.
pub(crate) fn verify(der: &[u8], authority: &[u8], now: i64) -> Option<UserInfo> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    let (_, authority) = X509Certificate::from_der(authority).ok()?;
    let at = ASN1Time::from_timestamp(now).ok()?;
    let client = certificate.extended_key_usage().ok()??.value.client_auth;
    let is_authority = certificate.basic_constraints().ok()?.is_some_and(|constraints| constraints.value.ca);
    let valid = rest.is_empty()
        && certificate.issuer().as_raw() == authority.subject().as_raw()
        && certificate.validity().is_valid_at(at)
        && authority.validity().is_valid_at(at)
        && client
        && !is_authority
        && certificate.verify_signature(Some(authority.public_key())).is_ok();
    if !valid {
        return None;
    }
    let name = common_name(certificate.subject()).filter(|name| !name.is_empty())?;
    let mut groups = organisations(certificate.subject());
    groups.push(GROUP_AUTHENTICATED.to_owned());
    groups.dedup();
    Some(UserInfo { name, groups, ..UserInfo::default() })
}

fn common_name(name: &X509Name<'_>) -> Option<String> {
    one(name.iter_common_name().filter_map(|value| value.as_str().ok().map(str::to_owned)).collect())
}

fn organisations(name: &X509Name<'_>) -> Vec<String> {
    name.iter_organization().filter_map(|value| value.as_str().ok().map(str::to_owned)).collect()
}

fn one(mut values: Vec<String>) -> Option<String> {
    let value = values.pop()?;
    values.is_empty().then_some(value)
}

#[cfg(test)]
mod tests {
    //! Certificates that are and are not what they seem.

    use super::*;
    use crate::pki::{Leaf, new_client_authority};
    use std::time::Duration;

    fn leaf(groups: &[String]) -> Leaf<'_> {
        Leaf {
            common_name: "ann",
            organisations: groups,
            names: &[],
            addresses: &[],
            lifetime: Duration::from_secs(3600),
        }
    }

    #[test]
    fn names_the_user_and_the_cluster() {
        let now = jiff::Timestamp::now().as_second();
        let (a, b) = (new_client_authority("a").unwrap(), new_client_authority("b").unwrap());
        let groups = ["g1".to_owned(), "g2".to_owned()];
        let (certificate, _) = a.issue(&leaf(&groups)).unwrap();
        assert_eq!(issuing_cluster(&certificate).as_deref(), Some("a"));
        let user = verify(&certificate, &a.certificate(), now).unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups.as_slice()),
            ("ann", &["g1".to_owned(), "g2".to_owned(), GROUP_AUTHENTICATED.to_owned()][..])
        );
        assert_eq!(verify(&certificate, &b.certificate(), now), None);
        assert_eq!(
            verify(&certificate, &new_client_authority("a").unwrap().certificate(), now),
            None,
            "same name, other key"
        );
        assert_eq!(verify(&certificate, &a.certificate(), now + 7200), None, "after its end");
        assert_eq!(verify(&certificate, &a.certificate(), now - 7200), None, "before its start");
    }

    #[test]
    fn only_client_certificates() {
        let now = jiff::Timestamp::now().as_second();
        let a = new_client_authority("a").unwrap();
        let names = ["localhost".to_owned()];
        let (serving, _) = a.issue(&Leaf { names: &names, ..leaf(&[]) }).unwrap();
        assert_eq!(verify(&serving, &a.certificate(), now), None);
        assert_eq!(verify(&a.certificate(), &a.certificate(), now), None, "the authority itself");
        assert_eq!(issuing_cluster(b"rubbish"), None);
    }
}
