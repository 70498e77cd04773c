//! The documents of an image, as far as they are used; unknown fields are ignored.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};

use super::digest::Digest;

/// An image whose layers are unpacked and that can be run.
#[derive(Debug, Clone)]
pub struct PreparedImage {
    /// `sha256:...` of the configuration, the image's id.
    pub id: String,
    /// `name@sha256:...` of the manifest, when it came from a registry or an OCI layout.
    pub repo_digest: Option<String>,
    /// Defaults for containers.
    pub config: ImageConfig,
    /// Unpacked layers, the lowest first.
    pub layers: Vec<PathBuf>,
    /// Bytes of all layers' files.
    pub size: u64,
}

/// An image in the store, for `status.images` of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSummary {
    /// `sha256:...` of the configuration.
    pub id: String,
    /// Every name, with tag or digest.
    pub names: Vec<String>,
    /// Bytes of all layers' files.
    pub size: u64,
}

/// User and password for a registry, or a token.
#[derive(Clone, PartialEq, Eq)]
pub enum RegistryAuth {
    /// `auth` of a `.dockerconfigjson`.
    Basic {
        /// User name.
        username: String,
        /// Password.
        password: String,
    },
    /// `registrytoken` of a `.dockerconfigjson`.
    Bearer(String),
}

impl std::fmt::Debug for RegistryAuth {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Basic { .. } => "Basic(..)",
            Self::Bearer(_) => "Bearer(..)",
        })
    }
}

/// When to ask the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullPolicy {
    /// Each time.
    Always,
    /// When the store has no such image.
    IfNotPresent,
    /// Never.
    Never,
}

/// Defaults that an image gives to containers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageConfig {
    /// Program, and first arguments.
    #[serde(deserialize_with = "nullable")]
    pub entrypoint: Vec<String>,
    /// Arguments, or program and arguments when there is no entrypoint.
    #[serde(deserialize_with = "nullable")]
    pub cmd: Vec<String>,
    /// `NAME=value`.
    #[serde(deserialize_with = "nullable")]
    pub env: Vec<String>,
    /// Working directory; empty is `/`.
    #[serde(deserialize_with = "nullable")]
    pub working_dir: String,
    /// `user`, `uid`, `user:group`, `uid:gid`; empty is root.
    #[serde(deserialize_with = "nullable")]
    pub user: String,
    /// Signal that asks for an end; empty is SIGTERM.
    #[serde(deserialize_with = "nullable")]
    pub stop_signal: String,
    /// Labels.
    #[serde(deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
}

fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Document {
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) os: String,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) config: ImageConfig,
    pub(super) rootfs: RootFs,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RootFs {
    #[serde(default)]
    pub(super) diff_ids: Vec<Digest>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: Digest,
    #[serde(default)]
    pub(super) size: u64,
    #[serde(default)]
    pub(super) platform: Option<Platform>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Platform {
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) os: String,
}

/// An index or a manifest; which one it is shows in the fields that it has.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ManifestOrIndex {
    #[serde(default)]
    pub(super) manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    pub(super) config: Option<Descriptor>,
    #[serde(default)]
    pub(super) layers: Option<Vec<Descriptor>>,
}

/// One image of `manifest.json` in a `docker save` archive.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SavedImage {
    pub(super) config: String,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) repo_tags: Vec<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) layers: Vec<String>,
}

/// The descriptor of an index that this machine can run.
pub(super) fn select(manifests: &[Descriptor]) -> Option<&Descriptor> {
    let runs = |platform: &Platform| platform.os == "linux" && platform.architecture == ARCHITECTURE;
    manifests
        .iter()
        .find(|manifest| manifest.platform.as_ref().is_some_and(runs))
        .or_else(|| manifests.iter().find(|manifest| manifest.platform.is_none()))
}

/// The name of this machine's architecture in image documents.
pub(super) const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
