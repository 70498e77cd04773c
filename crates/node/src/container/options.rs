//! Where the runtime keeps things, and its bounds.

use std::path::PathBuf;
use std::time::Duration;

/// How the runtime works.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// Directory of bundles, writable layers and sockets; mode 0700. Short, because of the sockets.
    pub root: PathBuf,
    /// Directory of the containers' logs, see [`super::logs::path`].
    pub log_root: PathBuf,
    /// Parent of all pods' cgroups, e.g. `/sys/fs/cgroup/pods`.
    pub cgroup_root: PathBuf,
    /// The mount point of cgroup v2, a prefix of `cgroup_root`.
    pub cgroup_mount: PathBuf,
    /// The program that runs [`super::shim_main`] when its first argument is [`super::SHIM_COMMAND`].
    pub shim: PathBuf,
    /// Arguments of `shim` before the command, normally none.
    pub shim_arguments: Vec<String>,
    /// How many containers may exist.
    pub max_containers: usize,
    /// How many exec and attach sessions one container may have at a time.
    pub max_sessions: usize,
    /// How long a container or process may take to start.
    pub start_timeout: Duration,
    /// How long to wait, after the end of a process, for its output to end.
    pub drain_timeout: Duration,
    /// How long the removal of a cgroup may take.
    pub remove_timeout: Duration,
    /// Size of a log file at which a new one is begun.
    pub log_max_bytes: u64,
    /// How many log files a container has at most.
    pub log_max_files: usize,
    /// Bytes buffered between a process and a session's client.
    pub session_buffer: usize,
    /// Pieces of output an attached client may lag behind before it loses some.
    pub attach_backlog: usize,
    /// How often a followed log is looked at.
    pub follow_interval: Duration,
}

impl RuntimeOptions {
    /// The defaults of a node.
    pub fn new(root: impl Into<PathBuf>, log_root: impl Into<PathBuf>, cgroup_root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            log_root: log_root.into(),
            cgroup_root: cgroup_root.into(),
            cgroup_mount: PathBuf::from("/sys/fs/cgroup"),
            shim: PathBuf::from("/proc/self/exe"),
            shim_arguments: Vec::new(),
            max_containers: 512,
            max_sessions: 32,
            start_timeout: Duration::from_secs(120),
            drain_timeout: Duration::from_secs(2),
            remove_timeout: Duration::from_secs(10),
            log_max_bytes: 10 << 20,
            log_max_files: 5,
            session_buffer: 64 << 10,
            attach_backlog: 256,
            follow_interval: Duration::from_millis(100),
        }
    }
}
