//! The product from outside: our programs and a stock kubectl, as processes, on this host.
//!
//! [`Stage`] holds a control plane in a directory of its own. What it started (the control plane,
//! machines, files) goes when it does, also after a failure. Every wait is bounded and is for
//! something that can be seen. The demo tells its story on a stage, and so do the tests of this
//! crate (`cargo xtask e2e`), a module a story.

mod artifacts;
mod kubectl;
mod machines;
mod port_forward;
mod program;
mod server;
mod stage;
mod streaming;
mod wait;

pub use artifacts::{Artifacts, IMAGE};
pub use kubectl::Kubectl;
pub use machines::Machine;
pub use port_forward::PortForward;
pub use program::Said;
pub use stage::Stage;
pub use streaming::Streaming;
pub use wait::{PATIENCE, until};
