use super::*;
use crate::{Body, Client, InformerOptions, Informers, Transport};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::ConfigMap;
use runtime::Shutdown;
use serde_json::json;
use std::collections::BTreeMap;

/// Lists `count` ConfigMaps; its watches tell nothing.
struct Many(usize);

#[async_trait]
impl Transport for Many {
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Body>, BoxError> {
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            return std::future::pending().await;
        }
        let item = |number: usize| {
            json!({"metadata": {"name": number.to_string(), "namespace": "n",
                "annotations": {"kcp.io/cluster": "c"}}})
        };
        let items: Vec<_> = (0..self.0).map(item).collect();
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
        let body = Full::new(Bytes::from(list.to_string())).map_err(|never| match never {});
        Ok(http::Response::new(Body::new(body)))
    }
}

/// Fails and panics on the first steps of every key, and remembers who succeeded.
#[derive(Default)]
struct Flaky {
    steps: Mutex<BTreeMap<ObjectKey, u32>>,
    succeeded: Mutex<BTreeMap<ObjectKey, u32>>,
}

#[async_trait]
impl Reconciler for Flaky {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, BoxError> {
        let step = {
            let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
            let step = steps.entry(key.clone()).or_default();
            *step += 1;
            *step
        };
        match step {
            1 => Err("not yet".into()),
            2 => panic!("worse"),
            3 => std::future::pending().await,
            _ => {
                *self.succeeded.lock().unwrap().entry(key.clone()).or_default() += 1;
                Ok(Action::Done)
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_key_succeeds_though_the_queue_is_small_and_steps_fail() {
    const OBJECTS: usize = 50;
    let informers = Informers::new(&Client::new(Arc::new(Many(OBJECTS)), "root"), InformerOptions::default());
    let maps = informers.of::<ConfigMap>();
    let flaky = Arc::new(Flaky::default());
    let options = ControllerOptions {
        workers: 3,
        timeout: Duration::from_secs(1),
        queue: QueueOptions { max_keys: 7, ..QueueOptions::default() },
    };
    let mut tasks = TaskSet::new(Shutdown::new());
    let controller = Controller::new("flaky", options).primary(&maps);
    let queue = controller.queue().clone();
    controller.spawn(&mut tasks, flaky.clone());
    informers.start(&mut tasks);
    for _ in 0..100_000 {
        assert!(queue.len() <= 7);
        if flaky.succeeded.lock().unwrap().len() == OBJECTS {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(flaky.succeeded.lock().unwrap().len(), OBJECTS);
    tasks.shutdown().trigger();
    tasks.join(Duration::from_secs(5)).await.unwrap();
}
