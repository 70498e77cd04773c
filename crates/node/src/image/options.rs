//! Bounds of the image store and where images come from.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How images are fetched and how much is accepted.
#[derive(Debug, Clone)]
pub struct ImageOptions {
    /// Registries (`host` or `host:port`) that are spoken to in plain HTTP.
    pub insecure_registries: Vec<String>,
    /// For a registry, the registries (`host` or `host:port`) that are asked first, in order.
    pub mirrors: BTreeMap<String, Vec<String>>,
    /// Registry of a reference that names none.
    pub default_registry: String,
    /// PEM file with the certificate authorities that registries are trusted by, besides `authorities`.
    pub ca_file: Option<PathBuf>,
    /// PEM text with certificate authorities that registries are trusted by.
    pub authorities: Option<String>,
    /// Name servers for registries' names; empty uses the system's resolver.
    pub name_servers: Vec<SocketAddr>,
    /// Size of a manifest, index, configuration or token response.
    pub max_document_bytes: u64,
    /// Size of a layer as it is transferred.
    pub max_layer_bytes: u64,
    /// Size of all files of a layer.
    pub max_unpacked_bytes: u64,
    /// Number of entries of a layer.
    pub max_layer_entries: u64,
    /// Number of layers of an image; the kernel's overlay takes few more.
    pub max_layers: usize,
    /// Number of images in the store and in one archive.
    pub max_images: usize,
    /// Number of entries of an imported archive.
    pub max_archive_entries: usize,
    /// How often a failed layer transfer is begun again.
    pub retries: u32,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a registry may be silent.
    pub read_timeout: Duration,
}

impl Default for ImageOptions {
    fn default() -> Self {
        Self {
            insecure_registries: Vec::new(),
            mirrors: BTreeMap::new(),
            default_registry: DEFAULT_REGISTRY.to_owned(),
            ca_file: None,
            authorities: None,
            name_servers: Vec::new(),
            max_document_bytes: 4 << 20,
            max_layer_bytes: 8 << 30,
            max_unpacked_bytes: 16 << 30,
            max_layer_entries: 1_000_000,
            max_layers: 127,
            max_images: 256,
            max_archive_entries: 4096,
            retries: 2,
            connect_timeout: Duration::from_secs(15),
            read_timeout: Duration::from_secs(60),
        }
    }
}

/// The registry that a reference without one means, by the convention of every container tool.
pub const DEFAULT_REGISTRY: &str = "docker.io";
