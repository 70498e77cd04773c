//! `Store`: what is known of one kind in every logical cluster, with indexes.
//!
//! Besides the watch, a controller's own writes go in ([`Store::observe`], [`Store::doom`]), so that
//! its next decision sees them although the watch has not told of them yet.

use crate::{ApiResource, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use runtime::Shrink;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The index of every store by the uids of an object's owners.
pub const OWNER_INDEX: &str = "owner";

/// How one object changed. At least one side is there.
#[derive(Clone, Debug)]
pub struct Change<K> {
    /// Which object.
    pub key: ObjectKey,
    /// What was known before; `None` when it is new.
    pub before: Option<Arc<K>>,
    /// What is known now; `None` when it is gone.
    pub after: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The object as last known.
    ///
    /// # Panics
    /// Never: a change has at least one side.
    #[must_use]
    pub fn object(&self) -> &Arc<K> {
        self.after.as_ref().or(self.before.as_ref()).expect("a change has a side")
    }
}

/// The values under which an index finds an object.
pub type Indexer<K> = fn(&K) -> Vec<String>;

type Handler<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

struct State<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    indexers: Vec<(&'static str, Indexer<K>)>,
    index: HashMap<(&'static str, Arc<str>, String), BTreeSet<ObjectKey>>,
    trim: Option<fn(&mut K)>,
    /// Deletions that were asked for and that the watch has not told of: uid and time.
    doomed: HashMap<ObjectKey, (String, Time)>,
    /// The version up to which the watch has told everything.
    version: u64,
}

/// What is known of one kind. Clones share it.
pub struct Store<K>(Arc<Shared<K>>);

struct Shared<K> {
    state: RwLock<State<K>>,
    /// Held while a change is made and told, so that handlers see changes in their order.
    handlers: Mutex<Vec<Handler<K>>>,
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: ApiResource> Default for Store<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> std::fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl<K: ApiResource> Store<K> {
    /// A store that knows nothing.
    #[must_use]
    pub fn new() -> Self {
        let state = State {
            objects: BTreeMap::new(),
            indexers: vec![(OWNER_INDEX, owners::<K> as Indexer<K>)],
            index: HashMap::new(),
            trim: None,
            doomed: HashMap::new(),
            version: 0,
        };
        Self(Arc::new(Shared { state: RwLock::new(state), handlers: Mutex::default() }))
    }

    fn read(&self) -> RwLockReadGuard<'_, State<K>> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<K>> {
        self.0.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<Handler<K>>> {
        self.0.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an index, unless there is one of that name.
    pub fn add_index(&self, name: &'static str, indexer: Indexer<K>) {
        let mut state = self.write();
        if state.indexers.iter().any(|(known, _)| *known == name) {
            return;
        }
        state.indexers.push((name, indexer));
        let known: Vec<_> = state.objects.iter().map(|(key, object)| (key.clone(), indexer(object))).collect();
        for (key, values) in known {
            for value in values {
                state.index.entry((name, key.cluster.clone(), value)).or_default().insert(key.clone());
            }
        }
    }

    /// Has every object cut down before it is kept, for whoever uses this store. To be set before the
    /// informer is started; objects kept before stay whole.
    pub fn trim(&self, trim: fn(&mut K)) {
        self.write().trim = Some(trim);
    }

    /// Calls `handler` for every object known now, as new, and for every later change. It must be
    /// quick and must not write to this store.
    pub fn on_change(&self, handler: impl Fn(&Change<K>) + Send + Sync + 'static) {
        let mut handlers = self.handlers();
        for (key, object) in self.all() {
            handler(&Change { key, before: None, after: Some(object) });
        }
        handlers.push(Box::new(handler));
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read().objects.get(key).cloned()
    }

    /// Every object of a namespace.
    #[must_use]
    pub fn in_namespace(&self, cluster: &str, namespace: &str) -> Vec<Arc<K>> {
        self.from(ObjectKey::new(cluster, namespace, ""), |key| {
            &*key.cluster == cluster && &*key.namespace == namespace
        })
    }

    /// Every object of a logical cluster.
    #[must_use]
    pub fn in_cluster(&self, cluster: &str) -> Vec<Arc<K>> {
        self.from(ObjectKey::new(cluster, "", ""), |key| &*key.cluster == cluster)
    }

    fn from(&self, first: ObjectKey, within: impl Fn(&ObjectKey) -> bool) -> Vec<Arc<K>> {
        let state = self.read();
        state.objects.range(first..).take_while(|(key, _)| within(key)).map(|(_, object)| object.clone()).collect()
    }

    /// Every object of every cluster.
    #[must_use]
    pub fn all(&self) -> Vec<(ObjectKey, Arc<K>)> {
        self.read().objects.iter().map(|(key, object)| (key.clone(), object.clone())).collect()
    }

    /// At most `limit` objects after `key`, in the order of keys.
    #[must_use]
    pub fn after(&self, key: Option<&ObjectKey>, limit: usize) -> Vec<(ObjectKey, Arc<K>)> {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        let state = self.read();
        state
            .objects
            .range::<ObjectKey, _>((from, Bound::Unbounded))
            .take(limit)
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect()
    }

    /// The objects of a cluster that an index finds under `value`; none for an unknown index.
    #[must_use]
    pub fn indexed(&self, index: &'static str, cluster: &Arc<str>, value: &str) -> Vec<(ObjectKey, Arc<K>)> {
        let state = self.read();
        let Some(keys) = state.index.get(&(index, cluster.clone(), value.to_owned())) else { return Vec::new() };
        keys.iter().filter_map(|key| Some((key.clone(), state.objects.get(key)?.clone()))).collect()
    }

    /// The objects of a cluster that name an owner with that uid.
    #[must_use]
    pub fn owned_by(&self, cluster: &Arc<str>, uid: &str) -> Vec<(ObjectKey, Arc<K>)> {
        self.indexed(OWNER_INDEX, cluster, uid)
    }

    /// How many objects are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// How many objects are known, and the room of what is kept beside them, taken or not.
    #[cfg(test)]
    pub(super) fn room(&self) -> (usize, usize) {
        let state = self.read();
        (state.objects.len(), state.index.capacity() + state.doomed.capacity())
    }

    /// Whether no object is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes note of an object as the API server answered a write. Ignored when the watch has
    /// already told of that version.
    pub fn observe(&self, cluster: &Arc<str>, object: &K) {
        let handlers = self.handlers();
        let seen = self.read().version;
        if version_of(object).is_some_and(|version| version > seen) {
            self.put(&handlers, cluster, object.clone());
        }
    }

    /// Takes note that the deletion of an object was accepted: until the watch tells of it, the
    /// object counts as being deleted.
    pub fn doom(&self, key: &ObjectKey, uid: &str) {
        let handlers = self.handlers();
        let Some(object) = self.get(key) else { return };
        let metadata = object.metadata();
        if metadata.uid.as_deref() != Some(uid) || metadata.deletion_timestamp.is_some() {
            return;
        }
        let now = Time(jiff::Timestamp::now());
        self.write().doomed.insert(key.clone(), (uid.to_owned(), now));
        let object = K::clone(&object);
        self.put(&handlers, &key.cluster, object);
    }

    /// What a watch told: an object is there.
    pub fn apply(&self, cluster: &Arc<str>, object: K) {
        let handlers = self.handlers();
        self.advance(version_of(&object));
        let known = self.get(&ObjectKey::of(cluster.clone(), object.metadata()));
        if let (Some(known), Some(version)) = (known.as_deref().and_then(version_of), version_of(&object))
            && known >= version
        {
            return;
        }
        self.put(&handlers, cluster, object);
    }

    /// What a watch told: an object is gone. A successor of the same name stays.
    pub fn remove(&self, cluster: &Arc<str>, object: &K) {
        let handlers = self.handlers();
        self.advance(version_of(object));
        let key = ObjectKey::of(cluster.clone(), object.metadata());
        if self.get(&key).is_some_and(|known| known.metadata().uid == object.metadata().uid) {
            self.take(&handlers, &key);
        }
    }

    /// What a list told: these are all objects at `version`.
    pub fn replace(&self, version: &str, objects: Vec<(Arc<str>, K)>) {
        let handlers = self.handlers();
        let version: u64 = version.parse().unwrap_or(0);
        self.write().version = version;
        let listed: BTreeSet<ObjectKey> =
            objects.iter().map(|(cluster, object)| ObjectKey::of(cluster.clone(), object.metadata())).collect();
        for (key, object) in self.all() {
            // A newer object is one of our own writes after the list.
            if !listed.contains(&key) && version_of(&*object).is_none_or(|own| own <= version) {
                self.take(&handlers, &key);
            }
        }
        for (cluster, object) in objects {
            let known = self.get(&ObjectKey::of(cluster.clone(), object.metadata()));
            if known.is_none_or(|known| {
                version_of(&*known).is_none_or(|own| Some(own) != version_of(&object) && own <= version)
            }) {
                self.put(&handlers, &cluster, object);
            }
        }
    }

    /// What a bookmark told: everything up to that version was sent.
    pub fn advance_to(&self, version: &str) {
        self.advance(version.parse().ok());
    }

    fn advance(&self, version: Option<u64>) {
        let mut state = self.write();
        state.version = state.version.max(version.unwrap_or(0));
    }

    fn put(&self, handlers: &[Handler<K>], cluster: &Arc<str>, mut object: K) {
        object.metadata_mut().managed_fields = None;
        let key = ObjectKey::of(cluster.clone(), object.metadata());
        let change = {
            let mut state = self.write();
            if let Some(trim) = state.trim {
                trim(&mut object);
            }
            if let Some((uid, since)) = state.doomed.get(&key) {
                let metadata = object.metadata();
                if metadata.deletion_timestamp.is_none() && metadata.uid.as_ref() == Some(uid) {
                    object.metadata_mut().deletion_timestamp = Some(since.clone());
                } else {
                    state.doomed.remove(&key);
                }
            }
            let object = Arc::new(object);
            let before = state.objects.insert(key.clone(), object.clone());
            if let Some(before) = &before {
                state.unindex(&key, before);
            }
            for position in 0..state.indexers.len() {
                let (name, indexer) = state.indexers[position];
                for value in indexer(&object) {
                    state.index.entry((name, key.cluster.clone(), value)).or_default().insert(key.clone());
                }
            }
            Change { key, before, after: Some(object) }
        };
        for handler in handlers {
            handler(&change);
        }
    }

    fn take(&self, handlers: &[Handler<K>], key: &ObjectKey) {
        let before = {
            let mut state = self.write();
            state.doomed.remove(key);
            state.doomed.shrink_if_sparse();
            let Some(before) = state.objects.remove(key) else { return };
            state.unindex(key, &before);
            before
        };
        let change = Change { key: key.clone(), before: Some(before), after: None };
        for handler in handlers {
            handler(&change);
        }
    }
}

impl<K> State<K> {
    fn unindex(&mut self, key: &ObjectKey, object: &K) {
        for (name, indexer) in &self.indexers {
            for value in indexer(object) {
                let at = (*name, key.cluster.clone(), value);
                if let Some(keys) = self.index.get_mut(&at) {
                    keys.remove(key);
                    if keys.is_empty() {
                        self.index.remove(&at);
                    }
                }
            }
        }
        self.index.shrink_if_sparse();
    }
}

fn owners<K: ApiResource>(object: &K) -> Vec<String> {
    object.metadata().owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect()
}

fn version_of<K: ApiResource>(object: &K) -> Option<u64> {
    object.metadata().resource_version.as_deref()?.parse().ok()
}
