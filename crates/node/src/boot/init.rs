//! Process 1: mounts, then an agent process, then orphans until it ends, then power off.

use super::{console, modules::Modules};
use rustix::mount::{MountFlags, mount, mount_bind_recursive, mount_move};
use rustix::process::{WaitOptions, wait};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Where the agent keeps images and containers: memory, as the machine has no disk of its own.
pub(crate) const STATE: &str = "/var/lib/socialweb-node";

/// Runs the machine; returns only when power-off failed.
pub(crate) fn run() -> io::Error {
    if let Err(error) = prepare().and_then(|()| supervise()) {
        console::fatal(&runtime::error_chain(&error).to_string());
    }
    rustix::fs::sync();
    match rustix::system::reboot(rustix::system::RebootCommand::PowerOff) {
        Ok(()) => io::Error::other("the machine is still on"),
        Err(error) => error.into(),
    }
}

fn prepare() -> io::Result<()> {
    // The initial file system cannot be pivoted away from. Mounted over itself it can, so that
    // containers get a root of their own in the usual way.
    fs::create_dir_all("/.root")?;
    mount_bind_recursive("/", "/.root")?;
    std::env::set_current_dir("/.root")?;
    mount_move(".", "/")?;
    rustix::process::chroot(".")?;
    std::env::set_current_dir("/")?;
    let plain = MountFlags::NOSUID | MountFlags::NODEV;
    let strict = plain | MountFlags::NOEXEC;
    let mounts: [(&str, &str, &str, MountFlags, &std::ffi::CStr); 9] = [
        ("proc", "/proc", "proc", strict, c""),
        ("sysfs", "/sys", "sysfs", strict, c""),
        ("devtmpfs", "/dev", "devtmpfs", MountFlags::NOSUID, c"mode=755"),
        ("devpts", "/dev/pts", "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, c"mode=620,ptmxmode=666"),
        ("tmpfs", "/dev/shm", "tmpfs", plain, c"mode=1777"),
        ("tmpfs", "/run", "tmpfs", plain, c"mode=755"),
        ("tmpfs", "/tmp", "tmpfs", plain, c"mode=1777"),
        ("cgroup2", "/sys/fs/cgroup", "cgroup2", strict, c"nsdelegate"),
        ("tmpfs", STATE, "tmpfs", MountFlags::empty(), c"mode=755,size=80%"),
    ];
    for (source, target, kind, flags, data) in mounts {
        // The kernel makes some of the directories itself.
        let _ = fs::create_dir_all(target);
        mount(source, target, kind, flags, data).map_err(|error| {
            io::Error::new(io::Error::from(error).kind(), format!("cannot mount {target}: {error}"))
        })?;
    }
    // Containers are confined by controllers that every group has to hand down.
    let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu +memory +pids +io");
    fs::create_dir_all("/etc")?;
    fs::write("/etc/resolv.conf", "nameserver 10.0.2.3\n")?;
    fs::write("/etc/hosts", "127.0.0.1 localhost\n")?;
    Modules::system().load("base")
}

/// Starts the agent and reaps whatever is orphaned, until the agent ends.
fn supervise() -> io::Result<()> {
    let mut agent = Command::new("/proc/self/exe");
    agent.arg0("socialweb-node").arg("agent");
    let agent = agent.spawn()?;
    loop {
        let (pid, status) = match wait(WaitOptions::empty()) {
            Ok(Some(ended)) => ended,
            Ok(None) | Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if u32::try_from(pid.as_raw_nonzero().get()) != Ok(agent.id()) {
            continue;
        }
        return match status.exit_status() {
            // It has said why on the console.
            Some(crate::EXIT_FATAL | 0) => Ok(()),
            _ => Err(io::Error::other(format!("the agent ended unexpectedly ({status:?})"))),
        };
    }
}
