//! Decides what to do next for a Pod, from what is wanted and what is. No I/O, no clock.

use super::model::{ContainerState, Phase, PodState, Role, Sandbox, containers};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make the network and the volumes.
    SetUp,
    /// Pull, create and start a container.
    Start(String),
    /// Stop a container within so many seconds.
    Stop { name: String, grace: i64 },
    /// Call a start off that still pulls.
    CallOff(String),
    /// Remove the network and the volumes.
    TearDown,
    /// Delete the object: nothing of the Pod is left.
    Delete,
    /// The Pod has failed as a whole.
    Fail { reason: String, message: String },
}

/// What to do, and when to look again though nothing happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    pub(crate) wake_at: Option<Timestamp>,
}

impl Plan {
    fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }
}

/// The delay before a container that failed so often in a row is started again: none at first, then
/// ten seconds, doubled each time, at most five minutes.
pub(crate) fn crash_delay(failures: u32) -> SignedDuration {
    match failures {
        0 | 1 => SignedDuration::ZERO,
        n => SignedDuration::from_secs((10 << (n - 2).min(5)).min(300)),
    }
}

/// The delay before a start that could not be made is tried again.
pub(crate) fn retry_delay(failures: u32) -> SignedDuration {
    SignedDuration::from_secs((10 << failures.saturating_sub(1).min(5)).min(300))
}

/// Whether a container that ended with this code is to run again.
pub(crate) fn restarts(policy: &str, role: Role, code: i32) -> bool {
    match (role, policy) {
        (Role::Sidecar, _) | (Role::App, "Always") => true,
        (_, "Never") => false,
        _ => code != 0,
    }
}

/// The Pod's restart policy.
pub(crate) fn policy(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always")
}

/// Whether the Pod was asked to end.
pub(crate) fn is_terminating(pod: &Pod, state: &PodState) -> bool {
    state.gone || pod.metadata.deletion_timestamp.is_some()
}

/// Whether no container of the Pod will run again by itself, though the Pod was not asked to end.
pub(crate) fn is_finished(pod: &Pod, state: &PodState) -> bool {
    if state.failed.is_some() {
        return true;
    }
    let policy = policy(pod);
    let mut apps = 0;
    for (role, container) in containers(pod) {
        let state = state.container(&container.name);
        let over = match &state.phase {
            Phase::Ended(ended) => !restarts(policy, role, ended.code),
            _ => false,
        };
        match role {
            Role::Init if over && matches!(&state.phase, Phase::Ended(ended) if ended.code != 0) => return true,
            Role::App if !over => return false,
            Role::App => apps += 1,
            _ => {}
        }
    }
    apps > 0
}

/// How long the Pod's containers have to stop, seconds.
fn grace(pod: &Pod, state: &PodState) -> i64 {
    if state.gone {
        return 1;
    }
    let spec = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    pod.metadata.deletion_grace_period_seconds.or(spec).unwrap_or(30).max(1)
}

/// Decides what to do next.
pub(crate) fn plan(pod: &Pod, state: &PodState, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if is_terminating(pod, state) {
        stop_all(pod, state, &mut plan);
        if plan.actions.is_empty() && state.is_quiet() {
            match state.sandbox {
                Sandbox::Removed if !state.deleted => plan.actions.push(Action::Delete),
                Sandbox::Removed | Sandbox::Removing | Sandbox::Making => {}
                _ => plan.actions.push(Action::TearDown),
            }
        }
        return plan;
    }
    if is_finished(pod, state) {
        stop_all(pod, state, &mut plan);
        if plan.actions.is_empty() && state.is_quiet() && matches!(state.sandbox, Sandbox::Ready | Sandbox::Failed(_)) {
            plan.actions.push(Action::TearDown);
        }
        return plan;
    }
    if let (Some(limit), Some(since)) =
        (pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds), state.accepted_at)
    {
        let deadline = since + SignedDuration::from_secs(limit);
        if now >= deadline {
            let (reason, message) =
                ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline");
            plan.actions.push(Action::Fail { reason: reason.into(), message: message.into() });
            return plan;
        }
        plan.wake(deadline);
    }
    match state.sandbox {
        Sandbox::None => plan.actions.push(Action::SetUp),
        Sandbox::Failed(at) if at <= now => plan.actions.push(Action::SetUp),
        Sandbox::Failed(at) => plan.wake(at),
        Sandbox::Ready => start_some(pod, state, now, &mut plan),
        Sandbox::Making | Sandbox::Removing | Sandbox::Removed => {}
    }
    plan
}

fn start_some(pod: &Pod, state: &PodState, now: Timestamp, plan: &mut Plan) {
    let policy = policy(pod);
    for (role, container) in containers(pod) {
        let own = state.container(&container.name);
        let wanted = match &own.phase {
            Phase::Waiting { .. } => true,
            Phase::Ended(ended) => restarts(policy, role, ended.code),
            Phase::Starting { .. } | Phase::Running { .. } => false,
        };
        if wanted {
            start(&container.name, &own, now, plan);
        }
        // What comes later in the order waits for init containers to end well and for sidecars to
        // have started.
        let passed = match (role, &own.phase) {
            (Role::App, _) => true,
            (Role::Init, Phase::Ended(ended)) => ended.code == 0,
            (Role::Sidecar, Phase::Running { started, .. }) => *started,
            // A sidecar that crashed later on does not hold up what runs already.
            (Role::Sidecar, _) => own.restarts > 0 && initialized(pod, state),
            (Role::Init, _) => false,
        };
        if !passed {
            return;
        }
    }
}

/// Whether an app container was ever begun, so that the init containers have done their part.
pub(crate) fn initialized(pod: &Pod, state: &PodState) -> bool {
    containers(pod).any(|(role, container)| {
        let own = state.container(&container.name);
        role == Role::App && (own.is_active() || own.last.is_some() || matches!(own.phase, Phase::Ended(_)))
    })
}

fn start(name: &str, state: &ContainerState, now: Timestamp, plan: &mut Plan) {
    match state.retry_at {
        Some(at) if at > now => plan.wake(at),
        _ => plan.actions.push(Action::Start(name.to_owned())),
    }
}

/// Stops app containers and init containers at once, then sidecars, the last first.
fn stop_all(pod: &Pod, state: &PodState, plan: &mut Plan) {
    let grace = grace(pod, state);
    let stop = |name: &str, plan: &mut Plan| match state.container(name).phase {
        Phase::Running { stopping: false, .. } => {
            plan.actions.push(Action::Stop { name: name.to_owned(), grace });
            true
        }
        Phase::Starting { pulled: false } => {
            plan.actions.push(Action::CallOff(name.to_owned()));
            true
        }
        Phase::Running { .. } | Phase::Starting { .. } => true,
        _ => false,
    };
    let mut busy = false;
    for (role, container) in containers(pod) {
        if role != Role::Sidecar {
            busy |= stop(&container.name, plan);
        }
    }
    let mut sidecars: Vec<_> = containers(pod).filter(|(role, _)| *role == Role::Sidecar).collect();
    while let Some((_, sidecar)) = sidecars.pop()
        && !busy
    {
        busy |= stop(&sidecar.name, plan);
    }
}
