//! Every path, limit and timeout of the host's provider.

use crate::Acceleration;
use std::path::PathBuf;
use std::time::Duration;

/// How to decide between hardware virtualisation and emulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccelerationChoice {
    /// Boot a kernel to find out, once per kernel and boot of the host.
    #[default]
    Probe,
    /// Take this and do not try.
    Fixed(Acceleration),
}

/// Options of a [`HostProvider`](crate::HostProvider).
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Holds the machines; one provider at a time.
    pub state_dir: PathBuf,
    /// Holds kernels and initramfs images; may be shared and may be deleted when nothing starts.
    pub cache_dir: PathBuf,
    /// The node agent, a static x86-64 executable that becomes PID 1 of each machine.
    pub agent_binary: PathBuf,
    /// Image archives that each machine gets as read-only drives.
    pub image_archives: Vec<PathBuf>,
    /// Plain-HTTP registries, `host:port`. One on the host's loopback is reached from the machines
    /// through the host's address on their network.
    pub insecure_registries: Vec<String>,
    /// KVM or emulation.
    pub acceleration: AccelerationChoice,
    /// The QEMU program.
    pub qemu: PathBuf,
    /// The Debian package, or meta package, that the kernel comes from.
    pub kernel_package: String,
    /// The most machines at one time; a request beyond is declined.
    pub max_machines: usize,
    /// The most virtual CPUs of one machine.
    pub max_cpus: u32,
    /// The least memory of one machine, in MiB.
    pub min_memory_mib: u32,
    /// Memory that a machine takes beside its own, in MiB.
    pub memory_overhead_mib: u64,
    /// Memory that machines must leave to the host, in MiB.
    pub memory_reserve_mib: u64,
    /// Free space that the state directory's disk must have for one more machine, in MiB.
    pub min_free_state_mib: u64,
    /// Free space that the cache directory's disk must have before a kernel is fetched, in MiB.
    pub min_free_cache_mib: u64,
    /// A console or QEMU log longer than this is cut to its newest part, in bytes. While no
    /// provider runs it can grow to four times that, and no further.
    pub max_log_bytes: u64,
    /// How many initramfs images to keep.
    pub max_initramfs: usize,
    /// How long to wait for another provider of the state directory to go.
    pub open_timeout: Duration,
    /// How long one step of fetching the kernel may take.
    pub fetch_timeout: Duration,
    /// How long a boot with KVM may take before emulation is chosen.
    pub kvm_probe_timeout: Duration,
    /// How long an emulated boot may take before QEMU is considered broken.
    pub tcg_probe_timeout: Duration,
    /// How often a machine that starts is looked at.
    pub starting_interval: Duration,
    /// How often the console of a running machine is looked at. Its death is noticed at once.
    pub running_interval: Duration,
    /// How long a machine may take to end after SIGTERM, and again after SIGKILL.
    pub release_timeout: Duration,
}

impl HostOptions {
    /// Usual limits over these three paths.
    #[must_use]
    pub fn new(state_dir: impl Into<PathBuf>, cache_dir: impl Into<PathBuf>, agent_binary: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            cache_dir: cache_dir.into(),
            agent_binary: agent_binary.into(),
            image_archives: Vec::new(),
            insecure_registries: Vec::new(),
            acceleration: AccelerationChoice::Probe,
            qemu: "qemu-system-x86_64".into(),
            kernel_package: "linux-image-cloud-amd64".into(),
            max_machines: 64,
            max_cpus: 64,
            min_memory_mib: 96,
            memory_overhead_mib: 128,
            memory_reserve_mib: 256,
            min_free_state_mib: 64,
            min_free_cache_mib: 384,
            max_log_bytes: 1 << 20,
            max_initramfs: 4,
            open_timeout: Duration::from_secs(20),
            fetch_timeout: Duration::from_secs(300),
            kvm_probe_timeout: Duration::from_secs(8),
            tcg_probe_timeout: Duration::from_secs(90),
            starting_interval: Duration::from_millis(50),
            running_interval: Duration::from_secs(2),
            release_timeout: Duration::from_secs(5),
        }
    }

    pub(crate) fn machines_dir(&self) -> PathBuf {
        self.state_dir.join("machines")
    }
}
