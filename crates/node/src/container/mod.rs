//! Containers of pods. A [`Runtime`] makes them with libcontainer through a shim, a process of the
//! same program ([`shim_main`]), carries their output to logs and to attached clients, and tells how
//! they ended. They live as long as the node's machine at most.

mod bundle;
mod cgroup;
#[allow(clippy::module_inception)]
mod container;
mod error;
mod launch;
pub mod logs;
mod options;
mod pty;
mod runtime;
pub mod seccomp;
mod session;
mod shim;
mod spec;
mod user;

#[cfg(test)]
mod tests;

pub use cgroup::Usage;
pub use error::Error;
pub use options::RuntimeOptions;
pub use runtime::Runtime;
pub use session::{Control, Reader, Session, Writer};
pub use shim::{SHIM_COMMAND, shim_main};
pub use spec::{BindMount, ContainerSpec, ExecSpec, ExitStatus, Resources, Seccomp, Security, Started, UserSpec};
