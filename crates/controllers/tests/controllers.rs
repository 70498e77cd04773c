//! The controllers together, against an API server in memory; the tests play the nodes' part.

#![allow(clippy::unwrap_used, reason = "a test stops where something is missing")]

use controller_runtime::{Client, DeleteOptions, FakeApi, InformerOptions, Informers, ListOptions, Patch, Propagation};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, ServiceAccount};
use runtime::{Shutdown, TaskSet};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

struct Stack {
    client: Client,
    tasks: TaskSet,
}

impl Stack {
    fn start() -> Self {
        let api = Arc::new(FakeApi::default());
        let client = Client::new(api, "one");
        let mut tasks = TaskSet::new(Shutdown::new());
        let options = controllers::Options::new(apimachinery::builtin::definitions(), "the authority");
        let informers = Arc::new(Informers::new(&client, InformerOptions::default()));
        controllers::run(&client, &informers, options, &mut tasks);
        informers.start(&mut tasks);
        Self { client, tasks }
    }

    async fn stop(self) {
        self.tasks.shutdown().trigger();
        self.tasks.join(Duration::from_secs(10)).await.unwrap();
    }

    async fn create<K: controller_runtime::ApiResource>(&self, value: Value) -> K {
        self.client.create(&serde_json::from_value::<K>(value).unwrap()).await.unwrap()
    }

    async fn pods(&self) -> Vec<Pod> {
        self.client.list("default", &ListOptions::default()).await.unwrap()
    }

    /// Makes every Pod what a node would make of it.
    async fn play(&self, phase: &str) {
        for pod in self.pods().await {
            let status = json!({"status": {"phase": phase, "conditions": [{
                "type": "Ready", "status": if phase == "Running" { "True" } else { "False" },
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
            let _ = self
                .client
                .patch_status::<Pod>("default", pod.metadata.name.as_deref().unwrap(), &Patch::Merge(status))
                .await;
        }
    }
}

/// Waits until a condition on what the API server says holds.
macro_rules! eventually {
    ($what:expr, $condition:expr) => {{
        let mut held = false;
        for _ in 0..1500 {
            if $condition {
                held = true;
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(held, "never: {}", $what);
    }};
}

fn workload(kind: &str, replicas: i32, image: &str) -> Value {
    json!({"metadata": {"name": "web", "namespace": "default"}, "kind": kind, "spec": {
        "replicas": replicas, "progressDeadlineSeconds": 600, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

#[tokio::test]
async fn a_deployment_rolls_out_rolls_on_rolls_back_and_goes_with_everything() {
    let stack = Stack::start();
    let client = &stack.client;
    stack.create::<Deployment>(workload("Deployment", 3, "one")).await;
    let deployment = || async { client.get::<Deployment>("default", "web").await.unwrap().unwrap() };
    let complete = |of: &Deployment, replicas: i32| {
        let status = of.status.clone().unwrap_or_default();
        status.observed_generation == of.metadata.generation
            && status.updated_replicas == Some(replicas)
            && status.available_replicas == Some(replicas)
            && status.replicas == Some(replicas)
    };
    eventually!("three Pods", {
        stack.play("Running").await;
        complete(&deployment().await, 3)
    });
    let image = |image: &str| {
        Patch::Strategic(json!({"spec": {"template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}]}}}}))
    };
    client.patch::<Deployment>("default", "web", &image("two")).await.unwrap();
    eventually!("all replaced", {
        stack.play("Running").await;
        complete(&deployment().await, 3)
            && stack
                .pods()
                .await
                .iter()
                .all(|pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("two"))
    });
    assert_eq!(deployment().await.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"], "2");
    client.patch::<Deployment>("default", "web", &image("one")).await.unwrap();
    eventually!("the first again, as the third", {
        stack.play("Running").await;
        let now = deployment().await;
        complete(&now, 3) && now.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"] == "3"
    });
    assert_eq!(client.list::<ReplicaSet>("default", &ListOptions::default()).await.unwrap().len(), 2);
    client.patch::<Deployment>("default", "web", &Patch::Merge(json!({"spec": {"replicas": 1}}))).await.unwrap();
    eventually!("scaled down", {
        stack.play("Running").await;
        complete(&deployment().await, 1) && stack.pods().await.len() == 1
    });

    let options = DeleteOptions::default().with_propagation(Propagation::Foreground);
    client.delete::<Deployment>("default", "web", &options).await.unwrap();
    eventually!("everything is gone", {
        stack.pods().await.is_empty()
            && client.list::<ReplicaSet>("default", &ListOptions::default()).await.unwrap().is_empty()
            && client.get::<Deployment>("default", "web").await.unwrap().is_none()
    });
    stack.stop().await;
}

#[tokio::test]
async fn dependents_go_in_the_background_and_orphans_stay() {
    let stack = Stack::start();
    let client = &stack.client;
    stack.create::<ReplicaSet>(workload("ReplicaSet", 2, "one")).await;
    eventually!("two Pods", stack.pods().await.len() == 2);
    let orphan = DeleteOptions::default().with_propagation(Propagation::Orphan);
    client.delete::<ReplicaSet>("default", "web", &orphan).await.unwrap();
    eventually!("it is gone", client.get::<ReplicaSet>("default", "web").await.unwrap().is_none());
    let orphans = stack.pods().await;
    assert!(orphans.len() == 2 && orphans.iter().all(|pod| pod.metadata.owner_references.is_none()));
    stack.create::<ReplicaSet>(workload("ReplicaSet", 2, "one")).await;
    eventually!("they are adopted", stack.pods().await.iter().all(|pod| pod.metadata.owner_references.is_some()));
    assert_eq!(stack.pods().await.len(), 2);
    let background = DeleteOptions::default().with_propagation(Propagation::Background);
    client.delete::<ReplicaSet>("default", "web", &background).await.unwrap();
    eventually!("they are gone", stack.pods().await.is_empty());
    stack.stop().await;
}

#[tokio::test]
async fn a_daemon_set_follows_the_nodes() {
    let stack = Stack::start();
    let client = &stack.client;
    let mut set = workload("DaemonSet", 0, "one");
    set["spec"].as_object_mut().unwrap().remove("replicas");
    stack.create::<DaemonSet>(set).await;
    for name in ["n1", "n2"] {
        let heartbeat = jiff::Timestamp::now();
        let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat});
        stack.create::<Node>(json!({"metadata": {"name": name}, "status": {"conditions": [ready]}})).await;
    }
    eventually!("one Pod on each", {
        stack.play("Running").await;
        let set = client.get::<DaemonSet>("default", "web").await.unwrap().unwrap();
        set.status.is_some_and(|status| status.number_available == Some(2) && status.desired_number_scheduled == 2)
    });
    client.delete::<Node>("", "n1", &DeleteOptions::default()).await.unwrap();
    eventually!("one Pod is left", stack.pods().await.len() == 1);
    stack.stop().await;
}

#[tokio::test]
async fn a_job_completes_and_expires() {
    let stack = Stack::start();
    let client = &stack.client;
    stack
        .create::<Job>(json!({"metadata": {"name": "work", "namespace": "default"}, "spec": {
            "completions": 3, "parallelism": 2, "ttlSecondsAfterFinished": 1,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}}}))
        .await;
    eventually!("it begins", stack.pods().await.len() == 2);
    eventually!("it completes", {
        stack.play("Succeeded").await;
        let job = client.get::<Job>("default", "work").await.unwrap();
        let conditions = job.and_then(|job| job.status?.conditions).unwrap_or_default();
        conditions.iter().any(|condition| condition.type_ == "Complete" && condition.status == "True")
    });
    eventually!("it expires with its Pods", {
        client.get::<Job>("default", "work").await.unwrap().is_none() && stack.pods().await.is_empty()
    });
    stack.stop().await;
}

#[tokio::test]
async fn a_namespace_gets_its_account_and_goes_with_its_contents() {
    let stack = Stack::start();
    let client = &stack.client;
    stack.create::<Namespace>(json!({"metadata": {"name": "team"}})).await;
    eventually!("its account", client.get::<ServiceAccount>("team", "default").await.unwrap().is_some());
    eventually!("its bundle", {
        let map = client.get::<ConfigMap>("team", "kube-root-ca.crt").await.unwrap();
        map.and_then(|map| map.data).is_some_and(|data| data["ca.crt"] == "the authority")
    });
    client
        .patch::<ConfigMap>("team", "kube-root-ca.crt", &Patch::Merge(json!({"data": {"ca.crt": "forged"}})))
        .await
        .unwrap();
    eventually!("its bundle again", {
        let map = client.get::<ConfigMap>("team", "kube-root-ca.crt").await.unwrap();
        map.and_then(|map| map.data).is_some_and(|data| data["ca.crt"] == "the authority")
    });
    stack
        .create::<ConfigMap>(
            json!({"metadata": {"name": "held", "namespace": "team", "finalizers": ["example.com/hold"]}}),
        )
        .await;
    client.delete::<Namespace>("", "team", &DeleteOptions::default()).await.unwrap();
    eventually!("it says what holds it", {
        let of = client.get::<Namespace>("", "team").await.unwrap();
        let conditions = of.and_then(|of| of.status?.conditions).unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition.type_ == "NamespaceFinalizersRemaining" && condition.status == "True")
    });
    assert!(client.get::<ServiceAccount>("team", "default").await.unwrap().is_none());
    client.patch::<ConfigMap>("team", "held", &Patch::Merge(json!({"metadata": {"finalizers": []}}))).await.unwrap();
    eventually!("it is gone", client.get::<Namespace>("", "team").await.unwrap().is_none());
    stack.stop().await;
}
