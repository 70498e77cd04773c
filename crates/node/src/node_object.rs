//! The Node object and its Lease: what this machine is, and that it is alive.

use controller_runtime::{ApiKind, Client, ClientError, Patch};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use node_api::BootConfig;
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// The Kubernetes version whose behaviour the agent follows.
pub(crate) const KUBERNETES_VERSION: &str = "v1.36.0";

/// What the machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) cpus: usize,
    pub(crate) memory_kib: u64,
    pub(crate) storage_bytes: u64,
    pub(crate) kernel: String,
    pub(crate) boot_id: String,
    pub(crate) machine_id: String,
    pub(crate) address: String,
}

impl Machine {
    /// Looks at the machine.
    pub(crate) fn observe(address: String, storage: &str) -> Self {
        let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
        Self {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_kib: memory_kib(&read("/proc/meminfo")),
            storage_bytes: rustix::fs::statvfs(storage).map_or(0, |stat| stat.f_frsize.saturating_mul(stat.f_blocks)),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            machine_id: read("/sys/class/dmi/id/product_uuid").replace('-', ""),
            address,
        }
    }
}

fn memory_kib(meminfo: &str) -> u64 {
    meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok())
        .unwrap_or(0)
}

/// Limits and times of the Node object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeOptions {
    /// Pods at most.
    pub(crate) max_pods: u32,
    /// Memory that Pods do not get: the agent's own, KiB.
    pub(crate) reserved_memory_kib: u64,
    /// How often the Lease is renewed.
    pub(crate) lease_every: Duration,
    /// How long a Lease holds.
    pub(crate) lease_duration: Duration,
    /// How often the status is written though nothing changed.
    pub(crate) status_every: Duration,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            max_pods: 110,
            reserved_memory_kib: 48 * 1024,
            lease_every: Duration::from_secs(10),
            lease_duration: Duration::from_secs(40),
            status_every: Duration::from_secs(300),
        }
    }
}

/// The Node as it is created.
pub(crate) fn node(config: &BootConfig, machine: &Machine, options: &NodeOptions, now: &str) -> Value {
    let mut labels = json!({
        "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": config.node_name,
    });
    for (key, value) in &config.labels {
        labels[key] = value.clone().into();
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": config.node_name, "labels": labels},
        "spec": {"podCIDR": config.pod_cidr, "podCIDRs": [config.pod_cidr]},
        "status": status(config, machine, options, now),
    })
}

/// The Node's status.
pub(crate) fn status(config: &BootConfig, machine: &Machine, options: &NodeOptions, now: &str) -> Value {
    let resources = |memory: u64| {
        json!({
            "cpu": machine.cpus.to_string(), "memory": format!("{memory}Ki"),
            "ephemeral-storage": format!("{}Ki", machine.storage_bytes / 1024), "pods": options.max_pods.to_string(),
        })
    };
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    json!({
        "capacity": resources(machine.memory_kib),
        "allocatable": resources(machine.memory_kib.saturating_sub(options.reserved_memory_kib)),
        "addresses": [
            {"type": "InternalIP", "address": machine.address},
            {"type": "Hostname", "address": config.node_name},
        ],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "bootID": machine.boot_id,
            "machineID": machine.machine_id, "systemUUID": machine.machine_id, "kernelVersion": machine.kernel,
            "osImage": "socialweb-computer node",
            "containerRuntimeVersion": concat!("socialweb-node://", env!("CARGO_PKG_VERSION")),
            "kubeletVersion": KUBERNETES_VERSION, "kubeProxyVersion": KUBERNETES_VERSION,
        },
    })
}

/// Carries the transition times of conditions over that did not change.
pub(crate) fn keep_transitions(new: &mut Value, old: &Value) {
    let Some(conditions) = new["conditions"].as_array_mut() else { return };
    for condition in conditions {
        let same = old["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|other| other["type"] == condition["type"] && other["status"] == condition["status"]);
        if let Some(time) = same.map(|other| &other["lastTransitionTime"]).filter(|time| time.is_string()) {
            condition["lastTransitionTime"] = time.clone();
        }
    }
}

/// Now, as objects write it.
pub(crate) fn now() -> String {
    let now = jiff::Timestamp::now();
    jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// Creates or corrects the Node and returns its uid.
pub(crate) async fn register(
    client: &Client,
    config: &BootConfig,
    machine: &Machine,
    options: &NodeOptions,
) -> Result<String, ClientError> {
    let nodes = client.dynamic(ApiKind::of::<Node>());
    let wanted = node(config, machine, options, &now());
    let stored = match nodes.create("", &wanted).await {
        Err(error) if error.is_already_exists() => {
            let change = json!({"metadata": {"labels": wanted["metadata"]["labels"]}, "spec": wanted["spec"]});
            nodes.patch("", &config.node_name, &Patch::Strategic(change)).await?
        }
        other => other?,
    };
    if stored["status"]["nodeInfo"]["bootID"] != wanted["status"]["nodeInfo"]["bootID"] {
        write_status(client, config, machine, options).await?;
    }
    Ok(stored["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
}

/// Writes the whole status.
pub(crate) async fn write_status(
    client: &Client,
    config: &BootConfig,
    machine: &Machine,
    options: &NodeOptions,
) -> Result<(), ClientError> {
    let nodes = client.dynamic(ApiKind::of::<Node>());
    let mut status = status(config, machine, options, &now());
    if let Some(old) = nodes.get("", &config.node_name).await? {
        keep_transitions(&mut status, &old["status"]);
    }
    let patch = Patch::Strategic(json!({"status": status}));
    nodes.patch_subresource("", &config.node_name, "status", &patch).await.map(drop)
}

/// The node's Lease, renewed now.
pub(crate) fn lease(config: &BootConfig, uid: &str, options: &NodeOptions, now: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": config.node_name, "namespace": "kube-node-lease",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": config.node_name, "uid": uid}],
        },
        "spec": {
            "holderIdentity": config.node_name, "leaseDurationSeconds": options.lease_duration.as_secs(),
            "renewTime": now,
        },
    })
}

/// Renews the Lease, making it if there is none.
async fn renew(client: &Client, config: &BootConfig, uid: &str, options: &NodeOptions) -> Result<(), ClientError> {
    const NAMESPACE: &str = "kube-node-lease";
    let leases = client.dynamic(ApiKind::of::<Lease>());
    let now = jiff::Timestamp::now();
    let lease = lease(config, uid, options, &format!("{now:.6}"));
    let patch = Patch::Merge(json!({"spec": lease["spec"]}));
    match leases.patch(NAMESPACE, &config.node_name, &patch).await {
        Err(error) if error.is_not_found() => leases.create(NAMESPACE, &lease).await.map(drop),
        other => other.map(drop),
    }
}

/// Keeps the Lease renewed and the status fresh, for ever.
pub(crate) async fn keep_alive(
    client: Client,
    config: BootConfig,
    machine: Machine,
    uid: String,
    options: NodeOptions,
) {
    let mut tick = tokio::time::interval(options.lease_every);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut written = tokio::time::Instant::now();
    loop {
        tick.tick().await;
        if let Err(error) = renew(&client, &config, &uid, &options).await {
            tracing::warn!(error = runtime::error_chain(&error), "cannot renew the lease");
        }
        if written.elapsed() >= options.status_every {
            match write_status(&client, &config, &machine, &options).await {
                Ok(()) => written = tokio::time::Instant::now(),
                Err(error) => tracing::warn!(error = runtime::error_chain(&error), "cannot write the node's status"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{keep_transitions, memory_kib};
    use serde_json::json;

    #[test]
    fn memory_is_read_in_kib() {
        assert_eq!(memory_kib("MemFree: 1 kB\nMemTotal:         239480 kB\n"), 239_480);
        assert_eq!(memory_kib(""), 0);
    }

    #[test]
    fn unchanged_conditions_keep_their_time() {
        let mut new = json!({"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2"},
            {"type": "DiskPressure", "status": "False", "lastTransitionTime": "2"},
        ]});
        let old = json!({"conditions": [
            {"type": "Ready", "status": "Unknown", "lastTransitionTime": "1"},
            {"type": "DiskPressure", "status": "False", "lastTransitionTime": "1"},
        ]});
        keep_transitions(&mut new, &old);
        assert_eq!(new["conditions"][0]["lastTransitionTime"], "2");
        assert_eq!(new["conditions"][1]["lastTransitionTime"], "1");
    }
}
