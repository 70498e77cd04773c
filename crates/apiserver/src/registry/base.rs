//! The base layer: objects that every cluster has without storing them.

use super::definitions::{Definitions, Kind};
use super::logical::LogicalClusterRecord;
use super::value::Object;
use super::{OpenError, keys, meta};
use apimachinery::definition::GroupResource;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use uuid::Uuid;

/// Namespaces that cannot be deleted.
pub(super) const IMMORTAL_NAMESPACES: [&str; 3] = ["default", "kube-public", "kube-system"];

/// The objects by kind and relative key.
#[derive(Debug, Default)]
pub(super) struct Base {
    kinds: HashMap<GroupResource, BTreeMap<String, Value>>,
    addresses: HashSet<String>,
}

impl Base {
    pub(super) fn new(objects: Vec<Value>, definitions: &Definitions) -> Result<Self, OpenError> {
        let mut base = Self::default();
        for mut object in objects {
            let (api_version, kind) = (meta::text(&object, "apiVersion"), meta::text(&object, "kind"));
            let kind = definitions
                .iter()
                .find(|known| known.gvk.kind == kind && known.gvk.api_version() == api_version)
                .ok_or_else(|| OpenError::BaseObject(format!("{api_version} {kind} is not served")))?
                .clone();
            kind.schema.apply_defaults(&mut object);
            if let Some(default) = kind.rules.default {
                default(&mut object);
            }
            let metadata = &object["metadata"];
            let (namespace, name) = (meta::text(metadata, "namespace"), meta::text(metadata, "name"));
            if name.is_empty() || namespace.is_empty() == kind.is_namespaced() {
                return Err(OpenError::BaseObject(format!("{} {namespace}/{name} is misplaced", kind.gvk.kind)));
            }
            let namespace = (!namespace.is_empty()).then_some(namespace);
            let key = keys::relative(namespace, name);
            if kind.resource().group.is_empty() && kind.resource().resource == "services" {
                let addresses = object["spec"]["clusterIPs"].as_array().into_iter().flatten();
                base.addresses.extend(addresses.filter_map(Value::as_str).map(str::to_owned));
            }
            base.kinds.entry(kind.resource().clone()).or_default().insert(key, object);
        }
        Ok(base)
    }

    /// Whether a Service of every cluster has the address.
    pub(super) fn has_address(&self, address: &str) -> bool {
        self.addresses.contains(address)
    }

    /// Whether there is such an object.
    pub(super) fn contains(&self, kind: &Kind, relative: &str) -> bool {
        self.kinds.get(kind.resource()).is_some_and(|objects| objects.contains_key(relative))
    }

    /// An object as it is in one cluster.
    pub(super) fn get(&self, kind: &Kind, record: &LogicalClusterRecord, relative: &str) -> Option<Object> {
        let object = self.kinds.get(kind.resource())?.get(relative)?;
        Some(in_cluster(kind, record, relative, object))
    }

    /// The objects of a kind whose relative key starts with `prefix` and lies at or after `from`,
    /// in order.
    pub(super) fn range<'a>(
        &'a self,
        kind: &'a Kind,
        prefix: &'a str,
        from: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Value)> + 'a {
        let from = from.max(prefix);
        self.kinds
            .get(kind.resource())
            .into_iter()
            .flat_map(move |objects| objects.range::<str, _>((Bound::Included(from), Bound::Unbounded)))
            .map(|(key, object)| (key.as_str(), object))
            .take_while(move |(key, _)| key.starts_with(prefix))
    }
}

/// A base object with what differs from cluster to cluster.
pub(super) fn in_cluster(kind: &Kind, record: &LogicalClusterRecord, relative: &str, object: &Value) -> Object {
    let mut object = object.clone();
    let cluster = Uuid::try_parse(&record.uid).unwrap_or(Uuid::NAMESPACE_OID);
    let uid = Uuid::new_v5(&cluster, format!("{}{relative}", kind.prefix()).as_bytes());
    object["metadata"]["uid"] = json!(uid.to_string());
    object["metadata"]["creationTimestamp"] = json!(meta::rfc3339(record.created));
    kind.encode(&object)
}
