//! The OCI runtime configuration of a container: a pure function of what was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::spec::{ContainerSpec, Resources, Security};
use super::{Error, RuntimeOptions};

/// The capabilities that containers have by default, without `CAP_`. Other runtimes also give
/// `MKNOD` and guard devices by cgroup; here there is no such guard, so it is left out.
const DEFAULT_CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

const ALL_CAPABILITIES: &[&str] = &[
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "AUDIT_WRITE",
    "BLOCK_SUSPEND",
    "BPF",
    "CHECKPOINT_RESTORE",
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "IPC_LOCK",
    "IPC_OWNER",
    "KILL",
    "LEASE",
    "LINUX_IMMUTABLE",
    "MAC_ADMIN",
    "MAC_OVERRIDE",
    "MKNOD",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_RAW",
    "PERFMON",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYSLOG",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_CHROOT",
    "SYS_MODULE",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_PTRACE",
    "SYS_RAWIO",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "WAKE_ALARM",
];

const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

const READ_ONLY: &[&str] = &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

const DEFAULT_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The configuration, without the process' user, which takes the files of the image to know.
pub(super) fn configuration(spec: &ContainerSpec, options: &RuntimeOptions, id: &str) -> Result<Value, Error> {
    let capabilities = capabilities(&spec.security)?;
    let unmasked = spec.security.privileged || spec.security.unmasked;
    let (masked, read_only): (&[&str], &[&str]) = if unmasked { (&[], &[]) } else { (MASKED, READ_ONLY) };
    Ok(json!({
        "ociVersion": "1.0.2",
        "hostname": spec.hostname,
        "root": { "path": "rootfs", "readonly": spec.read_only_root },
        "process": {
            "terminal": spec.tty,
            "user": { "uid": 0, "gid": 0 },
            "args": arguments(spec)?,
            "env": environment(spec),
            "cwd": working_directory(spec)?,
            "noNewPrivileges": spec.security.no_new_privileges && !spec.security.privileged,
            "oomScoreAdj": spec.resources.oom_score_adj.unwrap_or(0).clamp(-1000, 1000),
            "capabilities": {
                "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
                "inheritable": [], "ambient": [],
            },
        },
        "mounts": mounts(spec)?,
        "linux": {
            "namespaces": namespaces(spec),
            "cgroupsPath": Path::new("/").join(cgroup(spec, options, id)?),
            "resources": resources(&spec.resources),
            "maskedPaths": masked,
            "readonlyPaths": read_only,
            "sysctl": spec.sysctls,
        },
    }))
}

/// The path of the container's cgroup below the mount point of the cgroup file system.
pub(super) fn cgroup(spec: &ContainerSpec, options: &RuntimeOptions, id: &str) -> Result<std::path::PathBuf, Error> {
    let uid = &spec.pod_uid;
    if uid.is_empty() || uid.contains('/') || uid == "." || uid == ".." {
        return Err(Error::Invalid(format!("invalid pod uid {uid:?}")));
    }
    let root = options
        .cgroup_root
        .strip_prefix(&options.cgroup_mount)
        .map_err(|_| Error::Invalid(format!("{} is not in the cgroup file system", options.cgroup_root.display())))?;
    Ok(root.join(format!("pod{uid}")).join(id))
}

fn arguments(spec: &ContainerSpec) -> Result<Vec<String>, Error> {
    let image = &spec.image.config;
    let (program, args): (&[String], &[String]) = match (spec.command.is_empty(), spec.args.is_empty()) {
        (false, _) => (&spec.command, &spec.args),
        (true, false) => (&image.entrypoint, &spec.args),
        (true, true) => (&image.entrypoint, &image.cmd),
    };
    let arguments: Vec<_> = program.iter().chain(args).cloned().collect();
    if arguments.first().is_none_or(String::is_empty) {
        return Err(Error::Invalid("no command specified".to_owned()));
    }
    Ok(arguments)
}

fn environment(spec: &ContainerSpec) -> Vec<String> {
    let mut variables: BTreeMap<&str, &str> = DEFAULT_PATH.split_once('=').into_iter().collect();
    variables.insert("HOSTNAME", &spec.hostname);
    if spec.tty {
        variables.insert("TERM", "xterm");
    }
    variables.extend(spec.image.config.env.iter().filter_map(|variable| variable.split_once('=')));
    variables.extend(spec.env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

fn working_directory(spec: &ContainerSpec) -> Result<String, Error> {
    let directory = match &spec.working_dir {
        Some(directory) => directory.to_string_lossy().into_owned(),
        None => spec.image.config.working_dir.clone(),
    };
    match directory.as_str() {
        "" => Ok("/".to_owned()),
        path if path.starts_with('/') => Ok(directory),
        _ => Err(Error::Invalid(format!("working directory {directory:?} is not an absolute path"))),
    }
}

fn capabilities(security: &Security) -> Result<Vec<String>, Error> {
    let named = |names: &[String]| -> Result<(bool, BTreeSet<&'static str>), Error> {
        let mut set = BTreeSet::new();
        let mut all = false;
        for name in names {
            let upper = name.to_ascii_uppercase();
            let plain = upper.strip_prefix("CAP_").unwrap_or(&upper);
            match ALL_CAPABILITIES.iter().find(|known| **known == plain) {
                Some(known) => {
                    set.insert(*known);
                }
                None if plain == "ALL" => all = true,
                None => return Err(Error::Invalid(format!("unknown capability {name:?}"))),
            }
        }
        Ok((all, set))
    };
    let (add_all, add) = named(&security.add_capabilities)?;
    let (drop_all, drop) = named(&security.drop_capabilities)?;
    let mut result: BTreeSet<&str> = match (security.privileged, drop_all, add_all) {
        (true, _, _) | (false, false, true) => ALL_CAPABILITIES.iter().copied().collect(),
        (false, true, _) => BTreeSet::new(),
        (false, false, false) => DEFAULT_CAPABILITIES.iter().copied().collect(),
    };
    if !security.privileged {
        result.extend(add);
        result.retain(|capability| !drop.contains(capability));
    }
    Ok(result.into_iter().map(|capability| format!("CAP_{capability}")).collect())
}

fn mounts(spec: &ContainerSpec) -> Result<Vec<Value>, Error> {
    let privileged = spec.security.privileged;
    let access = if privileged { "rw" } else { "ro" };
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"] }),
        json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=65536k"] }),
        json!({ "destination": "/dev/pts", "type": "devpts", "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"] }),
        json!({ "destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue",
            "options": ["nosuid", "noexec", "nodev"] }),
        json!({ "destination": "/sys", "type": "sysfs", "source": "sysfs",
            "options": ["nosuid", "noexec", "nodev", access] }),
        json!({ "destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
            "options": ["nosuid", "noexec", "nodev", "relatime", access] }),
        json!({ "destination": "/dev/shm", "type": "tmpfs", "source": "shm",
            "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"] }),
    ];
    for mount in &spec.mounts {
        if !mount.target.is_absolute() {
            return Err(Error::Invalid(format!("mount path {} is not absolute", mount.target.display())));
        }
        mounts.retain(|other| other["destination"].as_str().map(Path::new) != Some(&mount.target));
    }
    // A parent before what is mounted below it.
    let mut binds: Vec<_> = spec.mounts.iter().collect();
    binds.sort_by_key(|mount| mount.target.components().count());
    mounts.extend(binds.into_iter().map(|mount| {
        let access = if mount.read_only { "ro" } else { "rw" };
        json!({ "destination": mount.target, "type": "bind", "source": mount.source,
            "options": ["rbind", "rprivate", access] })
    }));
    Ok(mounts)
}

fn namespaces(spec: &ContainerSpec) -> Vec<Value> {
    let mut namespaces = vec![json!({ "type": "mount" }), json!({ "type": "uts" }), json!({ "type": "cgroup" })];
    for (kind, path) in [("ipc", &spec.ipc_namespace), ("pid", &spec.pid_namespace)] {
        namespaces.push(match path {
            Some(path) => json!({ "type": kind, "path": path }),
            None => json!({ "type": kind }),
        });
    }
    if let Some(path) = &spec.network_namespace {
        namespaces.push(json!({ "type": "network", "path": path }));
    }
    namespaces
}

fn resources(resources: &Resources) -> Value {
    let mut value = json!({});
    if let Some(limit) = resources.memory_limit {
        value["memory"] = json!({ "limit": limit, "swap": limit });
        // All processes end together, so that the container's end tells of it.
        value["unified"] = json!({ "memory.oom.group": "1" });
    }
    if resources.cpu_shares.is_some() || resources.cpu_quota.is_some() {
        let mut cpu = json!({});
        if let Some(shares) = resources.cpu_shares {
            cpu["shares"] = shares.clamp(2, 262_144).into();
        }
        if let Some(quota) = resources.cpu_quota {
            cpu["quota"] = quota.max(1000).into();
            cpu["period"] = 100_000.into();
        }
        value["cpu"] = cpu;
    }
    if let Some(limit) = resources.pids_limit {
        value["pids"] = json!({ "limit": limit });
    }
    value
}
