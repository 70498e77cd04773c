//! ES256 JSON Web Tokens, signed by the server's own key: ServiceAccount and join tokens.

use crate::pki::SigningKey;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

/// Issuer of every token, and the audience that the API server itself answers to.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// Audience of join tokens: they are good for nothing else.
pub(crate) const JOIN_AUDIENCE: &str = "socialweb.computer/node-join";
/// Longest token that is looked at.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    /// Who it is for.
    pub(crate) aud: Vec<String>,
    /// End, seconds since the epoch.
    pub(crate) exp: i64,
    /// Issued at.
    pub(crate) iat: i64,
    /// Start.
    pub(crate) nbf: i64,
    /// Issuer.
    pub(crate) iss: String,
    /// The token's own id.
    pub(crate) jti: String,
    /// `system:serviceaccount:<namespace>:<name>` or `system:node:<name>`.
    pub(crate) sub: String,
    /// The logical cluster that it is valid in.
    #[serde(rename = "socialweb.computer/cluster")]
    pub(crate) cluster: String,
    /// What a ServiceAccount token is bound to.
    #[serde(rename = "kubernetes.io", default, skip_serializing_if = "Option::is_none")]
    pub(crate) kubernetes: Option<Bound>,
}

/// The objects that a ServiceAccount token lives and dies with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bound {
    /// Namespace of the account.
    pub(crate) namespace: String,
    /// The account.
    pub(crate) serviceaccount: Reference,
    /// A Pod, if bound to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Reference>,
    /// A Secret, if bound to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Reference>,
    /// The Pod's node, or the Node that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Reference>,
}

/// Name and uid of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reference {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) uid: String,
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    kid: String,
}

/// Why a token is refused; told to nobody but the log.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum TokenError {
    #[error("it is malformed")]
    Malformed,
    #[error("it is not signed by this server")]
    Signature,
    #[error("it was not issued by this server")]
    Issuer,
    #[error("it is not valid at this time")]
    Time,
}

/// Signs a token.
pub(crate) fn sign(key: &SigningKey, claims: &Claims) -> Result<String, TokenError> {
    let header = Header { alg: "ES256".into(), kid: key.id.clone() };
    let part = |json: Result<Vec<u8>, serde_json::Error>| {
        json.map(|bytes| URL_SAFE_NO_PAD.encode(bytes)).map_err(|_| TokenError::Malformed)
    };
    let text = format!("{}.{}", part(serde_json::to_vec(&header))?, part(serde_json::to_vec(claims))?);
    let signature = key.pair.sign(&key.random, text.as_bytes()).map_err(|_| TokenError::Signature)?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// Checks signature, issuer and time of a token at `now`, seconds since the epoch. The audience is
/// the caller's to check.
pub(crate) fn verify(key: &SigningKey, token: &str, now: i64) -> Result<Claims, TokenError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(TokenError::Malformed);
    }
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed);
    let (text, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, claims) = text.split_once('.').ok_or(TokenError::Malformed)?;
    let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| TokenError::Malformed)?;
    if header.alg != "ES256" || header.kid != key.id {
        return Err(TokenError::Signature);
    }
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.pair.public_key().as_ref())
        .verify(text.as_bytes(), &decode(signature)?)
        .map_err(|_| TokenError::Signature)?;
    let claims: Claims = serde_json::from_slice(&decode(claims)?).map_err(|_| TokenError::Malformed)?;
    if claims.iss != ISSUER {
        return Err(TokenError::Issuer);
    }
    if now < claims.nbf || now >= claims.exp {
        return Err(TokenError::Time);
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    //! Tokens and their forgeries.

    use super::*;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};

    fn key() -> SigningKey {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        SigningKey::new(pkcs8.as_ref()).unwrap()
    }

    fn claims() -> Claims {
        Claims {
            aud: vec![ISSUER.into()],
            exp: 200,
            iat: 100,
            nbf: 100,
            iss: ISSUER.into(),
            jti: "id".into(),
            sub: "system:serviceaccount:a:b".into(),
            cluster: "c".into(),
            kubernetes: Some(Bound { namespace: "a".into(), ..Bound::default() }),
        }
    }

    #[test]
    fn round_trip_and_time() {
        let key = key();
        let token = sign(&key, &claims()).unwrap();
        assert_eq!(verify(&key, &token, 150), Ok(claims()));
        assert_eq!(verify(&key, &token, 99), Err(TokenError::Time));
        assert_eq!(verify(&key, &token, 200), Err(TokenError::Time));
    }

    #[test]
    fn forgeries() {
        let key = key();
        let token = sign(&key, &claims()).unwrap();
        let other = sign(&super::tests::key(), &claims()).unwrap();
        assert_eq!(verify(&key, &other, 150), Err(TokenError::Signature));
        let parts: Vec<&str> = token.split('.').collect();
        let none = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"none","kid":"{}"}}"#, key.id));
        assert_eq!(verify(&key, &format!("{none}.{}.", parts[1]), 150), Err(TokenError::Signature));
        let mut wider = claims();
        wider.cluster = "d".into();
        let wider = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wider).unwrap());
        assert_eq!(verify(&key, &format!("{}.{wider}.{}", parts[0], parts[2]), 150), Err(TokenError::Signature));
        let mut foreign = claims();
        foreign.iss = "https://elsewhere".into();
        assert_eq!(verify(&key, &sign(&key, &foreign).unwrap(), 150), Err(TokenError::Issuer));
        for malformed in ["", "a", "a.b", "a.b.c", "....", &"x".repeat(20_000)] {
            assert!(verify(&key, malformed, 150).is_err(), "{malformed:.20}");
        }
    }
}
