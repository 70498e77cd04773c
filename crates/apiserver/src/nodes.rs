//! What nodes use besides the Kubernetes API: joining, renewing their certificate, and the tunnel.

use crate::authentication::{Authenticator, Peer, bearer};
use crate::authorization::node;
use crate::pki::{self, Leaf};
use crate::registry::Registry;
use crate::respond;
use apimachinery::auth::GROUP_NODES;
use apimachinery::status::ApiError;
use bytes::Bytes;
use controller_runtime::Body;
use http::{HeaderMap, Response, StatusCode};
use node_api::{JoinRequest, JoinResponse};
use std::num::NonZeroUsize;
use std::time::Duration;
use store::{Commit, Condition, KeyRange, Op, RangeOptions, Txn};

/// Expired join tokens that one join cleans away.
const CLEANED_PER_JOIN: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

/// Where the use of join tokens is noted.
pub(crate) fn join_prefix(cluster: &str) -> String {
    format!("join/{cluster}/")
}

/// Hands out node certificates.
pub(crate) struct Joins {
    pub(crate) registry: Registry,
    pub(crate) lifetime: Duration,
}

impl Joins {
    /// Answers a join: with a join token, which is then used up, or with the node's own
    /// certificate to renew.
    pub(crate) async fn join(
        &self,
        authenticator: &Authenticator,
        cluster: &str,
        node: &str,
        peer: &Peer,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Response<Body>, ApiError> {
        let user = format!("{}{node}", node::USER_PREFIX);
        let token = match bearer(headers) {
            Some(token) => {
                let claims = authenticator.join_token(token).await?;
                Some(claims.filter(|c| c.cluster == cluster && c.sub == user).ok_or_else(ApiError::unauthorized)?)
            }
            None => {
                let identity = authenticator.certificate(peer).await?;
                let own = identity
                    .is_some_and(|i| i.cluster == cluster && i.user.name == user && i.user.in_group(GROUP_NODES));
                if !own {
                    return Err(ApiError::unauthorized());
                }
                None
            }
        };
        let request: JoinRequest =
            serde_json::from_slice(body).map_err(|error| ApiError::bad_request(error.to_string()))?;
        let key = pki::requested_key(&request.certificate_request)
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let record = self.registry.logical_cluster(cluster).await?.ok_or_else(ApiError::unauthorized)?;
        if let Some(claims) = token {
            // Last before the certificate: a request that was refused has not used the token up.
            self.use_up(cluster, &claims.jti, claims.exp).await?;
        }
        let groups = [GROUP_NODES.to_owned()];
        let leaf =
            Leaf { common_name: &user, organisations: &groups, names: &[], addresses: &[], lifetime: self.lifetime };
        let certificate = record.authority.sign(&leaf, &key).map_err(ApiError::internal)?;
        let answer = JoinResponse { certificate: pki::certificate_pem(&certificate) };
        Ok(respond::json(StatusCode::CREATED, &answer))
    }

    /// Notes that a token was used; 401 when it was before. Notes of tokens that have ended by
    /// themselves are removed on the way.
    async fn use_up(&self, cluster: &str, id: &str, end: i64) -> Result<(), ApiError> {
        let prefix = join_prefix(cluster);
        let key = Bytes::from(format!("{prefix}{id}"));
        let store = self.registry.store();
        let failed = |error: store::Error| {
            tracing::warn!(error = runtime::error_chain(&error), "a join could not be noted");
            ApiError::unavailable("the join could not be noted")
        };
        let options = RangeOptions { at: None, limit: Some(CLEANED_PER_JOIN) };
        let noted = store.range(&KeyRange::prefix(prefix), options).await.map_err(failed)?;
        let now = jiff::Timestamp::now().as_second();
        let ended = |value: &[u8]| {
            std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok()).is_some_and(|end| end < now)
        };
        let mut ops: Vec<Op> = noted
            .entries
            .into_iter()
            .filter(|entry| entry.key != key && ended(&entry.value))
            .map(|entry| Op::Delete { key: entry.key })
            .collect();
        ops.push(Op::Put { key: key.clone(), value: end.to_string().into() });
        let lc = Bytes::from(format!("lc/{cluster}"));
        let conditions = vec![(lc, Condition::Present), (key, Condition::Absent)];
        match store.commit(Txn { conditions, ops }).await.map_err(failed)? {
            Commit::Done { .. } => {
                tracing::info!(cluster, "a node joined");
                Ok(())
            }
            Commit::Conflict { .. } => Err(ApiError::unauthorized()),
        }
    }
}
