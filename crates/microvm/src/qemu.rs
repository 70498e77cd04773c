//! QEMU's command line, which holds no secret, and how it is started.

#[cfg(test)]
mod tests;

use crate::{Acceleration, Error, HostOptions, files};
use os_linux::process::{DetachedOptions, Process, spawn_detached};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// While no provider trims a log it may grow to this many times its usual bound.
const LOG_GROWTH: u64 = 4;

/// A read-only drive.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    /// What the guest knows it by.
    pub serial: String,
    /// The raw image.
    pub path: PathBuf,
}

/// One virtual machine.
#[derive(Clone, Debug)]
pub(crate) struct Guest {
    /// Unique on this host; the process is found by [`name_argument`].
    pub name: String,
    /// KVM or emulation.
    pub acceleration: Acceleration,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory, MiB.
    pub memory_mib: u32,
    /// What is booted.
    pub kernel: PathBuf,
    /// The root.
    pub initramfs: Option<PathBuf>,
    /// Kernel command line.
    pub command_line: &'static str,
    /// Whether there is a network card.
    pub network: bool,
    /// Drives, in order.
    pub drives: Vec<Drive>,
    /// Takes the serial console.
    pub console: PathBuf,
    /// Takes QEMU's own words.
    pub log: PathBuf,
}

/// The argument that tells this guest's process from all others.
pub(crate) fn name_argument(name: &str) -> String {
    format!("guest={name},process={name}")
}

/// QEMU's arguments.
pub(crate) fn arguments(guest: &Guest) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |option: &str, value: OsString| arguments.extend([OsString::from(option), value]);
    add("-name", name_argument(&guest.name).into());
    add("-M", "q35".into());
    add("-accel", guest.acceleration.argument().into());
    add("-cpu", "max".into());
    add("-smp", guest.cpus.to_string().into());
    add("-m", guest.memory_mib.to_string().into());
    add("-display", "none".into());
    add("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny".into());
    // Appended to, so that cutting the file while QEMU runs leaves no hole.
    add("-chardev", with_path("file,id=console,append=on,path=", &guest.console, ""));
    add("-serial", "chardev:console".into());
    add("-kernel", guest.kernel.clone().into());
    if let Some(initramfs) = &guest.initramfs {
        add("-initrd", initramfs.clone().into());
    }
    add("-append", guest.command_line.into());
    for (index, drive) in guest.drives.iter().enumerate() {
        let options = format!(",if=none,id=d{index},format=raw,readonly=on");
        add("-drive", with_path("file=", &drive.path, &options));
        add("-device", format!("virtio-blk-pci,drive=d{index},serial={}", drive.serial).into());
    }
    if guest.network {
        add("-netdev", "user,id=n0,ipv6=off".into());
        add("-device", "virtio-net-pci,netdev=n0,romfile=".into());
    }
    arguments.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
    arguments
}

/// In QEMU's option lists a comma within a value is written twice.
fn with_path(before: &str, path: &Path, after: &str) -> OsString {
    let mut text = before.as_bytes().to_vec();
    for byte in path.as_os_str().as_bytes() {
        text.push(*byte);
        if *byte == b',' {
            text.push(*byte);
        }
    }
    text.extend(after.bytes());
    OsString::from_vec(text)
}

/// Starts a guest; it lives on when this process ends.
pub(crate) fn start(guest: &Guest, options: &HostOptions) -> Result<Process, Error> {
    let log = files::create(&guest.log, 0o600)?;
    let errors = log.try_clone().map_err(Error::file("open", &guest.log))?;
    drop(files::create(&guest.console, 0o600)?);
    let mut command = Command::new(&options.qemu);
    command
        .args(arguments(guest))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| OsStr::new("/usr/bin:/bin").to_owned()))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors);
    let limits = DetachedOptions { max_file_bytes: options.max_log_bytes.saturating_mul(LOG_GROWTH) };
    spawn_detached(&mut command, limits)
        .map_err(|source| Error::Program { program: options.qemu.display().to_string(), source })
}
