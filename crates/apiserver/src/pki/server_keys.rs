//! The server's own keys, made once and kept in the store under `pki/`.

use super::{Authority, Error, Leaf, authority::pem};
use crate::options::Options;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use store::{Commit, Condition, Op, Store, Txn};

const AUTHORITY_KEY: &str = "pki/serving-authority";
const SIGNING_KEY: &str = "pki/token-signing-key";
const SERVING_KEY: &str = "pki/serving-certificate";

/// Twenty years: the authority is in every kubeconfig and cannot be rotated silently.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(20 * 365 * 86_400);

/// The standard names of an API server in its cluster.
const NAMES: [&str; 5] =
    ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

/// The standard addresses: loopback, the host as seen by a user-network guest, and the address of
/// the `kubernetes` Service.
const ADDRESSES: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
    IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2)),
    IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)),
];

/// The serving authority, the present serving certificate and the token key.
pub struct ServerKeys {
    authority: Authority,
    signing: SigningKey,
    serving: RwLock<Serving>,
    store: Arc<dyn Store>,
    options: Options,
}

impl std::fmt::Debug for ServerKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerKeys").finish_non_exhaustive()
    }
}

/// The key that signs tokens, with the id that tokens name it by.
pub(crate) struct SigningKey {
    pub(crate) id: String,
    pub(crate) pair: EcdsaKeyPair,
    pub(crate) random: SystemRandom,
}

/// A serving certificate as it is kept.
#[derive(Serialize, Deserialize)]
struct ServingRecord {
    /// PEM.
    certificate: String,
    /// PKCS #8 PEM.
    key: String,
    /// End of validity, seconds since the epoch.
    not_after: i64,
    /// What it was made for; another set of names makes a new one.
    names: Vec<String>,
}

struct Serving {
    certified: Arc<rustls::sign::CertifiedKey>,
    not_after: i64,
}

impl ServerKeys {
    /// Reads the keys, making what is missing.
    ///
    /// # Errors
    /// When the store fails or kept material is damaged.
    pub async fn open(store: Arc<dyn Store>, options: &Options) -> Result<Self, Error> {
        let authority = read_or_create(&*store, AUTHORITY_KEY, || {
            let authority =
                Authority::generate("socialweb-computer serving CA", "socialweb-computer", AUTHORITY_LIFETIME)?;
            serde_json::to_vec(&authority).map_err(|e| Error::Certificate(e.to_string()))
        })
        .await?;
        let authority: Authority =
            serde_json::from_slice(&authority).map_err(|e| Error::Damaged(AUTHORITY_KEY, e.to_string()))?;
        let signing = read_or_create(&*store, SIGNING_KEY, || {
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
                .map(|key| key.as_ref().to_vec())
                .map_err(|_| Error::Certificate("no randomness".into()))
        })
        .await?;
        let signing = SigningKey::new(&signing)?;
        let serving = read_or_make_serving(&*store, &authority, options).await?;
        Ok(Self { authority, signing, serving: RwLock::new(serving), store, options: options.clone() })
    }

    /// The serving authority's certificate, PEM: what clients trust.
    #[must_use]
    pub fn certificate_authority(&self) -> String {
        self.authority.certificate_pem()
    }

    pub(crate) fn signing(&self) -> &SigningKey {
        &self.signing
    }

    /// The serving certificate for the next handshake.
    pub(crate) fn serving(&self) -> Arc<rustls::sign::CertifiedKey> {
        self.serving.read().unwrap_or_else(std::sync::PoisonError::into_inner).certified.clone()
    }

    /// When the serving certificate is due to be replaced, seconds since the epoch.
    #[must_use]
    pub fn renewal_due(&self) -> i64 {
        let serving = self.serving.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        serving.not_after - seconds(self.options.serving_renewal)
    }

    /// Replaces the serving certificate if that is due; handshakes from now on use the new one.
    ///
    /// # Errors
    /// When the store fails; the present certificate stays in use.
    pub async fn renew_if_due(&self) -> Result<(), Error> {
        if now() >= self.renewal_due() {
            let fresh = read_or_make_serving(&*self.store, &self.authority, &self.options).await?;
            *self.serving.write().unwrap_or_else(std::sync::PoisonError::into_inner) = fresh;
        }
        Ok(())
    }
}

impl SigningKey {
    pub(crate) fn new(pkcs8: &[u8]) -> Result<Self, Error> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random)
            .map_err(|e| Error::Damaged(SIGNING_KEY, e.to_string()))?;
        let digest = ring::digest::digest(&ring::digest::SHA256, pair.public_key().as_ref());
        Ok(Self { id: URL_SAFE_NO_PAD.encode(digest), pair, random })
    }
}

async fn read_or_create(
    store: &dyn Store,
    key: &'static str,
    make: impl Fn() -> Result<Vec<u8>, Error>,
) -> Result<Bytes, Error> {
    if let Some(entry) = store.get(key.as_bytes(), None).await? {
        return Ok(entry.value);
    }
    let value = Bytes::from(make()?);
    let txn = Txn {
        conditions: vec![(Bytes::from_static(key.as_bytes()), Condition::Absent)],
        ops: vec![Op::Put { key: Bytes::from_static(key.as_bytes()), value: value.clone() }],
    };
    match store.commit(txn).await? {
        Commit::Conflict { current: Some(entry), .. } => Ok(entry.value),
        Commit::Done { .. } | Commit::Conflict { current: None, .. } => Ok(value),
    }
}

async fn read_or_make_serving(store: &dyn Store, authority: &Authority, options: &Options) -> Result<Serving, Error> {
    let names: Vec<String> =
        NAMES.iter().map(|n| (*n).to_owned()).chain(options.serving_names.iter().cloned()).collect();
    let addresses: Vec<IpAddr> = ADDRESSES.into_iter().chain(options.serving_addresses.iter().copied()).collect();
    let mut all: Vec<String> = names.iter().cloned().chain(addresses.iter().map(ToString::to_string)).collect();
    all.sort();
    all.dedup();
    let kept = match store.get(SERVING_KEY.as_bytes(), None).await? {
        Some(entry) => serde_json::from_slice::<ServingRecord>(&entry.value).ok(),
        None => None,
    };
    let record = match kept {
        Some(record) if record.names == all && now() < record.not_after - seconds(options.serving_renewal) => record,
        _ => {
            let record = make_serving(authority, names, addresses, all, options)?;
            let value = serde_json::to_vec(&record).map_err(|e| Error::Certificate(e.to_string()))?;
            let put = Op::Put { key: Bytes::from_static(SERVING_KEY.as_bytes()), value: value.into() };
            store.commit(Txn { conditions: Vec::new(), ops: vec![put] }).await?;
            record
        }
    };
    let damaged = |e: String| Error::Damaged(SERVING_KEY, e);
    let chain = vec![CertificateDer::from(from_pem(&record.certificate).map_err(damaged)?)];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(from_pem(&record.key).map_err(damaged)?));
    let key = rustls::crypto::ring::sign::any_supported_type(&key).map_err(|e| damaged(e.to_string()))?;
    Ok(Serving { certified: Arc::new(rustls::sign::CertifiedKey::new(chain, key)), not_after: record.not_after })
}

fn make_serving(
    authority: &Authority,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    all: Vec<String>,
    options: &Options,
) -> Result<ServingRecord, Error> {
    let leaf = Leaf {
        common_name: "kube-apiserver",
        organisations: &[],
        names: &names,
        addresses: &addresses,
        lifetime: options.serving_lifetime,
    };
    let (certificate, key) = authority.issue(&leaf)?;
    Ok(ServingRecord {
        certificate: pem("CERTIFICATE", &certificate),
        key: pem("PRIVATE KEY", &key),
        not_after: now() + seconds(options.serving_lifetime),
        names: all,
    })
}

fn from_pem(text: &str) -> Result<Vec<u8>, String> {
    x509_parser::pem::parse_x509_pem(text.as_bytes()).map(|(_, pem)| pem.contents).map_err(|e| e.to_string())
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}
