//! One Pod's worker: carries out what the plan says, takes in what its tasks report, and keeps the
//! Pod's status written.

use super::context::Context;
use super::model::{ContainerState, Ended, Phase, PodState, Role, Sandbox, container, containers};
use super::plan::{Action, crash_delay, is_terminating, plan, retry_delay};
use super::sandbox::{self, SandboxTokens};
use super::start::{self, Job, message_file};
use super::status::status;
use super::stop::{self, StopJob};
use super::views::{ContainerView, PodView};
use super::{probe, start::address};
use crate::container::ExitStatus;
use crate::net::pods::PodNetwork;
use controller_runtime::{ApiKind, DeleteOptions, Patch};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

/// What is wanted of a Pod.
#[derive(Clone, Debug)]
pub(crate) struct Desired {
    /// The object, as last seen.
    pub(crate) pod: Arc<Pod>,
    /// It is gone from the API server.
    pub(crate) gone: bool,
}

/// Which probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeKind {
    Startup,
    Liveness,
    Readiness,
}

/// What a Pod's task tells its worker.
#[derive(Debug)]
pub(crate) enum Report {
    /// Network and volumes are there, or not.
    SetUp(Result<Option<PodNetwork>, String>),
    /// Network and volumes are gone.
    TornDown,
    /// Files of the volumes were made anew.
    Refreshed,
    Pulled {
        name: String,
        image_id: String,
    },
    Started {
        name: String,
        id: String,
        at: Timestamp,
    },
    /// It never ran, for a reason that may pass.
    StartFailed {
        name: String,
        reason: &'static str,
        message: String,
    },
    /// Its process could not be started: it counts as ended.
    NotStarted {
        name: String,
        message: String,
    },
    CalledOff {
        name: String,
    },
    Exited {
        name: String,
        id: String,
        status: Option<ExitStatus>,
        message: String,
    },
    Probe {
        name: String,
        id: String,
        kind: ProbeKind,
        verdict: Option<bool>,
        message: String,
    },
}

struct Worker {
    context: Arc<Context>,
    pod: Arc<Pod>,
    state: PodState,
    network: Option<PodNetwork>,
    tokens: SandboxTokens,
    tasks: JoinSet<()>,
    reports: mpsc::Sender<Report>,
    call_offs: BTreeMap<String, Arc<Notify>>,
    probes: BTreeMap<String, Vec<AbortHandle>>,
    written: Option<Value>,
    /// The Pod had ended before this worker began.
    settled: bool,
    refresh_at: Timestamp,
}

/// Runs a Pod until it is deleted. Dropping the future aborts its tasks.
pub(crate) async fn run(context: Arc<Context>, mut desired: watch::Receiver<Desired>) {
    let pod = desired.borrow_and_update().pod.clone();
    let (reports, mut inbox) = mpsc::channel(context.options.reports);
    let settled =
        matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"));
    let now = Timestamp::now();
    let mut worker = Worker {
        refresh_at: now + signed(context.options.refresh),
        context,
        pod,
        state: PodState::default(),
        network: None,
        tokens: SandboxTokens::default(),
        tasks: JoinSet::new(),
        reports,
        call_offs: BTreeMap::new(),
        probes: BTreeMap::new(),
        written: None,
        settled,
    };
    worker.state.accepted_at =
        Some(worker.pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map_or(now, |time| time.0));
    if settled {
        worker.state.sandbox = Sandbox::Removed;
        // Nothing of it is to be run again.
        worker.state.failed = Some((String::new(), String::new()));
    }
    loop {
        let wake_at = worker.act(Timestamp::now()).await;
        if worker.state.deleted {
            break;
        }
        worker.publish();
        let retry = !worker.write().await;
        let now = Timestamp::now();
        let mut until = wake_at.map_or(Duration::from_secs(3600), |at| unsigned(at.duration_since(now)));
        if retry {
            until = until.min(worker.context.options.retry);
        }
        if worker.state.sandbox == Sandbox::Ready && super::volumes::changes(&worker.pod) {
            until = until.min(unsigned(worker.refresh_at.duration_since(now)));
        }
        tokio::select! {
            Some(report) = inbox.recv() => worker.take(report, Timestamp::now()),
            changed = desired.changed() => {
                if changed.is_err() {
                    break;
                }
                let next = desired.borrow_and_update().clone();
                worker.pod = next.pod;
                worker.state.gone |= next.gone;
            }
            Some(_) = worker.tasks.join_next() => {}
            () = tokio::time::sleep(until.max(Duration::from_millis(1))) => worker.tick(Timestamp::now()),
        }
        // Whatever else is there already is part of the same step.
        while let Ok(report) = inbox.try_recv() {
            worker.take(report, Timestamp::now());
        }
    }
    worker.tasks.shutdown().await;
    worker.forget().await;
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

fn unsigned(duration: SignedDuration) -> Duration {
    Duration::try_from(duration).unwrap_or(Duration::ZERO)
}

impl Worker {
    fn uid(&self) -> String {
        self.pod.metadata.uid.clone().unwrap_or_default()
    }

    fn own(&mut self, name: &str) -> &mut ContainerState {
        self.state.containers.entry(name.to_owned()).or_default()
    }

    /// Carries out the plan until it asks for nothing more; returns when to look again.
    async fn act(&mut self, now: Timestamp) -> Option<Timestamp> {
        // Every action changes the state that the plan is made from; the bound is a safety net.
        for _ in 0..64 {
            let plan = plan(&self.pod, &self.state, now);
            if plan.actions.is_empty() {
                return self.pulls_wake(plan.wake_at);
            }
            for action in plan.actions {
                self.perform(action).await;
            }
            if self.state.deleted {
                return None;
            }
        }
        Some(now + signed(self.context.options.retry))
    }

    /// A failed pull shows as such for a moment, and then that it will be tried again.
    fn pulls_wake(&self, wake_at: Option<Timestamp>) -> Option<Timestamp> {
        let failed = self
            .state
            .containers
            .values()
            .filter(|own| matches!(&own.phase, Phase::Waiting { reason, .. } if reason == "ErrImagePull"));
        let soonest = failed.filter_map(|own| Some(own.retry_at? - retry_delay(own.failures) + PULL_ERROR_SHOWN)).min();
        match (wake_at, soonest) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn tick(&mut self, now: Timestamp) {
        for (name, own) in &mut self.state.containers {
            let Some(retry_at) = own.retry_at else { continue };
            if let Phase::Waiting { reason, message } = &mut own.phase
                && reason == "ErrImagePull"
                && now >= retry_at - retry_delay(own.failures) + PULL_ERROR_SHOWN
            {
                let image = container(&self.pod, name).and_then(|(_, spec)| spec.image.clone()).unwrap_or_default();
                *reason = "ImagePullBackOff".into();
                *message = format!("Back-off pulling image {image:?}: ErrImagePull: {message}");
                let role = container(&self.pod, name).map_or(Role::App, |(role, _)| role);
                let about = Some((role != Role::App, name.as_str()));
                let text = format!("Back-off pulling image {image:?}");
                self.context.recorder.pod(&self.pod, about, false, "BackOff", text);
            }
        }
        if now >= self.refresh_at {
            self.refresh_at = now + signed(self.context.options.refresh);
            if self.state.sandbox == Sandbox::Ready && super::volumes::changes(&self.pod) {
                let (context, pod, reports) = (self.context.clone(), self.pod.clone(), self.reports.clone());
                let (tokens, address) = (self.tokens.clone(), self.state.address);
                self.tasks.spawn(async move {
                    if let Err(message) = sandbox::volumes(&context, &pod, address, &tokens).await {
                        context.recorder.pod(&pod, None, true, "FailedMount", message);
                    }
                    let _ = reports.send(Report::Refreshed).await;
                });
            }
        }
    }

    async fn perform(&mut self, action: Action) {
        match action {
            Action::SetUp => {
                self.state.sandbox = Sandbox::Making;
                let (context, pod, reports) = (self.context.clone(), self.pod.clone(), self.reports.clone());
                let tokens = self.tokens.clone();
                self.tasks.spawn(async move {
                    let made = sandbox::set_up(&context, &pod, &tokens).await;
                    if let Err(message) = &made {
                        context.recorder.pod(&pod, None, true, "FailedMount", message.clone());
                    }
                    let _ = reports.send(Report::SetUp(made)).await;
                });
            }
            Action::Start(name) => self.start(name),
            Action::Stop { name, grace } => {
                let role = container(&self.pod, &name).map_or(Role::App, |(role, _)| role);
                let about = Some((role != Role::App, name.as_str()));
                self.context.recorder.pod(&self.pod, about, false, "Killing", format!("Stopping container {name}"));
                self.stop(&name, grace);
            }
            Action::CallOff(name) => {
                if let Some(call_off) = self.call_offs.get(&name) {
                    call_off.notify_one();
                }
                // The start reports how it ended; until then it cannot be called off again.
                self.own(&name).phase = Phase::Starting { pulled: true };
            }
            Action::TearDown => {
                self.state.sandbox = Sandbox::Removing;
                let (context, uid, reports) = (self.context.clone(), self.uid(), self.reports.clone());
                let network = self.network.take();
                self.tasks.spawn(async move {
                    sandbox::tear_down(&context, &uid, network).await;
                    let _ = reports.send(Report::TornDown).await;
                });
            }
            Action::Fail { reason, message } => {
                self.context.recorder.pod(&self.pod, None, false, "DeadlineExceeded", message.clone());
                self.state.failed = Some((reason, message));
            }
            Action::Delete => self.delete().await,
        }
    }

    fn start(&mut self, name: String) {
        let own = self.own(&name);
        if let Phase::Ended(ended) = &own.phase {
            own.last = Some(ended.clone());
            own.restarts = own.restarts.saturating_add(1);
        }
        own.phase = Phase::Starting { pulled: false };
        own.retry_at = None;
        let attempt = own.restarts;
        let call_off = Arc::new(Notify::new());
        self.call_offs.insert(name.clone(), call_off.clone());
        let job = Job { pod: self.pod.clone(), name, attempt, network: self.network.clone(), call_off };
        self.tasks.spawn(start::start(self.context.clone(), job, self.reports.clone()));
    }

    fn stop(&mut self, name: &str, grace: i64) {
        let Phase::Running { id, stopping, ready, .. } = &mut self.own(name).phase else { return };
        *stopping = true;
        *ready = false;
        let id = id.clone();
        self.end_probes(name);
        let job = StopJob {
            pod: self.pod.clone(),
            name: name.to_owned(),
            id,
            address: address(&self.context, self.network.as_ref()),
            grace: Duration::from_secs(u64::try_from(grace).unwrap_or(1)),
        };
        self.tasks.spawn(stop::stop(self.context.clone(), job));
    }

    fn end_probes(&mut self, name: &str) {
        for probe in self.probes.remove(name).unwrap_or_default() {
            probe.abort();
        }
    }

    fn probe(&mut self, name: &str, id: &str, kinds: &[ProbeKind]) {
        let Some((_, spec)) = container(&self.pod, name) else { return };
        let mut started = Vec::new();
        for kind in kinds {
            let probe = match kind {
                ProbeKind::Startup => &spec.startup_probe,
                ProbeKind::Liveness => &spec.liveness_probe,
                ProbeKind::Readiness => &spec.readiness_probe,
            };
            let Some(probe) = probe.clone() else { continue };
            started.push(self.tasks.spawn(probe::watch(
                self.context.engine.clone(),
                *kind,
                probe,
                name.to_owned(),
                id.to_owned(),
                address(&self.context, self.network.as_ref()),
                spec.ports.clone(),
                self.reports.clone(),
            )));
        }
        self.probes.entry(name.to_owned()).or_default().extend(started);
    }

    /// Takes a report in.
    fn take(&mut self, report: Report, now: Timestamp) {
        match report {
            Report::SetUp(Ok(network)) => {
                self.state.address = network.as_ref().map(|network| network.address);
                self.network = network;
                self.state.sandbox = Sandbox::Ready;
                self.state.sandbox_failures = 0;
            }
            Report::SetUp(Err(_)) => {
                self.state.sandbox_failures = self.state.sandbox_failures.saturating_add(1);
                let delay = SignedDuration::from_secs(1 << self.state.sandbox_failures.min(6));
                self.state.sandbox = Sandbox::Failed(now + delay);
            }
            Report::TornDown => self.state.sandbox = Sandbox::Removed,
            Report::Refreshed => {}
            Report::Pulled { name, image_id } => {
                let own = self.own(&name);
                own.image_id = image_id;
                own.phase = Phase::Starting { pulled: true };
            }
            Report::CalledOff { name } => {
                self.own(&name).phase = Phase::Waiting { reason: String::new(), message: String::new() };
            }
            Report::StartFailed { name, reason, message } => {
                let own = self.own(&name);
                own.failures = own.failures.saturating_add(1);
                own.retry_at = Some(now + retry_delay(own.failures));
                own.phase = Phase::Waiting { reason: reason.to_owned(), message };
            }
            Report::NotStarted { name, message } => {
                self.ended(&name, String::new(), 128, None, "StartError", message, now, now);
            }
            Report::Started { name, id, at } => self.started(&name, id, at),
            Report::Exited { name, id, status, message } => self.exited(&name, &id, status, message, now),
            Report::Probe { name, id, kind, verdict, message } => self.probed(&name, &id, kind, verdict, &message),
        }
    }

    fn started(&mut self, name: &str, id: String, at: Timestamp) {
        let spec = container(&self.pod, name).map(|(_, spec)| spec);
        let has = |kind: ProbeKind| {
            spec.is_some_and(|spec| match kind {
                ProbeKind::Startup => spec.startup_probe.is_some(),
                ProbeKind::Liveness => spec.liveness_probe.is_some(),
                ProbeKind::Readiness => spec.readiness_probe.is_some(),
            })
        };
        let (waits, ready) = (has(ProbeKind::Startup), !has(ProbeKind::Readiness));
        let own = self.own(name);
        own.phase = Phase::Running { id: id.clone(), started_at: at, started: !waits, ready, stopping: false };
        let kinds: &[ProbeKind] =
            if waits { &[ProbeKind::Startup] } else { &[ProbeKind::Liveness, ProbeKind::Readiness] };
        self.probe(name, &id, kinds);
        let attempt = self.own(name).restarts;
        let file = message_file(&self.context.pod_dir(&self.uid()), name, attempt);
        let (context, reports, name) = (self.context.clone(), self.reports.clone(), name.to_owned());
        self.tasks.spawn(async move {
            let status = context.engine.wait(&id).await;
            let message = stop::message(&file, context.options.max_message).await;
            context.engine.remove(&id).await;
            let _ = reports.send(Report::Exited { name, id, status, message }).await;
        });
    }

    fn exited(&mut self, name: &str, id: &str, status: Option<ExitStatus>, message: String, now: Timestamp) {
        let Phase::Running { id: running, started_at, .. } = &self.own(name).phase else { return };
        if running != id {
            return;
        }
        let started_at = *started_at;
        self.end_probes(name);
        let (code, signal, killed, at) = match status {
            Some(status) => (status.code, status.signal, status.oom_killed, status.finished_at),
            None => (137, None, false, now),
        };
        let reason = match (killed, code) {
            (true, _) => "OOMKilled",
            (_, 0) => "Completed",
            _ => "Error",
        };
        self.ended(name, id.to_owned(), code, signal, reason, message, started_at, at);
    }

    #[allow(clippy::too_many_arguments)]
    fn ended(
        &mut self,
        name: &str,
        id: String,
        code: i32,
        signal: Option<i32>,
        reason: &str,
        message: String,
        started_at: Timestamp,
        finished_at: Timestamp,
    ) {
        let stable = signed(self.context.options.stable_after);
        let own = self.own(name);
        let lasted = finished_at.duration_since(started_at) >= stable;
        own.failures = if lasted { 1 } else { own.failures.saturating_add(1) };
        own.retry_at = Some(finished_at + crash_delay(own.failures));
        let backs_off = own.failures > 1;
        own.phase =
            Phase::Ended(Ended { id, code, signal, reason: reason.to_owned(), message, started_at, finished_at });
        if backs_off && !is_terminating(&self.pod, &self.state) && !super::plan::is_finished(&self.pod, &self.state) {
            let role = container(&self.pod, name).map_or(Role::App, |(role, _)| role);
            let metadata = &self.pod.metadata;
            let text = format!(
                "Back-off restarting failed container {name} in pod {}_{}({})",
                metadata.name.as_deref().unwrap_or_default(),
                metadata.namespace.as_deref().unwrap_or_default(),
                metadata.uid.as_deref().unwrap_or_default(),
            );
            self.context.recorder.pod(&self.pod, Some((role != Role::App, name)), true, "BackOff", text);
        }
    }

    fn probed(&mut self, name: &str, id: &str, kind: ProbeKind, verdict: Option<bool>, message: &str) {
        let role = container(&self.pod, name).map_or(Role::App, |(role, _)| role);
        let own = self.own(name);
        let Phase::Running { id: running, started, ready, stopping: false, .. } = &mut own.phase else { return };
        if running != id {
            return;
        }
        match (kind, verdict) {
            (ProbeKind::Startup, Some(true)) => *started = true,
            (ProbeKind::Readiness, Some(ok)) => *ready = ok,
            _ => {}
        }
        let word = match kind {
            ProbeKind::Startup => "Startup",
            ProbeKind::Liveness => "Liveness",
            ProbeKind::Readiness => "Readiness",
        };
        let about = Some((role != Role::App, name));
        if !message.is_empty() {
            let text = format!("{word} probe failed: {message}");
            self.context.recorder.pod(&self.pod, about, true, "Unhealthy", text);
        }
        if kind == ProbeKind::Startup && verdict == Some(true) {
            self.probe(name, id, &[ProbeKind::Liveness, ProbeKind::Readiness]);
        }
        if verdict == Some(false) && kind != ProbeKind::Readiness {
            let text = format!("Container {name} failed {} probe, will be restarted", word.to_ascii_lowercase());
            self.context.recorder.pod(&self.pod, about, false, "Killing", text);
            let spec = self.pod.spec.as_ref();
            let grace = spec.and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
            self.stop(name, grace.max(1));
        }
    }

    /// Shows others which containers there are.
    fn publish(&self) {
        let metadata = &self.pod.metadata;
        let view = |spec: &k8s_openapi::api::core::v1::Container| {
            let own = self.state.container(&spec.name);
            let id = match &own.phase {
                Phase::Running { id, .. } => Some(id.clone()),
                _ => None,
            };
            let begun = id.is_some() || own.last.is_some() || matches!(own.phase, Phase::Ended(_));
            // While the next one is only being started, the newest log is that of the one before.
            let starting = matches!(own.phase, Phase::Starting { .. }) && own.restarts > 0;
            let attempt = if starting { own.restarts - 1 } else { own.restarts };
            ContainerView { id, attempt, begun, tty: spec.tty == Some(true), stdin: spec.stdin == Some(true) }
        };
        let view = PodView {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            namespace_file: self.network.as_ref().map(|network| network.namespace.clone()),
            containers: containers(&self.pod).map(|(_, spec)| (spec.name.clone(), view(spec))).collect(),
        };
        self.context.views.set(&self.uid(), view);
    }

    /// Writes the status if it is not what was last written; false when that failed.
    async fn write(&mut self) -> bool {
        if self.settled || self.state.gone {
            return true;
        }
        let status = status(&self.pod, &self.state, &self.context.host, Timestamp::now());
        // Times of conditions alone are no news.
        if self.written.as_ref().is_some_and(|written| without_times(written) == without_times(&status)) {
            return true;
        }
        let metadata = &self.pod.metadata;
        let (namespace, name) =
            (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default());
        let patch = Patch::Strategic(json!({"metadata": {"uid": metadata.uid}, "status": status}));
        let pods = self.context.client.dynamic(ApiKind::of::<Pod>());
        match pods.patch_subresource(namespace, name, "status", &patch).await {
            Ok(_) => {
                self.written = Some(status);
                true
            }
            Err(error) if error.is_not_found() || error.is_conflict() => {
                // The watch will tell what became of it.
                tracing::debug!(pod = name, error = runtime::error_chain(&error), "the status was not taken");
                !error.is_conflict()
            }
            Err(error) => {
                tracing::warn!(pod = name, error = runtime::error_chain(&error), "cannot write a Pod's status");
                false
            }
        }
    }

    /// Deletes the object; tried again until it is gone.
    async fn delete(&mut self) {
        while !self.state.gone {
            self.write().await;
            let metadata = &self.pod.metadata;
            let options = DeleteOptions::of_uid(self.uid()).with_grace_period(0);
            let (namespace, name) =
                (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default());
            match self.context.client.delete::<Pod>(namespace, name, &options).await {
                Ok(()) => break,
                Err(error) if error.is_not_found() || error.is_conflict() => break,
                Err(error) => {
                    tracing::warn!(pod = name, error = runtime::error_chain(&error), "cannot delete a Pod");
                    tokio::time::sleep(self.context.options.retry).await;
                }
            }
        }
        self.state.deleted = true;
    }

    /// Removes what the node still has of the Pod.
    async fn forget(&mut self) {
        let uid = self.uid();
        self.context.views.remove(&uid);
        if let Some(network) = self.network.take() {
            sandbox::tear_down(&self.context, &uid, Some(network)).await;
        }
        let metadata = &self.pod.metadata;
        let logs = crate::container::logs::pod_directory(
            &self.context.log_root,
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
            &uid,
        );
        let dir = self.context.pod_dir(&uid);
        let _ = tokio::task::spawn_blocking(move || {
            let _ = std::fs::remove_dir_all(logs);
            let _ = std::fs::remove_dir_all(dir);
        })
        .await;
    }
}

/// How long a failed pull shows as `ErrImagePull`.
const PULL_ERROR_SHOWN: SignedDuration = SignedDuration::from_secs(2);

fn without_times(status: &Value) -> Value {
    let mut status = status.clone();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = Value::Null;
    }
    status
}
