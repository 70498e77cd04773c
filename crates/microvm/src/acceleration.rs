//! KVM or emulation, decided by booting: a `/dev/kvm` that opens may still hang.

use crate::kernel::Kernel;
use crate::options::AccelerationChoice;
use crate::qemu::{self, Guest};
use crate::{Error, HostOptions, files};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(20);
const KVM_DEVICE: &str = "/dev/kvm";
const MEMORY_MIB: u32 = 256;
const MAX_DETAIL: u64 = 600;

/// How guests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Acceleration {
    /// Hardware virtualisation.
    Kvm,
    /// QEMU's emulation.
    Tcg,
}

impl Acceleration {
    pub(crate) fn argument(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            // A small translation cache saves memory at no visible cost.
            Self::Tcg => "tcg,thread=multi,tb-size=32",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kvm => "KVM",
            Self::Tcg => "emulation",
        }
    }
}

/// A probe's result and what it holds for.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Probed {
    boot_id: String,
    kernel_sha256: String,
    kvm_opens: bool,
    acceleration: Acceleration,
}

/// Decides for this kernel and this boot of the host. The caller holds the cache's lock.
pub(crate) fn choose(options: &HostOptions, kernel: &Kernel) -> Result<Acceleration, Error> {
    if let AccelerationChoice::Fixed(acceleration) = options.acceleration {
        return Ok(acceleration);
    }
    let boot_id = os_linux::process::boot_id().map_err(Error::file("read the boot id of", Path::new("/proc")))?;
    let kvm_opens = kvm_opens().is_ok();
    let path = options.cache_dir.join("acceleration.json");
    let stored = fs::read(&path).ok().and_then(|json| serde_json::from_slice::<Probed>(&json).ok());
    if let Some(stored) = stored
        && (stored.boot_id == boot_id, &stored.kernel_sha256, stored.kvm_opens)
            == (true, &kernel.manifest.image_sha256, kvm_opens)
    {
        return Ok(stored.acceleration);
    }
    let acceleration = probe(options, kernel, kvm_opens)?;
    let kernel_sha256 = kernel.manifest.image_sha256.clone();
    let result = Probed { boot_id, kernel_sha256, kvm_opens, acceleration };
    let json = serde_json::to_vec(&result).map_err(|error| Error::Kernel(error.to_string()))?;
    files::write_atomically(&path, &[&json])?;
    tracing::info!(acceleration = acceleration.name(), "probed how microVMs run on this host");
    Ok(acceleration)
}

/// Whether the device can be opened; the error says why not.
pub(crate) fn kvm_opens() -> std::io::Result<()> {
    OpenOptions::new().read(true).write(true).open(KVM_DEVICE).map(drop)
}

fn probe(options: &HostOptions, kernel: &Kernel, kvm_opens: bool) -> Result<Acceleration, Error> {
    if kvm_opens {
        match boot(options, kernel, Acceleration::Kvm, "Kernel panic", options.kvm_probe_timeout) {
            Ok(()) => return Ok(Acceleration::Kvm),
            Err(error @ Error::Program { .. }) => return Err(error),
            Err(error) => tracing::info!(%error, "KVM does not work here"),
        }
    }
    boot(options, kernel, Acceleration::Tcg, "Linux version", options.tcg_probe_timeout)?;
    Ok(Acceleration::Tcg)
}

/// Boots the kernel without a root until it prints `proof`. Without a root a boot that works ends in
/// a panic.
fn boot(
    options: &HostOptions,
    kernel: &Kernel,
    acceleration: Acceleration,
    proof: &str,
    limit: Duration,
) -> Result<(), Error> {
    let dir = files::unfinished(&options.cache_dir);
    files::make_dir(&dir)?;
    let result = boot_in(&dir, options, kernel, acceleration, proof, limit);
    files::remove_dir(&dir)?;
    result
}

fn boot_in(
    dir: &Path,
    options: &HostOptions,
    kernel: &Kernel,
    acceleration: Acceleration,
    proof: &str,
    limit: Duration,
) -> Result<(), Error> {
    let guest = Guest {
        name: format!("socialweb-probe-{}", std::process::id()),
        acceleration,
        cpus: 1,
        memory_mib: MEMORY_MIB,
        kernel: kernel.image.clone(),
        initramfs: None,
        command_line: "console=ttyS0 panic=-1 cryptomgr.notests",
        network: false,
        drives: Vec::new(),
        console: dir.join("console.log"),
        log: dir.join("qemu.log"),
    };
    let start = Instant::now();
    let process = qemu::start(&guest, options)?;
    let failed = |detail: String| Error::Boot { acceleration: acceleration.name(), detail };
    let result = loop {
        // Asked before the console is read, so that the last words of one that ends are seen.
        let ended = process.wait_ended(PAUSE).map_err(|error| failed(error.to_string()))?;
        let console = files::tail(&guest.console, options.max_log_bytes).unwrap_or_default();
        if console.contains(proof) {
            break Ok(());
        }
        let log = files::tail(&guest.log, MAX_DETAIL).unwrap_or_default();
        if ended {
            break Err(failed(format!("QEMU ended: {}", log.trim().replace('\n', "; "))));
        }
        if start.elapsed() >= limit {
            break Err(failed(format!("not within {limit:?}; QEMU said: {:?}", log.trim())));
        }
    };
    process.kill().map_err(|error| failed(error.to_string()))?;
    if !process.wait_ended(options.release_timeout).map_err(|error| failed(error.to_string()))? {
        tracing::warn!(pid = process.id().pid, "a probe's QEMU does not end");
    }
    // The end is collected so that no zombie stays; how it ended is known.
    let _ = process.reap();
    result
}
