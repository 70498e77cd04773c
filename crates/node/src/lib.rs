//! The node agent: process 1 of a machine, its container runtime, its Pod network, and everything
//! that a Kubernetes node does for its cluster.

mod boot;
mod identity;
mod net;
mod node_object;
mod pod;
mod watch;

/// How the agent ends when it has said on the console why it cannot go on.
pub(crate) const EXIT_FATAL: i32 = 3;
