//! Logical clusters: their records, their creation, and their end.

use super::{Registry, failure, keys};
use crate::pki::{self, Authority};
use apimachinery::status::ApiError;
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use std::sync::Arc;
use store::{Commit, Condition, Entry, KeyRange, Op, RangeOptions, Revision, Txn};

/// What a logical cluster is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogicalClusterKind {
    /// A home of `Cluster` objects.
    Workspace,
    /// Behind a `Cluster` object.
    Cluster,
}

/// A logical cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogicalClusterRecord {
    /// Name, unique on the server.
    #[serde(skip)]
    pub name: String,
    /// Unique over time.
    pub uid: String,
    /// When it was created.
    pub created: Timestamp,
    /// What it is for.
    pub kind: LogicalClusterKind,
    /// Signs its client certificates.
    pub authority: Authority,
    /// The resource version of its base objects.
    #[serde(skip)]
    pub revision: u64,
}

impl LogicalClusterRecord {
    pub(super) fn new(name: &str, uid: String, kind: LogicalClusterKind, authority: Authority) -> Self {
        Self { name: name.to_owned(), uid, created: super::meta::now(), kind, authority, revision: 0 }
    }

    fn decode(entry: &Entry) -> Result<Self, ApiError> {
        let mut record: Self = serde_json::from_slice(&entry.value).map_err(|error| {
            tracing::error!(%error, "the record of a logical cluster is damaged");
            ApiError::internal("the record of the logical cluster is damaged")
        })?;
        let name = entry.key.strip_prefix(keys::LOGICAL_CLUSTERS.as_bytes()).unwrap_or_default();
        record.name = String::from_utf8_lossy(name).into_owned();
        record.revision = entry.modified.0;
        Ok(record)
    }

    pub(super) fn encode(&self) -> Result<Bytes, ApiError> {
        serde_json::to_vec(self).map(Bytes::from).map_err(ApiError::internal)
    }

    pub(super) fn revision(&self) -> Revision {
        Revision(self.revision)
    }

    /// What creating it changes, and what must hold before.
    pub(super) fn creation(&self) -> Result<Txn, ApiError> {
        let key = keys::logical_cluster(&self.name);
        Ok(Txn {
            conditions: vec![(key.clone(), Condition::Absent), (keys::denied(&self.name), Condition::Absent)],
            ops: vec![Op::Put { key, value: self.encode()? }],
        })
    }
}

/// A new authority, made off the request's thread pool only if that were slow, which P-256 is not.
pub(super) fn new_authority(name: &str) -> Result<Authority, ApiError> {
    pki::new_client_authority(name).map_err(|error| {
        tracing::error!(%error, cluster = name, "no client authority could be made");
        ApiError::internal("no client authority could be made")
    })
}

impl Registry {
    /// The record of a logical cluster; `None` when there is none or it was purged.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn logical_cluster(&self, name: &str) -> Result<Option<Arc<LogicalClusterRecord>>, ApiError> {
        if !valid_name(name) {
            return Ok(None);
        }
        let entry = self.store().get(&keys::logical_cluster(name), None).await.map_err(failure)?;
        entry.map(|entry| LogicalClusterRecord::decode(&entry).map(Arc::new)).transpose()
    }

    /// Whether a logical cluster of this name was purged; its credentials are refused for ever.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn logical_cluster_denied(&self, name: &str) -> Result<bool, ApiError> {
        Ok(valid_name(name) && self.store().get(&keys::denied(name), None).await.map_err(failure)?.is_some())
    }

    /// Every logical cluster, in the order of their names.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn logical_clusters(&self) -> Result<Vec<Arc<LogicalClusterRecord>>, ApiError> {
        let range = KeyRange::prefix(keys::LOGICAL_CLUSTERS);
        let found = self.store().range(&range, RangeOptions::default()).await.map_err(failure)?;
        found.entries.iter().map(|entry| LogicalClusterRecord::decode(entry).map(Arc::new)).collect()
    }

    /// Creates a logical cluster, or returns the one that has the name.
    ///
    /// # Errors
    /// When the name is no DNS label, was purged before, or the store fails.
    pub async fn create_logical_cluster(
        &self,
        name: &str,
        kind: LogicalClusterKind,
        authority: Authority,
    ) -> Result<Arc<LogicalClusterRecord>, ApiError> {
        if !valid_name(name) {
            return Err(ApiError::bad_request(format!("{name:?} is no name for a logical cluster")));
        }
        let mut record = LogicalClusterRecord::new(name, super::meta::new_uid(), kind, authority);
        match self.store().commit(record.creation()?).await.map_err(failure)? {
            Commit::Done { revision } => {
                record.revision = revision.0;
                Ok(Arc::new(record))
            }
            Commit::Conflict { key, current: Some(entry) } if key == keys::logical_cluster(name) => {
                LogicalClusterRecord::decode(&entry).map(Arc::new)
            }
            Commit::Conflict { .. } => {
                Err(ApiError::conflict("", "logicalclusters", name, "the logical cluster was purged"))
            }
        }
    }

    /// Ends a logical cluster: its record goes and its credentials are refused from the first step
    /// on, then everything in it is removed. Safe to repeat; one that never was is done.
    ///
    /// # Errors
    /// When the store fails; the caller repeats.
    pub async fn purge_logical_cluster(&self, name: &str) -> Result<(), ApiError> {
        if !valid_name(name) {
            return Ok(());
        }
        let (key, denied) = (keys::logical_cluster(name), keys::denied(name));
        if self.store().get(&key, None).await.map_err(failure)?.is_some() {
            let ops = vec![Op::Delete { key: key.clone() }, Op::Put { key: denied, value: Bytes::new() }];
            // Writes into the cluster demand the record in their own transaction, so none follows.
            self.store().commit(Txn { conditions: Vec::new(), ops }).await.map_err(failure)?;
        } else if self.store().get(&denied, None).await.map_err(failure)?.is_none() {
            return Ok(());
        }
        let kinds = self.definitions().iter().filter(|kind| kind.is_stored());
        let objects = kinds.map(|kind| KeyRange::prefix(keys::within(kind.resource(), name, None)));
        for range in objects.chain(keys::cluster_ranges(name)) {
            self.remove_range(range).await?;
        }
        Ok(())
    }

    async fn remove_range(&self, mut range: KeyRange) -> Result<(), ApiError> {
        let options = RangeOptions { at: None, limit: NonZeroUsize::new(self.options().purge_entries.max(1)) };
        loop {
            let found = self.store().range(&range, options).await.map_err(failure)?;
            let Some(last) = found.entries.last() else { return Ok(()) };
            let mut end = last.key.to_vec();
            end.push(0);
            let end = Bytes::from(end);
            let part = KeyRange { start: range.start.clone(), end: Some(end.clone()) };
            let txn = Txn { conditions: Vec::new(), ops: vec![Op::DeleteRange { range: part }] };
            self.store().commit(txn).await.map_err(failure)?;
            if !found.more {
                return Ok(());
            }
            range.start = end;
        }
    }
}

/// Names go into keys: nothing but a DNS label is one.
fn valid_name(name: &str) -> bool {
    apimachinery::validation::dns1123_label(name).is_empty()
}
