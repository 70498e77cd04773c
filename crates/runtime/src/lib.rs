//! What every long-running part of the product stands on: time, supervised tasks, shutdown,
//! backoff, logging, readable error chains and collections that shrink.

mod backoff;
mod clock;
mod error_chain;
pub mod logging;
mod shrink;
mod shutdown;
mod tasks;

pub use backoff::{Backoff, BackoffOptions};
pub use clock::{Clock, ManualClock, SystemClock};
pub use error_chain::{ErrorChain, error_chain};
pub use shrink::Shrink;
pub use shutdown::Shutdown;
pub use tasks::{BoxError, TaskError, TaskPolicy, TaskSet};
