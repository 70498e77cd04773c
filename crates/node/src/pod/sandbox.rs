//! What a Pod needs before its containers: network, files of `/etc`, volumes.

use super::context::{Context, hostname, hosts_file, resolv_conf, uses_host_network, write_file};
use super::volumes::{self, Content, Tokens};
use crate::net::pods::PodNetwork;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tokens that a Pod has, and until when they are fresh.
pub(crate) type SandboxTokens = Arc<Mutex<BTreeMap<(String, String), (String, Instant)>>>;

/// Makes everything; on failure nothing is left but files.
pub(crate) async fn set_up(context: &Context, pod: &Pod, tokens: &SandboxTokens) -> Result<Option<PodNetwork>, String> {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    if let Some(services) = &context.services {
        services.ready(context.options.services_wait).await;
    }
    let network = match &context.networks {
        Some(networks) if !uses_host_network(pod) => {
            let (networks, uid) = (networks.clone(), uid.clone());
            let made = tokio::task::spawn_blocking(move || networks.add(&uid)).await;
            let made = made.map_err(|_| "the network task panicked".to_owned())?;
            Some(made.map_err(|error| format!("failed to setup network for sandbox: {error}"))?)
        }
        _ => None,
    };
    let address = network.as_ref().map(|network| network.address);
    let made = async {
        etc(context, pod, &uid, address).map_err(|error| format!("cannot write the Pod's files: {error}"))?;
        volumes(context, pod, address, tokens).await
    };
    match made.await {
        Ok(()) => Ok(network),
        Err(error) => {
            if let (Some(networks), Some(network)) = (context.networks.clone(), network) {
                let _ = tokio::task::spawn_blocking(move || networks.remove(&network)).await;
            }
            Err(error)
        }
    }
}

fn etc(context: &Context, pod: &Pod, uid: &str, address: Option<Ipv4Addr>) -> std::io::Result<()> {
    let dir = context.pod_dir(uid).join("etc");
    let name = hostname(pod, &context.node);
    let ip = address.map_or_else(|| context.host.clone(), |address| address.to_string());
    write_file(&dir.join("hostname"), &format!("{name}\n"))?;
    write_file(&dir.join("hosts"), &hosts_file(pod, &ip, &name, &context.domain))?;
    let node = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    write_file(&dir.join("resolv.conf"), &resolv_conf(pod, &context.dns, &context.domain, &node))
}

/// Makes the volumes, or makes their files anew.
pub(crate) async fn volumes(
    context: &Context,
    pod: &Pod,
    address: Option<Ipv4Addr>,
    tokens: &SandboxTokens,
) -> Result<(), String> {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let references = context
        .references(namespace, volumes::needs(pod))
        .await
        .map_err(|error| runtime::error_chain(&error).to_string())?;
    let fresh = fresh_tokens(context, pod, tokens).await?;
    let facts = context.facts(address);
    let spec = pod.spec.as_ref();
    let group = spec
        .and_then(|spec| spec.security_context.as_ref())
        .and_then(|security| security.fs_group)
        .and_then(|group| u32::try_from(group).ok());
    for volume in spec.and_then(|spec| spec.volumes.as_deref()).unwrap_or_default() {
        let content = volumes::content(pod, volume, &references, &fresh, &facts)
            .map_err(|error| format!("MountVolume.SetUp failed for volume {:?} : {error}", volume.name))?;
        let dir = match &content {
            Content::Host(path) => path.clone(),
            _ => context.volume_dir(uid, &volume.name),
        };
        // An empty directory is made once; what is in it is the Pod's.
        if content == Content::Empty && dir.exists() {
            continue;
        }
        let name = volume.name.clone();
        tokio::task::spawn_blocking(move || volumes::write(&dir, &content, group))
            .await
            .map_err(|_| "a volume task panicked".to_owned())?
            .map_err(|error| format!("MountVolume.SetUp failed for volume {name:?} : {error}"))?;
    }
    Ok(())
}

/// The Pod's tokens, asked for again once four fifths of their time are over.
async fn fresh_tokens(context: &Context, pod: &Pod, tokens: &SandboxTokens) -> Result<Tokens, String> {
    let mut fresh = Tokens::new();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
    for (volume, source) in volumes::tokens(pod) {
        let key = (volume, source.path.clone());
        let kept = tokens.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some((token, until)) = kept
            && Instant::now() < until
        {
            fresh.insert(key, token);
            continue;
        }
        let seconds = source.expiration_seconds.unwrap_or(3600);
        let audiences: Vec<&str> = source.audience.iter().map(String::as_str).filter(|a| !a.is_empty()).collect();
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {
                "audiences": audiences, "expirationSeconds": seconds,
                "boundObjectRef": {
                    "apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid,
                },
            },
        });
        let accounts = context.client.resource::<ServiceAccount>();
        let answer = accounts
            .create_subresource(namespace, account, "token", &request)
            .await
            .map_err(|error| format!("failed to fetch token: {}", runtime::error_chain(&error)))?;
        let token = answer["status"]["token"].as_str().ok_or("failed to fetch token: the answer has none")?.to_owned();
        let lasts = Duration::from_secs(u64::try_from(seconds).unwrap_or(3600) / 5 * 4);
        let entry = (token.clone(), Instant::now() + lasts);
        tokens.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), entry);
        fresh.insert(key, token);
    }
    Ok(fresh)
}

/// Removes network and volumes; logs stay for as long as the object does.
pub(crate) async fn tear_down(context: &Context, uid: &str, network: Option<PodNetwork>) {
    let networks = context.networks.clone();
    let volumes = context.pod_dir(uid).join("volumes");
    let _ = tokio::task::spawn_blocking(move || {
        if let (Some(networks), Some(network)) = (networks, network) {
            networks.remove(&network);
        }
        let _ = std::fs::remove_dir_all(volumes);
    })
    .await;
}
