//! Says whether this host can run machines, and what to do when it cannot.

use crate::{HostOptions, acceleration, files, initramfs, kernel, program};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const CHECK_TIMEOUT: Duration = Duration::from_secs(20);

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Works, worse than it could.
    Warning,
    /// Machines cannot run.
    Error,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One fact about the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What was found.
    pub detail: String,
    /// What to do about it.
    pub fix: Option<String>,
}

/// Looks at everything that machines need. Changes nothing but for empty directories, and boots
/// nothing.
#[must_use]
pub fn check_host(options: &HostOptions) -> Vec<Finding> {
    vec![kvm(), qemu(options), agent(options), kernel_package(options), disk(options), memory(options)]
}

fn ok(name: &'static str, detail: String) -> Finding {
    Finding { name, severity: Severity::Ok, detail, fix: None }
}

fn bad(name: &'static str, severity: Severity, detail: String, fix: impl Into<String>) -> Finding {
    Finding { name, severity, detail, fix: Some(fix.into()) }
}

fn kvm() -> Finding {
    match acceleration::kvm_opens() {
        Ok(()) => ok("kvm", "/dev/kvm opens; whether it works is found out by booting".to_owned()),
        Err(error) => bad(
            "kvm",
            Severity::Warning,
            format!("/dev/kvm cannot be opened ({error}); machines are emulated, several times slower"),
            "enable virtualisation, load the module kvm_intel or kvm_amd, and add yourself to the group kvm",
        ),
    }
}

fn qemu(options: &HostOptions) -> Finding {
    let mut command = Command::new(&options.qemu);
    command.arg("--version");
    match program::run(&mut command, &std::env::temp_dir(), CHECK_TIMEOUT) {
        Ok(text) => ok("qemu", text.lines().next().unwrap_or_default().to_owned()),
        Err(error) => bad("qemu", Severity::Error, runtime::error_chain(&error), qemu_fix(has_apt())),
    }
}

fn has_apt() -> bool {
    Path::new("/usr/bin/apt-get").exists()
}

fn qemu_fix(has_apt: bool) -> &'static str {
    if has_apt {
        "apt-get update && apt-get install -y --no-install-recommends qemu-system-x86"
    } else {
        "this host has no apt-get: install QEMU for x86-64 (qemu-system-x86_64) with its package manager"
    }
}

fn agent(options: &HostOptions) -> Finding {
    match initramfs::read_agent(&options.agent_binary) {
        Ok(bytes) => ok("node agent", format!("{}, {} KiB", options.agent_binary.display(), bytes.len() >> 10)),
        Err(error) => bad(
            "node agent",
            Severity::Error,
            runtime::error_chain(&error),
            "build the node agent as a static x86-64 executable, or name the right file",
        ),
    }
}

fn kernel_package(options: &HostOptions) -> Finding {
    const NAME: &str = "kernel package";
    match kernel::cached(options) {
        Ok(Some(kernel)) => {
            return ok(NAME, format!("{} {} is in the cache", kernel.manifest.package, kernel.manifest.version));
        }
        Ok(None) => {}
        Err(error) => {
            return bad(NAME, Severity::Error, runtime::error_chain(&error), "make the cache directory readable");
        }
    }
    if !has_apt() {
        return bad(
            NAME,
            Severity::Error,
            "the kernel is not in the cache, and this host has no apt-get to fetch it".to_owned(),
            "copy the cache directory from a Debian host",
        );
    }
    match kernel::available(options, &std::env::temp_dir()) {
        Ok(package) => ok(NAME, format!("{package} can be fetched")),
        Err(error) => bad(
            NAME,
            Severity::Warning,
            format!("the package lists do not have it ({}); fresh ones will be tried", runtime::error_chain(&error)),
            "apt-get update; a Debian source must be configured",
        ),
    }
}

fn disk(options: &HostOptions) -> Finding {
    const NAME: &str = "disk";
    let mut details = Vec::new();
    for (dir, needed) in
        [(&options.state_dir, options.min_free_state_mib), (&options.cache_dir, options.min_free_cache_mib)]
    {
        let place = existing(dir);
        match files::free_mib(&place) {
            Ok(free) if free >= needed => details.push(format!("{free} MiB free for {}", dir.display())),
            Ok(free) => {
                let detail = format!("{free} MiB free for {}, {needed} MiB needed", dir.display());
                return bad(NAME, Severity::Error, detail, format!("free space on the disk of {}", place.display()));
            }
            Err(error) => {
                return bad(NAME, Severity::Error, runtime::error_chain(&error), "make the directory accessible");
            }
        }
    }
    ok(NAME, details.join(", "))
}

/// The nearest directory above that exists.
fn existing(dir: &Path) -> PathBuf {
    let found = dir.ancestors().find(|dir| dir.is_dir());
    found.map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

fn memory(options: &HostOptions) -> Finding {
    const NAME: &str = "memory";
    let needed = u64::from(options.min_memory_mib) + options.memory_overhead_mib + options.memory_reserve_mib;
    match available_memory_mib() {
        Some(free) if free >= needed => ok(NAME, format!("{free} MiB available")),
        Some(free) => bad(
            NAME,
            Severity::Error,
            format!("{free} MiB available, {needed} MiB needed for the smallest machine"),
            "free memory, or use a larger host",
        ),
        None => bad(NAME, Severity::Warning, "/proc/meminfo does not say".to_owned(), "mount /proc"),
    }
}

/// What the host can still give, or `None` when it does not say.
pub(crate) fn available_memory_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? >> 10)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_a_fix() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = HostOptions::new(dir.path().join("s"), dir.path().join("c"), dir.path().join("absent"));
        options.qemu = dir.path().join("no-qemu");
        options.min_free_state_mib = u64::MAX;
        options.memory_reserve_mib = 1 << 40;
        let findings = check_host(&options);
        for name in ["qemu", "node agent", "disk", "memory"] {
            let finding = findings.iter().find(|finding| finding.name == name).unwrap();
            assert_eq!(finding.severity, Severity::Error, "{finding:?}");
            assert!(finding.fix.is_some(), "{finding:?}");
        }
        assert!(qemu_fix(false).contains("no apt-get"));
        assert!(findings.iter().all(|finding| (finding.severity == Severity::Ok) == finding.fix.is_none()));
    }
}
