//! What every long-running part of the product stands on: time, supervised tasks, shutdown,
//! backoff, logging and readable error chains.

mod backoff;
mod clock;
mod error_chain;
pub mod logging;
mod shutdown;
mod tasks;

pub use backoff::{Backoff, BackoffOptions};
pub use clock::{Clock, ManualClock, SystemClock};
pub use error_chain::{ErrorChain, error_chain};
pub use shutdown::Shutdown;
pub use tasks::{BoxError, TaskError, TaskPolicy, TaskSet};
