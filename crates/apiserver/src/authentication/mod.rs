//! Who makes a request: client certificates and tokens. Every credential is valid in exactly one
//! logical cluster, and in none once that is purged.

pub(crate) mod certificate;
pub(crate) mod impersonation;
pub(crate) mod tokens;

use crate::GROUP_CONTROLLERS;
use crate::options::Options;
use crate::pki::ServerKeys;
use crate::registry::Registry;
use apimachinery::auth::{GROUP_AUTHENTICATED, UserInfo};
use apimachinery::definition::GroupResource;
use apimachinery::status::ApiError;
use http::{HeaderMap, header};
use rustls::pki_types::CertificateDer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokens::{Bound, Claims, ISSUER, Reference};
use tokio::time::Instant;

/// Somebody, and the one logical cluster in which they are that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: UserInfo,
    pub(crate) cluster: String,
}

/// The client's end of a connection: its certificate and what was last found out about it.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    certificate: Option<CertificateDer<'static>>,
    verdict: tokio::sync::Mutex<Option<(Instant, Option<Identity>)>>,
}

impl Peer {
    pub(crate) fn new(certificate: Option<CertificateDer<'static>>) -> Self {
        Self { certificate, verdict: tokio::sync::Mutex::default() }
    }
}

/// Finds out who makes a request.
pub(crate) struct Authenticator {
    registry: Registry,
    keys: Arc<ServerKeys>,
    recheck: Duration,
}

impl Authenticator {
    pub(crate) fn new(registry: Registry, keys: Arc<ServerKeys>, options: &Options) -> Self {
        Self { registry, keys, recheck: options.certificate_recheck }
    }

    /// The identity of a request from the network; `None` when it has no credential at all.
    ///
    /// # Errors
    /// 401 when it has credentials and none of them is valid.
    pub(crate) async fn identify(&self, peer: &Peer, headers: &HeaderMap) -> Result<Option<Identity>, ApiError> {
        if let Some(identity) = self.certificate(peer).await? {
            return Ok(Some(identity));
        }
        if let Some(token) = bearer(headers) {
            let identity = self.token(token, &[ISSUER]).await?.map(|(identity, _)| identity);
            return identity.map(Some).ok_or_else(ApiError::unauthorized);
        }
        if peer.certificate.is_some() || headers.contains_key(header::AUTHORIZATION) {
            return Err(ApiError::unauthorized());
        }
        Ok(None)
    }

    /// The identity in the connection's certificate. What is expensive about it is kept for a
    /// while; whether its cluster still exists is asked every time.
    pub(crate) async fn certificate(&self, peer: &Peer) -> Result<Option<Identity>, ApiError> {
        let Some(certificate) = &peer.certificate else { return Ok(None) };
        let mut verdict = peer.verdict.lock().await;
        let known = match &*verdict {
            Some((at, known)) if at.elapsed() < self.recheck => known.clone(),
            _ => {
                let fresh = self.verify(certificate).await?;
                *verdict = Some((Instant::now(), fresh.clone()));
                fresh
            }
        };
        drop(verdict);
        match known {
            Some(identity) if self.exists(&identity.cluster).await? => Ok(Some(identity)),
            _ => Ok(None),
        }
    }

    async fn verify(&self, certificate: &CertificateDer<'_>) -> Result<Option<Identity>, ApiError> {
        let Some(cluster) = certificate::issuing_cluster(certificate) else { return Ok(None) };
        let Some(record) = self.registry.logical_cluster(&cluster).await? else { return Ok(None) };
        let now = jiff::Timestamp::now().as_second();
        let user = certificate::verify(certificate, &record.authority.certificate(), now);
        Ok(user.map(|mut user| {
            // Controllers are in this process; nobody is one of them by a certificate.
            user.groups.retain(|group| group != GROUP_CONTROLLERS);
            Identity { user, cluster }
        }))
    }

    /// The ServiceAccount of a token for any of `audiences`, with those that it is for. Account and
    /// bound objects must still exist.
    pub(crate) async fn token(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<Option<(Identity, Vec<String>)>, ApiError> {
        let now = jiff::Timestamp::now().as_second();
        let claims = match tokens::verify(self.keys.signing(), token, now) {
            Ok(claims) => claims,
            Err(error) => {
                tracing::debug!(%error, "a bearer token was refused");
                return Ok(None);
            }
        };
        let matched: Vec<String> = claims.aud.iter().filter(|aud| audiences.contains(&aud.as_str())).cloned().collect();
        let Some(bound) = &claims.kubernetes else { return Ok(None) };
        if matched.is_empty() || !self.exists(&claims.cluster).await? || !self.all_exist(&claims.cluster, bound).await?
        {
            return Ok(None);
        }
        Ok(Some((Identity { user: account(&claims, bound), cluster: claims.cluster }, matched)))
    }

    /// The claims of a join token that is valid now; whether it was used is not looked at.
    pub(crate) async fn join_token(&self, token: &str) -> Result<Option<Claims>, ApiError> {
        let now = jiff::Timestamp::now().as_second();
        match tokens::verify(self.keys.signing(), token, now) {
            Ok(claims)
                if claims.aud.iter().any(|aud| aud == tokens::JOIN_AUDIENCE)
                    && self.exists(&claims.cluster).await? =>
            {
                Ok(Some(claims))
            }
            _ => Ok(None),
        }
    }

    /// Whether the cluster exists and was not purged.
    pub(crate) async fn exists(&self, cluster: &str) -> Result<bool, ApiError> {
        Ok(self.registry.logical_cluster(cluster).await?.is_some()
            && !self.registry.logical_cluster_denied(cluster).await?)
    }

    async fn all_exist(&self, cluster: &str, bound: &Bound) -> Result<bool, ApiError> {
        let namespace = Some(bound.namespace.as_str());
        let objects = [
            ("serviceaccounts", namespace, Some(&bound.serviceaccount)),
            ("pods", namespace, bound.pod.as_ref()),
            ("secrets", namespace, bound.secret.as_ref()),
            // The node of a Pod is information; a token that is bound to a Node alone goes with it.
            ("nodes", None, bound.node.as_ref().filter(|_| bound.pod.is_none())),
        ];
        for (resource, namespace, reference) in objects {
            let Some(Reference { name, uid }) = reference else { continue };
            let kind = GroupResource { group: String::new(), resource: resource.into() };
            let found = self.registry.get(cluster, &kind, namespace, name).await?;
            if found.is_none_or(|object| object["metadata"]["uid"] != **uid) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The user of a ServiceAccount token.
fn account(claims: &Claims, bound: &Bound) -> UserInfo {
    let mut extra = BTreeMap::from([(
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![format!("JTI={}", claims.jti)],
    )]);
    for (kind, reference) in [("pod", &bound.pod), ("node", &bound.node)] {
        if let Some(reference) = reference {
            extra.insert(format!("authentication.kubernetes.io/{kind}-name"), vec![reference.name.clone()]);
            extra.insert(format!("authentication.kubernetes.io/{kind}-uid"), vec![reference.uid.clone()]);
        }
    }
    UserInfo {
        name: format!("system:serviceaccount:{}:{}", bound.namespace, bound.serviceaccount.name),
        uid: bound.serviceaccount.uid.clone(),
        groups: vec![
            "system:serviceaccounts".into(),
            format!("system:serviceaccounts:{}", bound.namespace),
            GROUP_AUTHENTICATED.into(),
        ],
        extra,
    }
}

/// The bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
