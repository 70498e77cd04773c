//! `ApiKind` and `ApiResource`: which path serves a kind, known at compile time or at run time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, Metadata, NamespaceResourceScope};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// Group, version, kind, plural and scope of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKind {
    /// API group; empty for core.
    pub group: Cow<'static, str>,
    /// Version.
    pub version: Cow<'static, str>,
    /// Kind, CamelCase.
    pub kind: Cow<'static, str>,
    /// Plural, lower case.
    pub plural: Cow<'static, str>,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
}

impl ApiKind {
    /// The kind of a type.
    #[must_use]
    pub fn of<K: ApiResource>() -> Self {
        Self {
            group: K::GROUP.into(),
            version: K::VERSION.into(),
            kind: K::KIND.into(),
            plural: K::URL_PATH_SEGMENT.into(),
            namespaced: <K::Scope as ScopeOf>::NAMESPACED,
        }
    }

    /// `group/version`, or `version` for the core group, as in `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of the kind below a logical cluster, such as `/apis/apps/v1/namespaces/x/deployments`.
    /// An empty namespace is all of them.
    #[must_use]
    pub fn path(&self, namespace: &str) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if self.namespaced && !namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(&encode(namespace));
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }

    /// `pods`, `deployments.apps`: how messages name the kind.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_string() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// Whether a scope marker means "in a namespace".
pub trait ScopeOf {
    /// True for namespaced kinds.
    const NAMESPACED: bool;
}

impl ScopeOf for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

impl ScopeOf for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

/// A type whose kind is known at compile time. Implemented for everything that implements
/// `k8s_openapi::Resource` with object metadata.
pub trait ApiResource:
    k8s_openapi::Resource<Scope: ScopeOf>
    + Metadata<Ty = ObjectMeta>
    + Serialize
    + DeserializeOwned
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<K> ApiResource for K where
    K: k8s_openapi::Resource<Scope: ScopeOf>
        + Metadata<Ty = ObjectMeta>
        + Serialize
        + DeserializeOwned
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Percent-encodes everything that a path segment or a query value cannot hold as it is (RFC 3986).
#[must_use]
pub(crate) fn encode(text: &str) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            use std::fmt::Write;
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    Cow::Owned(encoded)
}
