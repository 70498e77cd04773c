//! Every Pod that is bound to this node has a worker.

use super::context::Context;
use super::worker::{self, Desired};
use crate::watch::{Change, WatchOptions, follow};
use controller_runtime::ListOptions;
use k8s_openapi::api::core::v1::Pod;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinSet};

/// Follows the node's Pods and runs a worker for each. Runs for ever.
pub(crate) async fn run(context: Arc<Context>) {
    let (sender, mut changes) = mpsc::channel(64);
    let which = ListOptions::fields(format!("spec.nodeName={}", context.node));
    let follower = follow::<Pod>(context.client.clone(), which, WatchOptions::default(), sender);
    let workers = async {
        let mut pods: HashMap<String, watch::Sender<Desired>> = HashMap::new();
        let mut tasks = JoinSet::new();
        let mut uids: HashMap<Id, String> = HashMap::new();
        loop {
            tokio::select! {
                change = changes.recv() => match change {
                    None => return,
                    Some(Change::Now(pod)) => see(&context, &mut pods, &mut tasks, &mut uids, pod),
                    Some(Change::Gone(pod)) => gone(&pods, pod.metadata.uid.as_deref().unwrap_or_default()),
                    Some(Change::All(all)) => {
                        let seen: HashSet<String> = all.iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
                        for uid in pods.keys().filter(|uid| !seen.contains(*uid)) {
                            gone(&pods, uid);
                        }
                        for pod in all {
                            see(&context, &mut pods, &mut tasks, &mut uids, pod);
                        }
                    }
                },
                Some(ended) = tasks.join_next_with_id() => {
                    let id = match ended {
                        Ok((id, ())) => id,
                        Err(error) => {
                            tracing::error!(%error, "a Pod's worker failed");
                            error.id()
                        }
                    };
                    if let Some(uid) = uids.remove(&id) {
                        pods.remove(&uid);
                    }
                }
            }
        }
    };
    tokio::join!(follower, workers);
}

fn gone(pods: &HashMap<String, watch::Sender<Desired>>, uid: &str) {
    if let Some(desired) = pods.get(uid) {
        desired.send_modify(|desired| desired.gone = true);
    }
}

fn see(
    context: &Arc<Context>,
    pods: &mut HashMap<String, watch::Sender<Desired>>,
    tasks: &mut JoinSet<()>,
    uids: &mut HashMap<Id, String>,
    pod: Pod,
) {
    let Some(uid) = pod.metadata.uid.clone() else { return };
    let pod = Arc::new(pod);
    if let Some(desired) = pods.get(&uid) {
        desired.send_modify(|desired| desired.pod = pod);
        return;
    }
    let (sender, receiver) = watch::channel(Desired { pod, gone: false });
    let task = tasks.spawn(worker::run(context.clone(), receiver));
    uids.insert(task.id(), uid.clone());
    pods.insert(uid, sender);
}
