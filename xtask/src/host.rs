//! What the commands need of this machine, and how it gets there.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// A Debian package, and a file that is there when it is installed.
struct Package {
    name: &'static str,
    proof: &'static [&'static str],
}

const PACKAGES: &[Package] = &[
    Package { name: "qemu-system-x86", proof: &["/usr/bin/qemu-system-x86_64"] },
    Package { name: "make", proof: &["/usr/bin/make"] },
    Package { name: "python3-pip", proof: &["/usr/bin/pip3", "/usr/local/bin/pip3"] },
    Package { name: "busybox-static", proof: &["/bin/busybox", "/usr/bin/busybox"] },
];

/// Installs the packages that are missing, when this is root on Debian; else says which they are.
///
/// # Errors
/// When packages are missing and cannot be installed.
pub(crate) fn packages() -> Result<()> {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|package| !package.proof.iter().any(|path| Path::new(path).exists()))
        .map(|package| package.name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let command = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    if !is_root() || !Path::new("/usr/bin/apt-get").exists() {
        bail!("these Debian packages are missing: {}.\nInstall them as root with `{command}`", missing.join(", "));
    }
    eprintln!("==> installing {}", missing.join(", "));
    apt(&["update", "-q"])?;
    let mut arguments = vec!["install", "-y", "-q", "--no-install-recommends"];
    arguments.extend(missing);
    apt(&arguments)
}

fn apt(arguments: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .context("apt-get cannot be started")?;
    if !output.status.success() {
        bail!("apt-get {} failed:\n{}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
