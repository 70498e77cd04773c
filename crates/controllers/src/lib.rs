//! Kubernetes' own controllers, each a module that serves every logical cluster at once: a pure
//! decision over what the informers know, and thin effects.

mod context;
mod daemonset;
mod deployment;
pub mod endpoints;
mod garbage;
mod job;
mod meta;
mod namespaces;
pub mod node_lifecycle;
mod pod_control;
mod pods;
mod replicaset;
mod scale;
pub mod scheduler;
mod service_accounts;
mod template;

pub use context::{Context, Options};

use controller_runtime::{Client, Informers};
use runtime::TaskSet;
use std::sync::Arc;

/// Starts every controller. They stop on the set's shutdown signal.
///
/// `client` acts as the controllers: it may list and watch every logical cluster and write in each.
/// The caller starts `informers` once everyone has asked for theirs.
pub fn run(client: &Client, informers: &Arc<Informers>, options: Options, tasks: &mut TaskSet) {
    let context = Context { client: client.clone(), informers: informers.clone(), options };
    // First, because it says which kinds are kept without their contents.
    garbage::start(&context, tasks);
    namespaces::start(&context, tasks);
    service_accounts::start(&context, tasks);
    replicaset::start(&context, tasks);
    deployment::start(&context, tasks);
    daemonset::start(&context, tasks);
    job::start(&context, tasks);
    let (informers, options) = (&context.informers, &context.options);
    let events = context.recorder("default-scheduler", tasks);
    scheduler::spawn(&context.client, informers, events, options.scheduler, tasks);
    let events = context.recorder("node-controller", tasks);
    node_lifecycle::spawn(&context.client, informers, events, options.node_lifecycle, tasks);
    endpoints::spawn(&context.client, informers, options.endpoints, tasks);
}
