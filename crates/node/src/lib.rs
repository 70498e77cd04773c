//! The node agent: process 1 of a machine, its container runtime, its Pod network, and everything
//! that a Kubernetes node does for its cluster.

mod boot;
pub mod container;
mod identity;
pub mod image;
mod net;
mod node_object;
mod rootdir;
mod watch;

/// How the agent ends when it has said on the console why it cannot go on.
pub(crate) const EXIT_FATAL: i32 = 3;
