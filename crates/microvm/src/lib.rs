//! Nodes on this host: one QEMU microVM per machine, behind the `NodeProvider` seam.
//!
//! A machine is a directory under the state directory and a QEMU process in a session of its own.
//! Nothing of it hangs on the process that started it: a new [`HostProvider`] over the same
//! directory reads the records, finds the processes and goes on. The kernel and the initramfs are
//! made once ([`HostProvider::prepare`]) and kept in the cache directory.

mod acceleration;
mod check;
mod console;
mod error;
mod files;
mod initramfs;
mod iso9660;
mod kernel;
mod machine;
mod options;
mod prepared;
mod program;
mod provider;
mod qemu;
mod record;
mod seed;

pub use acceleration::Acceleration;
pub use check::{Finding, Severity, check_host};
pub use error::Error;
pub use options::{AccelerationChoice, HostOptions};
pub use provider::HostProvider;
pub use record::Timings;
