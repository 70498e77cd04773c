//! Which containers there are, for whoever streams to or from them.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// A container as others see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerView {
    /// The running container.
    pub(crate) id: Option<String>,
    /// How often it was started before.
    pub(crate) attempt: u32,
    /// Whether it was ever begun.
    pub(crate) begun: bool,
    /// Whether it has a terminal.
    pub(crate) tty: bool,
    /// Whether it reads standard input.
    pub(crate) stdin: bool,
}

/// A Pod as others see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodView {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The file of its network namespace; `None` is the node's own.
    pub(crate) namespace_file: Option<PathBuf>,
    pub(crate) containers: BTreeMap<String, ContainerView>,
}

/// The Pods of a node by uid. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Views(Arc<RwLock<HashMap<String, PodView>>>);

impl Views {
    /// A Pod, if it is of that name.
    pub(crate) fn get(&self, namespace: &str, name: &str, uid: &str) -> Option<PodView> {
        let views = self.0.read().unwrap_or_else(PoisonError::into_inner);
        views.get(uid).filter(|view| view.namespace == namespace && view.name == name).cloned()
    }

    /// Puts or replaces a Pod.
    pub(crate) fn set(&self, uid: &str, view: PodView) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), view);
    }

    /// Forgets a Pod.
    pub(crate) fn remove(&self, uid: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}
