//! Real machines under QEMU, with a small PID 1 in place of the node agent.
#![allow(clippy::unwrap_used)]

mod adoption;
mod conformance;
mod failures;
mod host;
mod machine;
