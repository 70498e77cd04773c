//! Who owns whom, over the informers of the built-in kinds.

use super::{FOREGROUND, ORPHAN};
use crate::meta::uid;
use controller_runtime::{ApiKind, ApiResource, Change, Controller, Informers, ObjectKey, Queue, Store};
use k8s_openapi::api::{
    apps, autoscaling, batch, coordination, core, discovery, networking, policy, rbac, scheduling, storage,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::sync::Arc;

/// An object of one of the graph's kinds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    /// Position of the kind.
    kind: usize,
    pub(super) key: ObjectKey,
}

/// A store of any kind, as far as its objects' metadata.
trait Objects: Send + Sync {
    fn get(&self, key: &ObjectKey) -> Option<ObjectMeta>;
    fn owned_by(&self, cluster: &Arc<str>, uid: &str) -> Vec<(ObjectKey, ObjectMeta)>;
    fn owns_any(&self, cluster: &Arc<str>, uid: &str) -> bool;
}

impl<K: ApiResource> Objects for Store<K> {
    fn get(&self, key: &ObjectKey) -> Option<ObjectMeta> {
        self.get(key).map(|object| object.metadata().clone())
    }

    fn owned_by(&self, cluster: &Arc<str>, uid: &str) -> Vec<(ObjectKey, ObjectMeta)> {
        self.owned_by(cluster, uid).into_iter().map(|(key, object)| (key, object.metadata().clone())).collect()
    }

    fn owns_any(&self, cluster: &Arc<str>, uid: &str) -> bool {
        !self.owned_by(cluster, uid).is_empty()
    }
}

/// Every object of the built-in kinds and its owners.
pub(super) struct Graph {
    kinds: Vec<(ApiKind, Box<dyn Objects>)>,
    queue: Queue<Node>,
}

impl Graph {
    pub(super) fn get(&self, node: &Node) -> Option<ObjectMeta> {
        self.kinds.get(node.kind)?.1.get(&node.key)
    }

    pub(super) fn kind(&self, node: &Node) -> &ApiKind {
        &self.kinds[node.kind].0
    }

    /// An object of a kind, when that kind is one of the graph's.
    pub(super) fn find(&self, kind: &ApiKind, key: ObjectKey) -> Option<ObjectMeta> {
        let (_, objects) = self.kinds.iter().find(|(known, _)| known.group == kind.group && known.kind == kind.kind)?;
        objects.get(&key)
    }

    /// The objects that name an owner with that uid.
    pub(super) fn dependents(&self, cluster: &Arc<str>, uid: &str) -> Vec<(Node, ObjectMeta)> {
        let mut all = Vec::new();
        for (kind, (_, objects)) in self.kinds.iter().enumerate() {
            all.extend(objects.owned_by(cluster, uid).into_iter().map(|(key, of)| (Node { kind, key }, of)));
        }
        all
    }

    pub(super) fn has_dependents(&self, cluster: &Arc<str>, uid: &str) -> bool {
        self.kinds.iter().any(|(_, objects)| objects.owns_any(cluster, uid))
    }

    /// Has an object looked at.
    pub(super) fn enqueue(&self, node: Node) {
        self.queue.add(node);
    }

    /// The graph of those built-in kinds that are served.
    pub(super) fn new(informers: &Informers, queue: Queue<Node>, served: &dyn Fn(&ApiKind) -> bool) -> Arc<Self> {
        let mut collect = Collect { informers, served, kinds: Vec::new() };
        every_kind(&mut collect);
        Arc::new(Self { kinds: collect.kinds, queue })
    }

    /// Has the controller watch every kind of the graph.
    pub(super) fn watch(self: &Arc<Self>, informers: &Informers, controller: Controller<Node>) -> Controller<Node> {
        let mut watch = Watch { informers, graph: self.clone(), controller: Some(controller) };
        every_kind(&mut watch);
        watch.controller.unwrap_or_else(|| unreachable!("every visit puts the controller back"))
    }

    fn position(&self, group: &str, kind: &str) -> Option<usize> {
        self.kinds.iter().position(|(known, _)| known.group == group && known.kind == kind)
    }

    /// The objects to look at when one has changed.
    fn affected<K: ApiResource>(&self, kind: usize, change: &Change<K>) -> Vec<Node> {
        let before = change.before.as_ref().map(|object| object.metadata());
        let after = change.after.as_ref().map(|object| object.metadata());
        let mut nodes = Vec::new();
        let owners_changed = before.map(|of| of.owner_references.as_deref().unwrap_or_default())
            != after.map(|of| of.owner_references.as_deref().unwrap_or_default());
        if let Some(after) = after {
            let owned = after.owner_references.iter().flatten().next().is_some();
            let ends = |of: &ObjectMeta| of.deletion_timestamp.is_some() && is_held(of);
            if (owned && owners_changed) || ends(after) {
                nodes.push(Node { kind, key: change.key.clone() });
            }
            if awaits(after) && !before.is_some_and(awaits) {
                nodes.extend(self.dependents(&change.key.cluster, uid(after)).into_iter().map(|(node, _)| node));
            }
        } else if let Some(before) = before {
            nodes.extend(self.dependents(&change.key.cluster, uid(before)).into_iter().map(|(node, _)| node));
        }
        if owners_changed {
            // An owner that waits for its dependents may have one less.
            for owner in before.into_iter().flat_map(|of| of.owner_references.iter().flatten()) {
                nodes
                    .extend(self.owner(&change.key, owner).filter(|node| self.get(node).is_some_and(|of| awaits(&of))));
            }
        }
        nodes
    }

    fn owner(&self, of: &ObjectKey, reference: &OwnerReference) -> Option<Node> {
        let (group, _) = reference.api_version.rsplit_once('/').unwrap_or(("", &reference.api_version));
        let kind = self.position(group, &reference.kind)?;
        let namespace = if self.kinds[kind].0.namespaced { of.namespace.clone() } else { "".into() };
        Some(Node {
            kind,
            key: ObjectKey { cluster: of.cluster.clone(), namespace, name: reference.name.as_str().into() },
        })
    }
}

/// Whether the collector has to let it go.
fn is_held(of: &ObjectMeta) -> bool {
    of.finalizers.iter().flatten().any(|finalizer| finalizer == FOREGROUND || finalizer == ORPHAN)
}

/// Whether it waits for its dependents to go.
fn awaits(of: &ObjectMeta) -> bool {
    of.deletion_timestamp.is_some() && of.finalizers.iter().flatten().any(|finalizer| finalizer == FOREGROUND)
}

/// Something to do for each kind of the graph.
trait Visit {
    fn visit<K: ApiResource>(&mut self);

    /// A kind whose contents no controller reads: they are not kept.
    fn visit_trimmed<K: ApiResource>(&mut self, trim: fn(&mut K));
}

fn every_kind(visit: &mut impl Visit) {
    visit.visit_trimmed::<core::v1::ConfigMap>(|map| {
        if map.metadata.name.as_deref() != Some(crate::service_accounts::ROOT_CA) {
            map.data = None;
        }
        map.binary_data = None;
    });
    visit.visit_trimmed::<core::v1::Secret>(|secret| secret.data = None);
    visit.visit::<core::v1::Pod>();
    visit.visit::<core::v1::Service>();
    visit.visit::<core::v1::ServiceAccount>();
    visit.visit::<core::v1::Endpoints>();
    visit.visit::<core::v1::PersistentVolumeClaim>();
    visit.visit::<core::v1::PersistentVolume>();
    visit.visit::<core::v1::ReplicationController>();
    visit.visit::<core::v1::Namespace>();
    visit.visit::<core::v1::Node>();
    visit.visit::<apps::v1::ReplicaSet>();
    visit.visit::<apps::v1::Deployment>();
    visit.visit::<apps::v1::DaemonSet>();
    visit.visit::<apps::v1::StatefulSet>();
    visit.visit::<apps::v1::ControllerRevision>();
    visit.visit::<batch::v1::Job>();
    visit.visit::<batch::v1::CronJob>();
    visit.visit::<autoscaling::v2::HorizontalPodAutoscaler>();
    visit.visit::<policy::v1::PodDisruptionBudget>();
    visit.visit::<coordination::v1::Lease>();
    visit.visit::<discovery::v1::EndpointSlice>();
    visit.visit::<networking::v1::Ingress>();
    visit.visit::<networking::v1::NetworkPolicy>();
    visit.visit::<rbac::v1::Role>();
    visit.visit::<rbac::v1::RoleBinding>();
    visit.visit::<rbac::v1::ClusterRole>();
    visit.visit::<rbac::v1::ClusterRoleBinding>();
    visit.visit::<scheduling::v1::PriorityClass>();
    visit.visit::<storage::v1::StorageClass>();
}

struct Collect<'a> {
    informers: &'a Informers,
    served: &'a dyn Fn(&ApiKind) -> bool,
    kinds: Vec<(ApiKind, Box<dyn Objects>)>,
}

impl Visit for Collect<'_> {
    fn visit<K: ApiResource>(&mut self) {
        let kind = ApiKind::of::<K>();
        if (self.served)(&kind) {
            self.kinds.push((kind, Box::new(self.informers.of::<K>().store().clone())));
        }
    }

    fn visit_trimmed<K: ApiResource>(&mut self, trim: fn(&mut K)) {
        let kind = ApiKind::of::<K>();
        if (self.served)(&kind) {
            self.informers.of::<K>().store().trim(trim);
            self.visit::<K>();
        }
    }
}

struct Watch<'a> {
    informers: &'a Informers,
    graph: Arc<Graph>,
    controller: Option<Controller<Node>>,
}

impl Visit for Watch<'_> {
    fn visit<K: ApiResource>(&mut self) {
        let Some(position) = self.graph.position(K::GROUP, K::KIND) else { return };
        let graph = self.graph.clone();
        self.controller = self.controller.take().map(|controller| {
            controller.watch(&self.informers.of::<K>(), move |change| graph.affected(position, change))
        });
    }

    fn visit_trimmed<K: ApiResource>(&mut self, _: fn(&mut K)) {
        self.visit::<K>();
    }
}
