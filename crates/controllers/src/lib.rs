//! Kubernetes' own controllers, each a module that serves every logical cluster at once: a pure
//! decision over what the informers know, and thin effects.

mod context;
mod daemonset;
mod deployment;
mod garbage;
mod job;
mod meta;
mod namespaces;
mod pod_control;
mod pods;
mod replicaset;
mod scale;
mod service_accounts;
mod template;

pub use context::{Context, Options};

use controller_runtime::Client;
use runtime::TaskSet;

/// Starts every controller. They stop on the set's shutdown signal.
///
/// `client` acts as the controllers: it may list and watch every logical cluster and write in each.
pub fn run(client: &Client, options: Options, tasks: &mut TaskSet) {
    let context = Context::new(client, options);
    // First, because it says which kinds are kept without their contents.
    garbage::start(&context, tasks);
    namespaces::start(&context, tasks);
    service_accounts::start(&context, tasks);
    replicaset::start(&context, tasks);
    deployment::start(&context, tasks);
    daemonset::start(&context, tasks);
    job::start(&context, tasks);
    context.informers.start(tasks);
}
