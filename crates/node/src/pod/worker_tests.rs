//! A Pod's whole life against a fake engine and a fake API server.

use super::context::{Context, PodOptions};
use super::engine::Engine;
use super::views::Views;
use super::worker::{Desired, run};
use crate::container::{ContainerSpec, ExitStatus, Started};
use crate::events::{EventOptions, recorder};
use crate::image::{ImageConfig, PreparedImage, PullPolicy, RegistryAuth};
use async_trait::async_trait;
use bytes::Bytes;
use controller_runtime::{Body, BoxError, Client, Transport};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// Remembers the newest status and whether the Pod was deleted.
#[derive(Default)]
struct Api {
    status: Mutex<Value>,
    deleted: watch::Sender<bool>,
    seen: watch::Sender<Value>,
}

#[async_trait]
impl Transport for Api {
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Body>, BoxError> {
        let path = request.uri().path().to_owned();
        let mut answer = json!({"metadata": {"name": "x"}});
        if path.ends_with("/pods/p/status") {
            let patch: Value = serde_json::from_slice(request.body())?;
            *self.status.lock().unwrap() = patch["status"].clone();
            self.seen.send_replace(patch["status"].clone());
            answer = json!({"metadata": {"name": "p"}, "status": patch["status"]});
        } else if path.ends_with("/pods/p") && request.method() == http::Method::DELETE {
            self.deleted.send_replace(true);
        }
        let body = Full::new(Bytes::from(answer.to_string())).map_err(|never| match never {});
        Ok(http::Response::new(Body::new(body)))
    }
}

/// Containers that end when they are told to.
#[derive(Default)]
struct Fake {
    ends: Mutex<HashMap<String, watch::Sender<Option<i32>>>>,
    started: watch::Sender<u32>,
    missing: bool,
}

impl Fake {
    fn end(&self, id: &str, code: i32) {
        self.ends.lock().unwrap()[id].send_replace(Some(code));
    }
}

#[async_trait]
impl Engine for Fake {
    async fn image(&self, _: &str, policy: PullPolicy, _: Option<RegistryAuth>) -> Result<PreparedImage, String> {
        if self.missing || policy == PullPolicy::Never {
            return Err("not there".into());
        }
        Ok(PreparedImage {
            id: "sha256:1".into(),
            repo_digest: None,
            config: ImageConfig::default(),
            layers: Vec::new(),
            size: 0,
        })
    }

    async fn start(&self, _: &ContainerSpec) -> Result<Started, String> {
        let mut id = String::new();
        self.started.send_modify(|count| {
            *count += 1;
            id = count.to_string();
        });
        self.ends.lock().unwrap().insert(id.clone(), watch::Sender::new(None));
        Ok(Started { id, pid: 1 })
    }

    async fn wait(&self, id: &str) -> Option<ExitStatus> {
        let mut end = self.ends.lock().unwrap().get(id)?.subscribe();
        let code = (*end.wait_for(Option::is_some).await.ok()?)?;
        Some(ExitStatus { code, signal: None, oom_killed: false, finished_at: Timestamp::now() })
    }

    fn signal(&self, id: &str, _: Signal) {
        self.end(id, 143);
    }

    fn kill(&self, id: &str) {
        self.end(id, 137);
    }

    async fn remove(&self, _: &str) {}

    async fn run(&self, _: &str, _: Vec<String>, _: Duration) -> Result<(i32, String), String> {
        Ok((0, String::new()))
    }
}

struct Stack {
    api: Arc<Api>,
    engine: Arc<Fake>,
    desired: watch::Sender<Desired>,
    task: tokio::task::JoinHandle<()>,
    dir: tempfile::TempDir,
}

fn pod(spec: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": spec})).unwrap()
}

fn stack(spec: Value, missing: bool) -> Stack {
    let api = Arc::new(Api::default());
    let engine = Arc::new(Fake { missing, ..Fake::default() });
    let dir = tempfile::tempdir().unwrap();
    let client = Client::new(api.clone(), "c");
    let (recorder, events) = recorder(client.clone(), "n".into(), EventOptions::default());
    tokio::spawn(events);
    let context = Context {
        client,
        engine: engine.clone(),
        networks: None,
        services: None,
        recorder,
        views: Views::default(),
        options: PodOptions::default(),
        node: "n".into(),
        host: "10.0.2.15".into(),
        domain: "cluster.local".into(),
        dns: "10.96.0.10".into(),
        cpus: 1,
        memory: 1 << 28,
        root: dir.path().join("pods"),
        log_root: dir.path().join("logs"),
    };
    let (desired, receiver) = watch::channel(Desired { pod: Arc::new(pod(spec)), gone: false });
    let task = tokio::spawn(run(Arc::new(context), receiver));
    Stack { api, engine, desired, task, dir }
}

const LIMIT: Duration = Duration::from_secs(20);

impl Stack {
    async fn status(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut seen = self.api.seen.subscribe();
        match tokio::time::timeout(LIMIT, seen.wait_for(|status| holds(status))).await {
            Ok(status) => status.unwrap().clone(),
            Err(_) => panic!("{what} was not seen; last: {}", self.api.status.lock().unwrap()),
        }
    }

    async fn started(&self, count: u32) {
        let mut started = self.engine.started.subscribe();
        tokio::time::timeout(LIMIT, started.wait_for(|now| *now >= count)).await.unwrap().unwrap();
    }
}

fn simple(policy: &str) -> Value {
    json!({
        "restartPolicy": policy, "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
    })
}

#[tokio::test]
async fn a_pod_runs_restarts_and_is_deleted() {
    let stack = stack(simple("Always"), false);
    let status = stack.status("Ready", |status| status["phase"] == "Running").await;
    assert_eq!(status["containerStatuses"][0]["ready"], true);
    assert_eq!(status["containerStatuses"][0]["imageID"], "sha256:1");
    assert!(stack.dir.path().join("pods/u/volumes/v").is_dir());
    stack.engine.end("1", 3);
    stack.started(2).await;
    let status = stack
        .status("the restart", |status| {
            let own = &status["containerStatuses"][0];
            own["restartCount"] == 1 && own["state"]["running"].is_object()
        })
        .await;
    assert_eq!(status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 3);
    stack.engine.end("2", 4);
    stack
        .status("CrashLoopBackOff", |status| {
            status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        })
        .await;
    stack.desired.send_modify(|desired| {
        let mut pod = (*desired.pod).clone();
        pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::now()));
        desired.pod = Arc::new(pod);
    });
    let mut deleted = stack.api.deleted.subscribe();
    tokio::time::timeout(LIMIT, deleted.wait_for(|deleted| *deleted)).await.unwrap().unwrap();
    tokio::time::timeout(LIMIT, stack.task).await.unwrap().unwrap();
    assert!(!stack.dir.path().join("pods/u").exists());
}

#[tokio::test]
async fn a_pod_that_is_to_run_once_succeeds_or_fails() {
    for (code, phase) in [(0, "Succeeded"), (1, "Failed")] {
        let stack = stack(simple("Never"), false);
        stack.status("Running", |status| status["phase"] == "Running").await;
        stack.engine.end("1", code);
        let status = stack.status(phase, |status| status["phase"] == phase).await;
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], code);
        // Deleted without grace: the object is gone, and so is everything here.
        stack.desired.send_modify(|desired| desired.gone = true);
        tokio::time::timeout(LIMIT, stack.task).await.unwrap().unwrap();
        assert!(!*stack.api.deleted.borrow());
    }
}

#[tokio::test]
async fn a_missing_image_is_waited_for() {
    let stack = stack(simple("Always"), true);
    for reason in ["ErrImagePull", "ImagePullBackOff"] {
        let status =
            stack.status(reason, |status| status["containerStatuses"][0]["state"]["waiting"]["reason"] == reason).await;
        assert_eq!(status["phase"], "Pending");
    }
    stack.task.abort();
}

#[tokio::test]
async fn a_deleted_pod_runs_its_hook_and_ends_by_the_signal() {
    let spec =
        json!({"containers": [{"name": "c", "image": "i", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}]});
    let stack = stack(spec, false);
    stack.status("Running", |status| status["phase"] == "Running").await;
    stack.desired.send_modify(|desired| {
        let mut pod = (*desired.pod).clone();
        pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::now()));
        desired.pod = Arc::new(pod);
    });
    let status =
        stack.status("the end", |status| status["containerStatuses"][0]["state"]["terminated"].is_object()).await;
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
    tokio::time::timeout(LIMIT, stack.task).await.unwrap().unwrap();
}
