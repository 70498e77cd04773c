//! What the pod worker asks of the runtime, and what it gets back.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::image::PreparedImage;

/// Everything needed to create and start one container.
#[derive(Debug, Clone)]
pub struct ContainerSpec {
    /// UID of the pod the container belongs to; names its parent cgroup.
    pub pod_uid: String,
    /// Name of the container within the pod.
    pub name: String,
    /// How often this container was started before, as in `restartCount`.
    pub attempt: u32,
    /// The image: its configuration gives every default, its layers the root file system.
    pub image: PreparedImage,
    /// Replaces the entrypoint of the image when not empty; the image's `Cmd` is then ignored.
    pub command: Vec<String>,
    /// Replaces the `Cmd` of the image when not empty.
    pub args: Vec<String>,
    /// Environment, added to the image's; a later entry wins.
    pub env: Vec<(String, String)>,
    /// Replaces the working directory of the image.
    pub working_dir: Option<PathBuf>,
    /// Who the process runs as.
    pub user: UserSpec,
    /// Host name within the container.
    pub hostname: String,
    /// Path of the network namespace to join; `None` uses the node's network.
    pub network_namespace: Option<PathBuf>,
    /// Path of the IPC namespace to join; `None` makes a new one.
    pub ipc_namespace: Option<PathBuf>,
    /// Path of the PID namespace to join; `None` makes a new one.
    pub pid_namespace: Option<PathBuf>,
    /// Directories and files of the node that are seen in the container.
    pub mounts: Vec<BindMount>,
    /// Limits.
    pub resources: Resources,
    /// What the process may do.
    pub security: Security,
    /// Mount the root file system read-only.
    pub read_only_root: bool,
    /// Give the process a terminal; stderr then does not exist apart.
    pub tty: bool,
    /// Keep stdin open for [`super::Runtime::attach`]; otherwise it is `/dev/null`.
    pub stdin: bool,
    /// Close stdin when the first attached session that had stdin ends.
    pub stdin_once: bool,
    /// The log file, from [`super::logs::path`].
    pub log_path: PathBuf,
    /// Kernel parameters, such as `net.ipv4.ip_unprivileged_port_start`.
    pub sysctls: BTreeMap<String, String>,
}

/// Who a process runs as, as far as the pod says; the image says the rest.
#[derive(Debug, Clone, Default)]
pub struct UserSpec {
    /// `runAsUser`.
    pub uid: Option<u32>,
    /// `runAsGroup`.
    pub gid: Option<u32>,
    /// `fsGroup` and `supplementalGroups`.
    pub supplemental_groups: Vec<u32>,
}

/// A file or directory of the node that appears in the container.
#[derive(Debug, Clone)]
pub struct BindMount {
    /// Path on the node.
    pub source: PathBuf,
    /// Absolute path in the container; made if it does not exist.
    pub target: PathBuf,
    /// Forbid writes through this mount.
    pub read_only: bool,
}

/// Limits of the container's cgroup; `None` is no limit.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    /// Relative CPU weight in cgroup v1 shares (1024 for one CPU requested).
    pub cpu_shares: Option<u64>,
    /// Microseconds of CPU time per period of 100 ms.
    pub cpu_quota: Option<i64>,
    /// Bytes of memory.
    pub memory_limit: Option<u64>,
    /// Number of processes and threads.
    pub pids_limit: Option<u32>,
    /// Adjustment of the out-of-memory score, -1000 to 1000.
    pub oom_score_adj: Option<i32>,
}

/// What a container's processes may do.
#[derive(Debug, Clone, Default)]
pub struct Security {
    /// Capabilities beyond the default ones, without `CAP_`; `ALL` is all of them.
    pub add_capabilities: Vec<String>,
    /// Capabilities taken away, without `CAP_`; `ALL` is all of them.
    pub drop_capabilities: Vec<String>,
    /// Forbid gaining privileges through set-user-id programs (`allowPrivilegeEscalation: false`).
    pub no_new_privileges: bool,
    /// All capabilities, writable kernel file systems, nothing masked.
    pub privileged: bool,
    /// Paths of `/proc` and `/sys` stay visible (`procMount: Unmasked`).
    pub unmasked: bool,
    /// Which system calls are let through.
    pub seccomp: Seccomp,
}

/// Which system calls are let through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seccomp {
    /// All of them.
    #[default]
    Unconfined,
    /// Those that containers need; see [`super::seccomp`].
    RuntimeDefault,
}

/// A container that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Names the container in every other call.
    pub id: String,
    /// Its first process, in the node's PID namespace.
    pub pid: i32,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitStatus {
    /// Exit code; 128 plus the signal's number if a signal ended it.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The kernel killed it because the memory limit was reached.
    pub oom_killed: bool,
    /// When it was seen to have ended.
    pub finished_at: jiff::Timestamp,
}

/// A process to run in a running container.
#[derive(Debug, Clone, Default)]
pub struct ExecSpec {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Give it a terminal.
    pub tty: bool,
    /// Give it a stdin to write to.
    pub stdin: bool,
}
