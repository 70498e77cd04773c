//! The node agent: process 1 of a machine, its container runtime, its Pod network, and everything
//! that a Kubernetes node does for its cluster.

mod agent;
mod boot;
pub mod container;
mod events;
mod identity;
pub mod image;
mod net;
mod node_object;
mod pod;
mod rootdir;
mod tunnel;
mod watch;

use std::process::ExitCode;

/// How the agent ends when it has said on the console why it cannot go on.
pub(crate) const EXIT_FATAL: i32 = 3;

/// The whole program: process 1, the agent that process 1 starts, or a container's shim.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((command, rest)) if command == container::SHIM_COMMAND => {
            ExitCode::from(u8::try_from(container::shim_main(rest)).unwrap_or(1))
        }
        Some((command, _)) if command == "agent" => {
            // A log that cannot be set up must not keep the node from working.
            let _ = runtime::logging::init(runtime::logging::Format::Human, &runtime::logging::filter_from_env(None));
            let error = agent::run();
            boot::console::fatal(&runtime::error_chain(&*error).to_string());
            ExitCode::from(u8::try_from(EXIT_FATAL).unwrap_or(1))
        }
        _ if std::process::id() == 1 => {
            let error = boot::init::run();
            boot::console::fatal(&format!("cannot power off: {error}"));
            ExitCode::FAILURE
        }
        _ => {
            eprintln!("socialweb-node runs as process 1 of a machine");
            ExitCode::FAILURE
        }
    }
}
