//! Stops one container: hook, signal, and force when its time is over.

use super::context::Context;
use super::model::{Role, container};
use super::probe::{self, Target};
use k8s_openapi::api::core::v1::Pod;
use rustix::process::Signal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// What to stop.
pub(crate) struct StopJob {
    pub(crate) pod: Arc<Pod>,
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) address: String,
    pub(crate) grace: Duration,
}

/// Stops a container; its end is reported by whoever waits for it.
pub(crate) async fn stop(context: Arc<Context>, job: StopJob) {
    let deadline = tokio::time::Instant::now() + job.grace;
    if let Some((role, spec)) = container(&job.pod, &job.name)
        && let Some(hook) = spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref())
    {
        let target = Target { id: &job.id, address: &job.address, ports: spec.ports.as_deref() };
        if let Err(message) = probe::hook(&*context.engine, hook, &target, job.grace).await {
            let about = Some((role != Role::App, spec.name.as_str()));
            context.recorder.pod(&job.pod, about, true, "FailedPreStopHook", format!("PreStopHook failed: {message}"));
        }
    }
    context.engine.signal(&job.id, Signal::TERM);
    // A hook that used the time up leaves a moment to react to the signal.
    let deadline = deadline.max(tokio::time::Instant::now() + Duration::from_secs(1));
    if tokio::time::timeout_at(deadline, context.engine.wait(&job.id)).await.is_err() {
        context.engine.kill(&job.id);
    }
}

/// What a container wrote to its termination message file.
pub(crate) async fn message(file: &Path, max: u64) -> String {
    let mut text = Vec::new();
    if let Ok(file) = tokio::fs::File::open(file).await {
        let _ = file.take(max).read_to_end(&mut text).await;
    }
    String::from_utf8_lossy(&text).into_owned()
}
