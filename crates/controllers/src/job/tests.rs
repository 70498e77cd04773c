use super::*;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::JobStatus;
use serde_json::{Value, json};

fn job(spec: Value) -> Job {
    let mut spec_value = json!({"template": {"spec": {"containers": [{"name": "c"}], "restartPolicy": "Never"}}});
    spec_value.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": {"name": "work", "namespace": "n", "uid": "j"}, "spec": spec_value}))
        .unwrap()
}

fn pod(name: &str, phase: &str, ended: i64, index: Option<i32>) -> Arc<Pod> {
    let annotations = index.map(|index| json!({"batch.kubernetes.io/job-completion-index": index.to_string()}));
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "annotations": annotations, "creationTimestamp": at(ended)},
            "spec": {"containers": [], "nodeName": "n"},
            "status": {"phase": phase},
        }))
        .unwrap(),
    )
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn next(job: &Job, pods: &[Arc<Pod>], now: i64) -> Plan {
    plan(job, job.spec.as_ref().unwrap(), pods, at(now))
}

fn conditions(status: &JobStatus) -> Vec<&str> {
    let list = status.conditions.iter().flatten();
    list.filter(|condition| condition.status == "True").map(|condition| condition.type_.as_str()).collect()
}

#[test]
fn pods_run_side_by_side_until_enough_have_succeeded() {
    let job = job(json!({"completions": 3, "parallelism": 2}));
    assert_eq!(next(&job, &[], 0).create.len(), 2);
    let some = [pod("a", "Succeeded", 0, None), pod("b", "Succeeded", 0, None)];
    assert_eq!(next(&job, &some, 0).create.len(), 1, "no more than are lacking");
    let mut all = some.to_vec();
    all.push(pod("c", "Running", 0, None));
    let plan = next(&job, &all, 0);
    assert!(plan.create.is_empty() && conditions(&plan.status).is_empty());
    all[2] = pod("c", "Succeeded", 0, None);
    let plan = next(&job, &all, 5);
    assert_eq!(conditions(&plan.status), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!((plan.status.succeeded, plan.status.active), (Some(3), None));
    assert!(plan.status.completion_time.is_some());
}

#[test]
fn failures_wait_and_end_the_job() {
    let job = job(json!({"completions": 1, "backoffLimit": 1}));
    let one = [pod("a", "Failed", 100, None)];
    let plan = next(&job, &one, 103);
    assert_eq!((plan.create.len(), plan.look_again), (0, Some(std::time::Duration::from_secs(7))));
    assert_eq!(next(&job, &one, 111).create.len(), 1);
    let two = [pod("a", "Failed", 100, None), pod("b", "Failed", 120, None), pod("c", "Running", 121, None)];
    let plan = next(&job, &two, 125);
    assert_eq!(conditions(&plan.status), ["FailureTarget"], "one still runs");
    assert_eq!(plan.delete.len(), 1);
    let plan = next(&job, &two[..2], 125);
    assert_eq!(conditions(&plan.status), ["FailureTarget", "Failed"]);
    let failed = plan.status.conditions.as_ref().unwrap().last().unwrap();
    assert_eq!(failed.reason.as_deref(), Some("BackoffLimitExceeded"));
}

#[test]
fn a_deadline_ends_it() {
    let mut job = job(json!({"completions": 1, "activeDeadlineSeconds": 10}));
    let plan = next(&job, &[], 100);
    assert_eq!(plan.look_again, Some(std::time::Duration::from_secs(10)));
    job.status = Some(plan.status);
    let plan = next(&job, &[], 110);
    assert_eq!(conditions(&plan.status), ["FailureTarget", "Failed"]);
    assert_eq!(plan.event.unwrap().1, "DeadlineExceeded");
}

#[test]
fn a_finished_job_goes_after_its_time() {
    let mut job = job(json!({"completions": 1, "ttlSecondsAfterFinished": 60}));
    job.status = Some(next(&job, &[pod("a", "Succeeded", 0, None)], 100).status);
    let plan = next(&job, &[], 130);
    assert_eq!((plan.expire, plan.look_again), (false, Some(std::time::Duration::from_secs(30))));
    assert_eq!(plan.status.succeeded, Some(1), "what was reported stays");
    assert!(next(&job, &[], 160).expire);
}

#[test]
fn every_index_runs_once() {
    let job = job(json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed"}));
    let pods = [pod("a", "Succeeded", 0, Some(1)), pod("b", "Running", 0, Some(2)), pod("c", "Running", 0, Some(2))];
    let plan = next(&job, &pods, 0);
    assert_eq!(plan.create, [Some(0), Some(3)]);
    assert_eq!(plan.delete.len(), 1, "a second of the same index");
    assert_eq!(plan.status.completed_indexes.as_deref(), Some("1"));
    let made = decide::pod(&job, job.spec.as_ref().unwrap(), Some(3));
    assert_eq!(made.metadata.generate_name.as_deref(), Some("work-3-"));
    assert_eq!(made.spec.unwrap().containers[0].env.as_ref().unwrap()[0].name, "JOB_COMPLETION_INDEX");
}

#[test]
fn a_suspended_job_runs_nothing() {
    let mut job = job(json!({"completions": 1, "suspend": true}));
    let plan = next(&job, &[pod("a", "Running", 0, None)], 0);
    assert_eq!((plan.delete.len(), plan.create.len()), (1, 0));
    assert_eq!(conditions(&plan.status), ["Suspended"]);
    assert_eq!(plan.status.start_time, None);
    job.status = Some(plan.status);
    job.spec.as_mut().unwrap().suspend = Some(false);
    let plan = next(&job, &[], 9);
    assert!(conditions(&plan.status).is_empty());
    assert_eq!(plan.create.len(), 1);
}

#[test]
fn a_work_queue_is_done_when_one_has_succeeded_and_none_runs() {
    let job = job(json!({"parallelism": 2}));
    let pods = [pod("a", "Succeeded", 0, None), pod("b", "Running", 0, None)];
    let plan = next(&job, &pods, 0);
    assert!(plan.create.is_empty() && plan.delete.is_empty() && conditions(&plan.status).is_empty());
    assert_eq!(conditions(&next(&job, &pods[..1], 0).status), ["SuccessCriteriaMet", "Complete"]);
}
