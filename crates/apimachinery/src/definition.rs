//! `ResourceDefinition`: everything the generic path needs to know of a kind.
//!
//! Built-in kinds, custom resources and exported schemas are all described by this one type; there
//! is no handler per resource.

use crate::schema::Schema;
use std::sync::Arc;

/// Group, version and kind of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// API group; empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind, CamelCase.
    pub kind: String,
}

impl GroupVersionKind {
    /// `group/version`, or `version` for the core group, as in `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// API group and plural resource name; identifies a kind's storage.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// API group; empty for core.
    pub group: String,
    /// Plural, lower case.
    pub resource: String,
}

impl std::fmt::Display for GroupResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() { f.write_str(&self.resource) } else { write!(f, "{}.{}", self.resource, self.group) }
    }
}

/// Whether objects live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the cluster.
    Cluster,
    /// In a namespace.
    Namespaced,
}

/// Which logical clusters serve a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Every logical cluster.
    Every,
    /// Home workspaces, which hold the product's own kinds, and not the clusters inside them.
    Workspaces,
}

/// The names of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Plural, lower case: the path segment.
    pub plural: String,
    /// Singular, lower case.
    pub singular: String,
    /// CamelCase.
    pub kind: String,
    /// Short names such as `po`.
    pub short_names: Vec<String>,
    /// Categories such as `all`.
    pub categories: Vec<String>,
}

/// A column of a `Table`.
#[derive(Clone, Debug)]
pub struct PrinterColumn {
    /// Heading.
    pub name: String,
    /// OpenAPI type: `string`, `integer`, `date` ...
    pub type_: String,
    /// OpenAPI format: `name` marks the identifying column.
    pub format: String,
    /// Shown by `kubectl explain`-like clients.
    pub description: String,
    /// Zero is always shown; higher only in wide output.
    pub priority: i32,
    /// How the cell is computed.
    pub cell: Cell,
}

/// How a printer column's cell is computed.
#[derive(Clone)]
pub enum Cell {
    /// A simple JSON path (`.spec.replicas`), as in a CustomResourceDefinition.
    Path(String),
    /// A function of the object and of now.
    Function(fn(&serde_json::Value, jiff::Timestamp) -> serde_json::Value),
}

impl std::fmt::Debug for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => write!(f, "Path({path})"),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}

/// The subresources of a kind that the generic path serves or delegates.
#[derive(Clone, Debug, Default)]
pub struct Subresources {
    /// `status`: its own writer, ignored by writes to the main resource.
    pub status: bool,
    /// `scale`, with the JSON paths it maps to.
    pub scale: Option<Scale>,
    /// Others by name, with the kind they speak and their verbs: `log`, `exec`, `binding`,
    /// `eviction`, `token`, `kubeconfig` ...
    pub connect: Vec<ConnectSubresource>,
}

/// JSON paths of a `scale` subresource.
#[derive(Clone, Debug)]
pub struct Scale {
    /// `.spec.replicas`
    pub spec_replicas: String,
    /// `.status.replicas`
    pub status_replicas: String,
    /// A label selector, as an object or a string, at `.spec.selector` for built-in kinds.
    pub selector: Option<String>,
}

/// A subresource with a behaviour of its own.
#[derive(Clone, Debug)]
pub struct ConnectSubresource {
    /// Path segment.
    pub name: String,
    /// What discovery says it speaks.
    pub kind: GroupVersionKind,
    /// Discovery verbs: `get`, `create` ...
    pub verbs: Vec<String>,
}

/// Everything the generic path needs to know of one version of a kind.
#[derive(Clone, Debug)]
pub struct ResourceDefinition {
    /// Group, version and kind.
    pub gvk: GroupVersionKind,
    /// Names.
    pub names: Names,
    /// Scope.
    pub scope: Scope,
    /// Verbs of discovery, sorted: `create delete deletecollection get list patch update watch`.
    pub verbs: Vec<String>,
    /// Structural schema with list types, map keys, patch strategies and descriptions.
    pub schema: Arc<Schema>,
    /// Table columns besides what clients add.
    pub columns: Vec<PrinterColumn>,
    /// Subresources.
    pub subresources: Subresources,
    /// Which logical clusters serve it.
    pub audience: Audience,
    /// Field selector paths besides `metadata.name` and `metadata.namespace`, such as
    /// `spec.nodeName`.
    pub selectable_fields: Vec<String>,
    /// Pure rules of the kind.
    pub rules: Rules,
}

/// Returns every violation of a kind's rules by `new`; on update, `old` is the object before.
pub type Validate = fn(new: &serde_json::Value, old: Option<&serde_json::Value>) -> Vec<crate::status::FieldError>;

/// Pure rules of a kind, run by the generic path in this order on every write, after the schema's
/// defaults: default, prepare, validate. On create, the object has its final name and uid.
#[derive(Clone, Copy, Default)]
pub struct Rules {
    /// Sets what a user left out, beyond the schema's own defaults.
    pub default: Option<fn(&mut serde_json::Value)>,
    /// On create: clears or sets what a user may not choose (status, generation-independent
    /// fields). On update: carries over what may not change silently.
    pub prepare: Option<fn(new: &mut serde_json::Value, old: Option<&serde_json::Value>)>,
    /// Returns every violation.
    pub validate: Option<Validate>,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").finish_non_exhaustive()
    }
}

impl ResourceDefinition {
    /// Group and plural.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.gvk.group.clone(), resource: self.names.plural.clone() }
    }

    /// Whether the kind is one of Kubernetes' own: unknown types are then decoding errors, nulls
    /// are absent, and strategic merge patches are accepted.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        self.schema.component.as_deref().is_some_and(|component| component.starts_with("io.k8s."))
    }
}
