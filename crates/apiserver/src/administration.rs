//! Administration of logical clusters, for the program that embeds the server.

use crate::authentication::tokens::{self, Claims, ISSUER, JOIN_AUDIENCE};
use crate::authorization::node;
use crate::nodes::join_prefix;
use crate::options::Options;
use crate::pki::{self, Leaf, ServerKeys};
use crate::registry::{LogicalClusterRecord, Registry};
use async_trait::async_trait;
use controller_runtime::{ClientCredential, LogicalClusterError, LogicalClusters};
use std::sync::Arc;
use std::time::Duration;
use store::{KeyRange, Op, Txn};

/// The [`LogicalClusters`] of a server.
#[derive(Clone)]
pub struct Administration {
    registry: Registry,
    keys: Arc<ServerKeys>,
    max_lifetime: Duration,
}

impl std::fmt::Debug for Administration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Administration").finish_non_exhaustive()
    }
}

impl Administration {
    pub(crate) fn new(registry: Registry, keys: Arc<ServerKeys>, options: &Options) -> Self {
        Self { registry, keys, max_lifetime: options.max_credential_lifetime }
    }

    async fn record(&self, cluster: &str) -> Result<Arc<LogicalClusterRecord>, LogicalClusterError> {
        let record = self.registry.logical_cluster(cluster).await.map_err(|error| failed(cluster, error))?;
        record.ok_or_else(|| LogicalClusterError::NotFound(cluster.to_owned()))
    }
}

fn failed(cluster: &str, error: impl std::fmt::Display) -> LogicalClusterError {
    LogicalClusterError::Failed { cluster: cluster.to_owned(), reason: error.to_string() }
}

#[async_trait]
impl LogicalClusters for Administration {
    async fn ready(&self, cluster: &str) -> Result<bool, LogicalClusterError> {
        self.record(cluster).await.map(|_| true)
    }

    async fn purge(&self, cluster: &str) -> Result<(), LogicalClusterError> {
        self.registry.purge_logical_cluster(cluster).await.map_err(|error| failed(cluster, error))?;
        let range = KeyRange::prefix(join_prefix(cluster));
        let txn = Txn { conditions: Vec::new(), ops: vec![Op::DeleteRange { range }] };
        self.registry.store().commit(txn).await.map_err(|error| failed(cluster, error))?;
        Ok(())
    }

    async fn issue_credential(
        &self,
        cluster: &str,
        user: &str,
        groups: &[String],
        lifetime: Duration,
    ) -> Result<ClientCredential, LogicalClusterError> {
        let record = self.record(cluster).await?;
        let leaf = Leaf {
            common_name: user,
            organisations: groups,
            names: &[],
            addresses: &[],
            lifetime: lifetime.min(self.max_lifetime),
        };
        let (certificate, key) = record.authority.issue(&leaf).map_err(|error| failed(cluster, error))?;
        Ok(ClientCredential { certificate: pki::certificate_pem(&certificate), key: pki::key_pem(&key) })
    }

    async fn issue_join_token(
        &self,
        cluster: &str,
        node: &str,
        lifetime: Duration,
    ) -> Result<String, LogicalClusterError> {
        self.record(cluster).await?;
        let now = jiff::Timestamp::now().as_second();
        let seconds = i64::try_from(lifetime.min(self.max_lifetime).as_secs()).unwrap_or(i64::MAX);
        let claims = Claims {
            aud: vec![JOIN_AUDIENCE.to_owned()],
            exp: now + seconds,
            iat: now,
            nbf: now,
            iss: ISSUER.into(),
            jti: uuid::Uuid::new_v4().to_string(),
            sub: format!("{}{node}", node::USER_PREFIX),
            cluster: cluster.to_owned(),
            kubernetes: None,
        };
        tokens::sign(self.keys.signing(), &claims).map_err(|error| failed(cluster, error))
    }

    fn certificate_authority(&self) -> String {
        self.keys.certificate_authority()
    }
}
