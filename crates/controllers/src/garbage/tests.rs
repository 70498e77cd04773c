use super::*;
use controller_runtime::{ControllerOptions, InformerOptions, Informers};
use serde_json::{Value, json};

fn meta(value: Value) -> ObjectMeta {
    serde_json::from_value(value).unwrap()
}

fn owners(list: &[(&str, Owner)]) -> Vec<(String, Owner)> {
    list.iter().map(|(uid, owner)| ((*uid).to_owned(), *owner)).collect()
}

#[test]
fn an_object_goes_with_its_last_owner() {
    let plain = meta(json!({"name": "x"}));
    let orphaning = meta(json!({"name": "x", "finalizers": [ORPHAN]}));
    let foreground = meta(json!({"name": "x", "finalizers": [FOREGROUND]}));
    let dropped = |uid: &str| Verdict::Drop(vec![uid.to_owned()]);
    for (of, list, dependents, expected) in [
        (&plain, &[("a", Owner::There)][..], false, Verdict::Keep),
        (&plain, &[("a", Owner::Gone)], false, Verdict::Delete(Propagation::Background)),
        (&plain, &[("a", Owner::Gone), ("b", Owner::There)], false, dropped("a")),
        (&plain, &[("a", Owner::Waiting), ("b", Owner::There)], true, dropped("a")),
        (&plain, &[("a", Owner::Waiting)], true, Verdict::Delete(Propagation::Foreground)),
        (&plain, &[("a", Owner::Waiting)], false, Verdict::Delete(Propagation::Background)),
        (&plain, &[("a", Owner::Gone), ("b", Owner::Gone)], true, Verdict::Delete(Propagation::Background)),
        (&orphaning, &[("a", Owner::Waiting)], true, Verdict::Delete(Propagation::Orphan)),
        (&foreground, &[("a", Owner::Gone)], true, Verdict::Delete(Propagation::Foreground)),
    ] {
        assert_eq!(verdict(of, &owners(list), dependents), expected, "{list:?}");
    }
}

#[test]
fn an_owner_waits_only_while_it_is_being_deleted_in_the_foreground() {
    let time = "2026-01-01T00:00:00Z";
    assert_eq!(Owner::of(&meta(json!({"finalizers": [FOREGROUND]}))), Owner::There);
    assert_eq!(Owner::of(&meta(json!({"deletionTimestamp": time}))), Owner::There);
    assert_eq!(Owner::of(&meta(json!({"deletionTimestamp": time, "finalizers": [FOREGROUND]}))), Owner::Waiting);
}

struct Nobody;

#[async_trait]
impl controller_runtime::Transport for Nobody {
    async fn send(&self, _: http::Request<bytes::Bytes>) -> Result<http::Response<controller_runtime::Body>, BoxError> {
        Err("nobody is there".into())
    }
}

#[test]
fn changes_bring_the_objects_they_affect() {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::Pod;
    let informers = Informers::new(&Client::new(Arc::new(Nobody), "root"), InformerOptions::default());
    let controller = Controller::<Node>::new("garbage", ControllerOptions::default());
    let queue = controller.queue().clone();
    let graph = Graph::new(&informers, queue.clone(), &|_| true);
    let _controller = graph.watch(&informers, controller);
    let (sets, pods) = (informers.of::<ReplicaSet>().store().clone(), informers.of::<Pod>().store().clone());
    let cluster: Arc<str> = "c".into();
    let drain = || {
        let mut names = Vec::new();
        while let Some(Some(node)) = futures_util::FutureExt::now_or_never(queue.next()) {
            names.push(node.key.name.to_string());
            queue.done(node, controller_runtime::Outcome::Done);
        }
        names
    };
    let set = |version: &str, extra: Value| -> ReplicaSet {
        let mut value = json!({"metadata": {"name": "set", "namespace": "n", "uid": "s", "resourceVersion": version}});
        value["metadata"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    };
    let pod = |version: &str, phase: &str| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "pod", "namespace": "n", "uid": "p", "resourceVersion": version, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "s", "blockOwnerDeletion": true}]},
            "status": {"phase": phase},
        }))
        .unwrap()
    };
    sets.apply(&cluster, set("1", json!({})));
    assert!(drain().is_empty(), "it has no owner");
    pods.apply(&cluster, pod("2", "Pending"));
    assert_eq!(drain(), ["pod"]);
    pods.apply(&cluster, pod("3", "Running"));
    assert!(drain().is_empty(), "its owners are the same");
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FOREGROUND]});
    sets.apply(&cluster, set("4", going.clone()));
    assert_eq!(drain(), ["set", "pod"]);
    pods.remove(&cluster, &pod("5", "Running"));
    assert_eq!(drain(), ["set"], "it waits for one less");
    pods.apply(&cluster, pod("6", "Running"));
    drain();
    sets.remove(&cluster, &set("7", going));
    assert_eq!(drain(), ["pod"], "its owner is gone");
}
