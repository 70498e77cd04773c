//! What all Pods of a node share.

use super::engine::Engine;
use super::env::{Facts, References};
use super::views::Views;
use crate::events::Recorder;
use crate::net::pods::PodNetworks;
use crate::net::services::ServicesHandle;
use controller_runtime::{Client, ClientError};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Limits and times of Pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodOptions {
    /// Reports of a Pod's tasks that wait for its worker.
    pub(crate) reports: usize,
    /// Longest wait for the first Service rules before a Pod starts without.
    pub(crate) services_wait: Duration,
    /// How often files of volumes are made anew.
    pub(crate) refresh: Duration,
    /// Delay before a write to the API server is tried again.
    pub(crate) retry: Duration,
    /// A container that ran as long is no crash.
    pub(crate) stable_after: Duration,
    /// Longest termination message, bytes.
    pub(crate) max_message: u64,
}

impl Default for PodOptions {
    fn default() -> Self {
        Self {
            reports: 64,
            services_wait: Duration::from_secs(10),
            refresh: Duration::from_secs(90),
            retry: Duration::from_secs(1),
            stable_after: Duration::from_secs(600),
            max_message: 4096,
        }
    }
}

/// What all Pods of a node share.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) engine: Arc<dyn Engine>,
    /// `None` gives no Pod a network of its own.
    pub(crate) networks: Option<Arc<PodNetworks>>,
    pub(crate) services: Option<ServicesHandle>,
    pub(crate) recorder: Recorder,
    pub(crate) views: Views,
    pub(crate) options: PodOptions,
    pub(crate) node: String,
    pub(crate) host: String,
    pub(crate) domain: String,
    pub(crate) dns: String,
    pub(crate) cpus: i64,
    pub(crate) memory: i64,
    /// Pods' volumes and files.
    pub(crate) root: PathBuf,
    pub(crate) log_root: PathBuf,
}

impl Context {
    /// The directory of a Pod.
    pub(crate) fn pod_dir(&self, uid: &str) -> PathBuf {
        self.root.join(uid)
    }

    /// The directory of a Pod's volume.
    pub(crate) fn volume_dir(&self, uid: &str, volume: &str) -> PathBuf {
        self.pod_dir(uid).join("volumes").join(volume)
    }

    /// What a Pod's fields say.
    pub(crate) fn facts(&self, address: Option<std::net::Ipv4Addr>) -> Facts {
        Facts {
            host: self.host.clone(),
            address: address.map_or_else(|| self.host.clone(), |address| address.to_string()),
            node: self.node.clone(),
            node_cpus: self.cpus,
            node_memory: self.memory,
        }
    }

    /// Reads the objects of these names; one that does not exist is noted as such.
    pub(crate) async fn references(
        &self,
        namespace: &str,
        names: impl IntoIterator<Item = (bool, String)>,
    ) -> Result<References, ClientError> {
        let mut references = References::default();
        let names: std::collections::BTreeSet<_> = names.into_iter().collect();
        for (secret, name) in names {
            if secret {
                let found = self.client.get::<Secret>(namespace, &name).await?;
                references.secrets.insert(name, found);
            } else {
                let found = self.client.get::<ConfigMap>(namespace, &name).await?;
                references.config_maps.insert(name, found);
            }
        }
        Ok(references)
    }
}

/// Whether a Pod uses the node's own network.
pub(crate) fn uses_host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true)
}

/// A Pod's host name.
pub(crate) fn hostname(pod: &Pod, node: &str) -> String {
    let spec = pod.spec.as_ref();
    if uses_host_network(pod) {
        return node.to_owned();
    }
    let name = spec.and_then(|spec| spec.hostname.as_deref()).filter(|name| !name.is_empty());
    let name = name.or(pod.metadata.name.as_deref()).unwrap_or_default();
    name.chars().take(63).collect::<String>().trim_end_matches(['-', '.']).to_owned()
}

/// `/etc/hosts` of a Pod.
pub(crate) fn hosts_file(pod: &Pod, address: &str, hostname: &str, domain: &str) -> String {
    use std::fmt::Write;
    let spec = pod.spec.as_ref();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut text = String::from(
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n",
    );
    let subdomain = spec.and_then(|spec| spec.subdomain.as_deref()).filter(|name| !name.is_empty());
    let _ = match subdomain {
        Some(sub) => writeln!(text, "{address}\t{hostname}.{sub}.{namespace}.svc.{domain}\t{hostname}"),
        None => writeln!(text, "{address}\t{hostname}"),
    };
    for alias in spec.and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default() {
        let _ = writeln!(text, "{}\t{}", alias.ip, alias.hostnames.as_deref().unwrap_or_default().join("\t"));
    }
    text
}

/// `/etc/resolv.conf` of a Pod; `node` is the node's own.
pub(crate) fn resolv_conf(pod: &Pod, dns: &str, domain: &str, node: &str) -> String {
    let spec = pod.spec.as_ref();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let policy = spec.and_then(|spec| spec.dns_policy.as_deref()).unwrap_or("ClusterFirst");
    let mut servers = Vec::new();
    let mut search = Vec::new();
    let mut options = Vec::new();
    match policy {
        "None" => {}
        "Default" => return with_config(pod, node),
        "ClusterFirst" if uses_host_network(pod) => return with_config(pod, node),
        _ => {
            servers.push(dns.to_owned());
            search = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
            options.push("ndots:5".to_owned());
        }
    }
    let mut text = String::new();
    for server in servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    if !search.is_empty() {
        text.push_str(&format!("search {}\n", search.join(" ")));
    }
    if !options.is_empty() {
        text.push_str(&format!("options {}\n", options.join(" ")));
    }
    with_config(pod, &text)
}

/// The text with what the Pod's own DNS configuration adds.
fn with_config(pod: &Pod, text: &str) -> String {
    let Some(config) = pod.spec.as_ref().and_then(|spec| spec.dns_config.as_ref()) else { return text.to_owned() };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for server in config.nameservers.iter().flatten() {
        let line = format!("nameserver {server}");
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let mut extend = |key: &str, words: Vec<String>| {
        if words.is_empty() {
            return;
        }
        match lines.iter_mut().find(|line| line.starts_with(key)) {
            Some(line) => {
                for word in words {
                    line.push(' ');
                    line.push_str(&word);
                }
            }
            None => lines.push(format!("{key} {}", words.join(" "))),
        }
    };
    extend("search", config.searches.clone().unwrap_or_default());
    let options = config.options.iter().flatten().filter_map(|option| {
        let name = option.name.clone()?;
        Some(option.value.as_ref().map_or_else(|| name.clone(), |value| format!("{name}:{value}")))
    });
    extend("options", options.collect());
    lines.join("\n") + "\n"
}

/// Writes a small file for a Pod. Blocking.
pub(crate) fn write_file(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, text)
}
