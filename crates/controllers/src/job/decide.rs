//! What a Job needs next, and its status. Without I/O.

use super::indexes;
use crate::meta::{annotation, name, uid};
use crate::pods::{deletion_rank, is_active, is_finished, is_ready, phase, restarts};
use crate::template;
use controller_runtime::EventType;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// After the first failure a new Pod waits that long, then twice as long, and so on.
const BACKOFF: SignedDuration = SignedDuration::from_secs(10);
const MAX_BACKOFF: SignedDuration = SignedDuration::from_secs(600);

/// What a Job needs next.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Its time after finishing is over: it goes.
    pub(super) expire: bool,
    /// Pods to create, with their completion indexes.
    pub(super) create: Vec<Option<i32>>,
    pub(super) delete: Vec<Arc<Pod>>,
    pub(super) status: JobStatus,
    /// When the plan changes by the mere passing of time.
    pub(super) look_again: Option<Duration>,
    pub(super) event: Option<(EventType, &'static str, String)>,
}

fn condition<'a>(status: &'a JobStatus, type_: &str) -> Option<&'a JobCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

fn is(status: &JobStatus, type_: &str) -> bool {
    condition(status, type_).is_some_and(|condition| condition.status == "True")
}

fn set(status: &mut JobStatus, type_: &str, value: &str, reason: &str, message: &str, now: Timestamp) {
    let condition = JobCondition {
        type_: type_.to_owned(),
        status: value.to_owned(),
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
        message: (!message.is_empty()).then(|| message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|known| known.type_ == type_) {
        Some(known) if known.status == value => {}
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

fn after(from: Timestamp, wait: SignedDuration, now: Timestamp) -> Option<Duration> {
    let left = wait - now.duration_since(from);
    (left > SignedDuration::ZERO).then(|| Duration::try_from(left).unwrap_or(Duration::ZERO))
}

fn index_of(pod: &Pod) -> Option<i32> {
    annotation(&pod.metadata, INDEX)?.parse().ok()
}

fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// When a Pod ended, as well as can be told.
fn ended(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().flatten();
    let terminated =
        containers.filter_map(|container| container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref());
    let last = terminated.map(|time| time.0).max();
    let changed = status.conditions.iter().flatten().filter_map(|known| known.last_transition_time.as_ref());
    last.or_else(|| changed.map(|time| time.0).max())
        .or_else(|| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// The counts of Pods that run.
pub(super) fn count(status: &mut JobStatus, owned: &[Arc<Pod>]) {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let active = owned.iter().filter(|pod| is_active(pod)).count();
    let ready = owned.iter().filter(|pod| is_active(pod) && is_ready(pod)).count();
    let terminating = owned.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some() && !is_finished(pod)).count();
    status.active = (active > 0).then_some(number(active));
    status.ready = Some(number(ready));
    status.terminating = Some(number(terminating));
}

/// Compares what has succeeded and failed with what is wanted.
pub(super) fn plan(job: &Job, spec: &JobSpec, owned: &[Arc<Pod>], now: Timestamp) -> Plan {
    let mut plan = Plan { status: job.status.clone().unwrap_or_default(), ..Plan::default() };
    if is(&plan.status, "Complete") || is(&plan.status, "Failed") {
        return finished(plan, spec, owned, now);
    }
    let suspended = spec.suspend == Some(true);
    if plan.status.start_time.is_none() && !suspended {
        plan.status.start_time = Some(Time(now));
    }
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let active: Vec<&Arc<Pod>> = owned.iter().filter(|pod| is_active(pod)).collect();
    // Pods that someone removed still count: what was reported once stays.
    let failed = number(owned.iter().filter(|pod| phase(pod) == "Failed").count()).max(plan.status.failed.unwrap_or(0));
    let mut done = BTreeSet::new();
    let succeeded = if is_indexed(spec) {
        let completions = spec.completions.unwrap_or(0);
        done = indexes::parse(plan.status.completed_indexes.as_deref().unwrap_or_default(), completions);
        let indexes = owned.iter().filter(|pod| phase(pod) == "Succeeded").filter_map(|pod| index_of(pod));
        done.extend(indexes.filter(|index| (0..completions).contains(index)));
        plan.status.completed_indexes = (!done.is_empty()).then(|| indexes::format(&done));
        number(done.len())
    } else {
        let now = number(owned.iter().filter(|pod| phase(pod) == "Succeeded").count());
        now.max(plan.status.succeeded.unwrap_or(0))
    };
    plan.status.failed = (failed > 0).then_some(failed);
    plan.status.succeeded = (succeeded > 0).then_some(succeeded);

    if let Some((reason, message)) = failure(&mut plan, spec, &active, failed, now) {
        return fail(plan, owned, reason, message, now);
    }
    let complete = match spec.completions {
        Some(completions) => succeeded >= completions,
        None => succeeded > 0 && active.is_empty(),
    };
    if complete {
        return succeed(plan, owned, now);
    }
    if suspended {
        plan.delete = active.into_iter().cloned().collect();
        if !is(&plan.status, "Suspended") {
            set(&mut plan.status, "Suspended", "True", "JobSuspended", "Job suspended", now);
            plan.event = Some((EventType::Normal, "Suspended", "Job suspended".to_owned()));
        }
        plan.status.start_time = None;
        count(&mut plan.status, owned);
        return plan;
    }
    if is(&plan.status, "Suspended") {
        set(&mut plan.status, "Suspended", "False", "JobResumed", "Job resumed", now);
        plan.event = Some((EventType::Normal, "Resumed", "Job resumed".to_owned()));
    }
    pods(&mut plan, spec, owned, &active, succeeded, &done, now);
    count(&mut plan.status, owned);
    plan
}

/// A Job that has ended: what still runs is stopped, and when its time is over it goes.
fn finished(mut plan: Plan, spec: &JobSpec, owned: &[Arc<Pod>], now: Timestamp) -> Plan {
    plan.delete = owned.iter().filter(|pod| is_active(pod)).cloned().collect();
    count(&mut plan.status, owned);
    let end = condition(&plan.status, "Complete").or_else(|| condition(&plan.status, "Failed"));
    let end = end.and_then(|condition| condition.last_transition_time.as_ref()).map(|time| time.0);
    if let (Some(ttl), Some(end)) = (spec.ttl_seconds_after_finished, end) {
        plan.look_again = after(end, SignedDuration::from_secs(ttl.into()), now);
        plan.expire = plan.look_again.is_none();
    }
    plan
}

/// Why the Job fails, if it does; otherwise when its deadline is.
fn failure(
    plan: &mut Plan,
    spec: &JobSpec,
    active: &[&Arc<Pod>],
    failed: i32,
    now: Timestamp,
) -> Option<(String, String)> {
    if let Some(target) = condition(&plan.status, "FailureTarget").filter(|target| target.status == "True") {
        return Some((target.reason.clone().unwrap_or_default(), target.message.clone().unwrap_or_default()));
    }
    let limit = spec.backoff_limit.unwrap_or(6);
    let restarts: i32 = match spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) {
        Some("OnFailure") => active.iter().map(|pod| restarts(pod)).sum(),
        _ => 0,
    };
    let restarted_too_often = if limit == 0 { restarts > 0 } else { restarts >= limit };
    if failed > limit || (restarts > 0 && restarted_too_often) {
        let message = "Job has reached the specified backoff limit";
        return Some(("BackoffLimitExceeded".to_owned(), message.to_owned()));
    }
    if let (Some(deadline), Some(start)) = (spec.active_deadline_seconds, &plan.status.start_time)
        && spec.suspend != Some(true)
    {
        plan.look_again = after(start.0, SignedDuration::from_secs(deadline), now);
        if plan.look_again.is_none() {
            let message = "Job was active longer than specified deadline";
            return Some(("DeadlineExceeded".to_owned(), message.to_owned()));
        }
    }
    None
}

/// Stops what runs; the Job has failed when nothing runs any more.
fn fail(mut plan: Plan, owned: &[Arc<Pod>], reason: String, message: String, now: Timestamp) -> Plan {
    plan.look_again = None;
    plan.delete = owned.iter().filter(|pod| is_active(pod)).cloned().collect();
    set(&mut plan.status, "FailureTarget", "True", &reason, &message, now);
    if owned.iter().all(|pod| is_finished(pod)) {
        set(&mut plan.status, "Failed", "True", &reason, &message, now);
        let reason = if reason == "DeadlineExceeded" { "DeadlineExceeded" } else { "BackoffLimitExceeded" };
        plan.event = Some((EventType::Warning, reason, message));
    }
    count(&mut plan.status, owned);
    plan
}

/// Stops what runs; the Job is complete when nothing runs any more.
fn succeed(mut plan: Plan, owned: &[Arc<Pod>], now: Timestamp) -> Plan {
    const REASON: &str = "CompletionsReached";
    const MESSAGE: &str = "Reached expected number of succeeded pods";
    plan.look_again = None;
    plan.delete = owned.iter().filter(|pod| is_active(pod)).cloned().collect();
    set(&mut plan.status, "SuccessCriteriaMet", "True", REASON, MESSAGE, now);
    if owned.iter().all(|pod| is_finished(pod)) {
        set(&mut plan.status, "Complete", "True", REASON, MESSAGE, now);
        plan.status.completion_time = Some(Time(now));
        plan.event = Some((EventType::Normal, "Completed", "Job completed".to_owned()));
    }
    count(&mut plan.status, owned);
    plan
}

/// Which Pods a Job that goes on lacks or has too many.
fn pods(
    plan: &mut Plan,
    spec: &JobSpec,
    owned: &[Arc<Pod>],
    active: &[&Arc<Pod>],
    succeeded: i32,
    done: &BTreeSet<i32>,
    now: Timestamp,
) {
    let parallelism = spec.parallelism.unwrap_or(1).max(0);
    let running = i32::try_from(active.len()).unwrap_or(i32::MAX);
    let wanted = match spec.completions {
        Some(completions) => parallelism.min(completions - succeeded),
        // A work queue that one Pod found empty: no more begin.
        None if succeeded > 0 => running.min(parallelism),
        None => parallelism,
    };
    let mut surplus: Vec<&Arc<Pod>> = Vec::new();
    let mut kept = active.to_vec();
    if is_indexed(spec) {
        let mut seen = done.clone();
        let (keep, more) = kept.into_iter().partition(|pod| index_of(pod).is_some_and(|index| seen.insert(index)));
        kept = keep;
        surplus = more;
    }
    let have = i32::try_from(kept.len()).unwrap_or(i32::MAX);
    if have > wanted {
        kept.sort_by_cached_key(|pod| deletion_rank(pod, 0));
        let excess = usize::try_from(have - wanted).unwrap_or(0);
        surplus.extend(kept.iter().take(excess).copied());
    }
    plan.delete = surplus.into_iter().cloned().collect();
    let lacking = usize::try_from(wanted - have).unwrap_or(0);
    if lacking == 0 {
        return;
    }
    if let Some(wait) = backoff(owned, now) {
        plan.look_again = Some(plan.look_again.map_or(wait, |known| known.min(wait)));
        return;
    }
    if is_indexed(spec) {
        let running: BTreeSet<i32> = kept.iter().filter_map(|pod| index_of(pod)).collect();
        let free = (0..spec.completions.unwrap_or(0)).filter(|index| !done.contains(index) && !running.contains(index));
        plan.create = free.take(lacking).map(Some).collect();
    } else {
        plan.create = vec![None; lacking];
    }
}

/// How long a new Pod has to wait because others failed since the last success.
fn backoff(owned: &[Arc<Pod>], now: Timestamp) -> Option<Duration> {
    let last_success = owned.iter().filter(|pod| phase(pod) == "Succeeded").filter_map(|pod| ended(pod)).max();
    let failures: Vec<Timestamp> = owned
        .iter()
        .filter(|pod| phase(pod) == "Failed")
        .filter_map(|pod| ended(pod))
        .filter(|at| last_success.is_none_or(|success| *at > success))
        .collect();
    let last = failures.iter().max()?;
    let doublings = u32::try_from(failures.len() - 1).unwrap_or(u32::MAX).min(16);
    after(*last, (BACKOFF * 2_i32.pow(doublings)).min(MAX_BACKOFF), now)
}

/// A Pod of the Job.
pub(super) fn pod(job: &Job, spec: &JobSpec, index: Option<i32>) -> Pod {
    let mut pod = template::pod(job, &spec.template);
    let job_name = name(&job.metadata);
    if spec.manual_selector != Some(true) {
        let labels = pod.metadata.labels.get_or_insert_default();
        for prefix in ["batch.kubernetes.io/", ""] {
            labels.insert(format!("{prefix}controller-uid"), uid(&job.metadata).to_owned());
            labels.insert(format!("{prefix}job-name"), job_name.to_owned());
        }
    }
    let Some(index) = index else { return pod };
    pod.metadata.generate_name = Some(format!("{job_name}-{index}-"));
    pod.metadata.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    pod.metadata.annotations.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    let body = pod.spec.get_or_insert_default();
    body.hostname = Some(format!("{job_name}-{index}"));
    for container in body.containers.iter_mut().chain(body.init_containers.iter_mut().flatten()) {
        let env = container.env.get_or_insert_default();
        if env.iter().all(|known| known.name != "JOB_COMPLETION_INDEX") {
            env.push(EnvVar {
                name: "JOB_COMPLETION_INDEX".to_owned(),
                value: None,
                value_from: Some(EnvVarSource {
                    field_ref: Some(ObjectFieldSelector {
                        api_version: None,
                        field_path: format!("metadata.annotations['{INDEX}']"),
                    }),
                    ..EnvVarSource::default()
                }),
            });
        }
    }
    pod
}
