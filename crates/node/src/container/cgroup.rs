//! The container's cgroup: what it used, whether the memory limit was hit, and its end.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a container uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory that could not be taken back easily.
    pub memory_working_set: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Nanoseconds of CPU time since the start.
    pub cpu_nanoseconds: u64,
    /// Processes and threads.
    pub pids: u64,
}

/// Reads what the cgroup counts; a missing controller counts nothing.
pub(super) fn usage(cgroup: &Path) -> Usage {
    let number = |file: &str| read(&cgroup.join(file)).trim().parse().unwrap_or(0);
    let memory: u64 = number("memory.current");
    let inactive = keyed(&read(&cgroup.join("memory.stat")), "inactive_file");
    Usage {
        memory,
        memory_working_set: memory.saturating_sub(inactive),
        cpu_nanoseconds: keyed(&read(&cgroup.join("cpu.stat")), "usage_usec").saturating_mul(1000),
        pids: number("pids.current"),
    }
}

/// How often the kernel killed a process for want of memory.
pub(super) fn oom_kills(cgroup: &Path) -> u64 {
    keyed(&read(&cgroup.join("memory.events")), "oom_kill")
}

/// Kills everything in the cgroup; one that does not exist has nothing in it.
pub(super) fn kill(cgroup: &Path) -> io::Result<()> {
    match std::fs::write(cgroup.join("cgroup.kill"), "1") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Removes the cgroup, waiting for the last process to be gone, and its parent when that is empty.
pub(super) async fn remove(cgroup: &Path, timeout: Duration) -> io::Result<()> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match remove_tree(cgroup) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && started.elapsed() < timeout => {
                kill(cgroup)?;
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(100));
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(parent) = cgroup.parent() {
        // Busy while the pod has other containers.
        let _ = std::fs::remove_dir(parent);
    }
    Ok(())
}

/// Cgroups made within the container go with it; their depth is bounded by the kernel's path length.
fn remove_tree(cgroup: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(cgroup)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    std::fs::remove_dir(cgroup)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn keyed(text: &str, key: &str) -> u64 {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok()).unwrap_or(0)
}
