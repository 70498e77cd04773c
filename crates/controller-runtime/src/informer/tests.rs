use super::*;
use crate::{Body, BoxError, ObjectKey, Transport};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use runtime::Shutdown;
use serde_json::{Value, json};
use std::collections::VecDeque;
use tokio::sync::mpsc;

fn map(cluster: &str, name: &str, version: u64, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": name, "namespace": "default", "uid": uid, "resourceVersion": version.to_string(),
        "annotations": {"kcp.io/cluster": cluster},
    }})
}

fn typed(name: &str, version: u64, uid: &str) -> ConfigMap {
    let mut value = map("c", name, version, uid);
    value["metadata"]["annotations"] = Value::Null;
    serde_json::from_value(value).unwrap()
}

fn known(store: &Store<ConfigMap>) -> Vec<String> {
    let version = |map: &ConfigMap| map.metadata.resource_version.clone().unwrap_or_default();
    store.all().into_iter().map(|(key, map)| format!("{key}@{}", version(&map))).collect()
}

enum Answer {
    List(u16, Value),
    Watch(mpsc::UnboundedReceiver<Value>),
}

/// Answers lists and watches from a script.
struct Scripted {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Transport for Scripted {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        self.asked.lock().unwrap().push(request.uri().to_string());
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(Answer::List(status, body)) => {
                let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
                Ok(Response::builder().status(status).body(Body::new(body))?)
            }
            Some(Answer::Watch(events)) => {
                let lines = futures_util::stream::unfold(events, |mut events| async move {
                    let line = Bytes::from(format!("{}\n", events.recv().await?));
                    Some((Ok::<_, BoxError>(http_body::Frame::data(line)), events))
                });
                Ok(Response::new(Body::new(StreamBody::new(lines))))
            }
            None => std::future::pending().await,
        }
    }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test(start_paused = true)]
async fn lists_watches_and_lists_again_when_the_version_is_too_old() {
    let (first, events) = mpsc::unbounded_channel();
    let (second, more) = mpsc::unbounded_channel();
    let (_third, later) = mpsc::unbounded_channel();
    let list = |version: &str, items: Value| {
        Answer::List(200, json!({"kind": "ConfigMapList", "metadata": {"resourceVersion": version}, "items": items}))
    };
    let script = [
        Answer::List(500, json!({"kind": "Status", "code": 500, "reason": "InternalError", "message": "no"})),
        list("5", json!([map("a", "one", 3, "u1"), map("b", "one", 4, "u2")])),
        Answer::Watch(events),
        Answer::Watch(more),
        list("20", json!([map("b", "one", 4, "u2")])),
        Answer::Watch(later),
    ];
    let server = Arc::new(Scripted { answers: Mutex::new(script.into()), asked: Mutex::default() });
    let informers = Informers::new(&Client::new(server.clone(), "root"), InformerOptions::default());
    let informer = informers.of::<ConfigMap>();
    let store = informer.store().clone();
    let mut tasks = TaskSet::new(Shutdown::new());
    informers.start(&mut tasks);
    assert!(!informer.has_synced(), "a failed list is no observation");
    informer.synced().await;
    assert_eq!(known(&store), ["a|default/one@3", "b|default/one@4"]);
    let one = store.get(&ObjectKey::new("a", "default", "one")).unwrap();
    assert_eq!(one.metadata.annotations, None, "the wildcard's annotation is not the object's");

    first.send(json!({"type": "ADDED", "object": map("a", "two", 6, "u3")})).unwrap();
    first.send(json!({"type": "DELETED", "object": map("a", "one", 7, "u1")})).unwrap();
    first.send(json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}})).unwrap();
    drop(first);
    until("the watch is begun anew", || server.asked.lock().unwrap().len() == 4).await;
    assert_eq!(known(&store), ["a|default/two@6", "b|default/one@4"]);
    assert!(server.asked.lock().unwrap()[3].contains("resourceVersion=9&"), "from the bookmark");

    second.send(json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})).unwrap();
    until("what the new list lacks is gone", || store.len() == 1).await;
    assert_eq!(known(&store), ["b|default/one@4"]);
    tasks.shutdown().trigger();
    tasks.join(Duration::from_secs(5)).await.unwrap();
}

#[test]
fn own_writes_are_seen_at_once_and_never_set_back() {
    let store = Store::<ConfigMap>::new();
    let cluster: Arc<str> = "c".into();
    store.apply(&cluster, typed("one", 10, "u1"));
    store.observe(&cluster, &typed("one", 12, "u1"));
    store.apply(&cluster, typed("one", 11, "u1"));
    assert_eq!(known(&store), ["c|default/one@12"]);
    store.remove(&cluster, &typed("one", 14, "u1"));
    store.observe(&cluster, &typed("one", 13, "u1"));
    assert!(store.is_empty(), "the watch has told of its deletion already");
    store.observe(&cluster, &typed("two", 16, "u2"));
    store.replace("15", Vec::new());
    assert_eq!(known(&store), ["c|default/two@16"], "newer than the list");
    store.replace("17", Vec::new());
    assert!(store.is_empty());
}

#[test]
fn a_deletion_that_was_asked_for_counts_until_the_watch_tells() {
    let store = Store::<ConfigMap>::new();
    let cluster: Arc<str> = "c".into();
    store.apply(&cluster, typed("one", 1, "u1"));
    let key = ObjectKey::new("c", "default", "one");
    let doomed =
        |store: &Store<ConfigMap>| store.get(&key).is_some_and(|map| map.metadata.deletion_timestamp.is_some());
    store.doom(&key, "other");
    assert!(!doomed(&store), "another object of that name");
    store.doom(&key, "u1");
    store.apply(&cluster, typed("one", 2, "u1"));
    assert!(doomed(&store), "a change from before the deletion");
    store.apply(&cluster, typed("one", 4, "u2"));
    assert!(!doomed(&store), "its successor");
    store.remove(&cluster, &typed("one", 3, "u1"));
    assert_eq!(store.len(), 1, "its successor stays");
}

#[test]
fn indexes_and_namespaces_follow_changes() {
    let store = Store::<ConfigMap>::new();
    store.add_index("version", |map| map.metadata.resource_version.clone().into_iter().collect());
    let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
    store.apply(&a, typed("one", 1, "u1"));
    store.apply(&b, typed("one", 2, "u2"));
    store.apply(&a, typed("one", 3, "u1"));
    assert_eq!(store.indexed("version", &a, "1").len(), 0);
    assert_eq!(store.indexed("version", &a, "3").len(), 1);
    assert_eq!(store.indexed("version", &b, "3").len(), 0, "another cluster");
    assert_eq!(store.in_namespace("a", "default").len(), 1);
    assert_eq!(store.in_namespace("a", "other").len(), 0);
    assert_eq!(store.in_cluster("b").len(), 1);
    let changes = Arc::new(Mutex::new(Vec::new()));
    let told = changes.clone();
    store.on_change(move |change| {
        told.lock().unwrap().push((change.key.to_string(), change.before.is_some(), change.after.is_some()));
    });
    store.remove(&b, &typed("one", 4, "u2"));
    let told = changes.lock().unwrap().clone();
    let expected = [("a|default/one", false, true), ("b|default/one", false, true), ("b|default/one", true, false)];
    assert_eq!(told, expected.map(|(key, before, after)| (key.to_owned(), before, after)));
}

/// Objects of many clusters come and go, told by the watch, by a list, or doomed by a controller.
#[test]
fn a_store_keeps_nothing_of_clusters_that_are_gone() {
    const CLUSTERS: u64 = 3000;
    let store = Store::<ConfigMap>::new();
    let cluster = |number: u64| -> Arc<str> { format!("cluster-{number}").into() };
    for number in 0..CLUSTERS {
        let mut object = typed("map", number + 1, &format!("uid-{number}"));
        let owner = OwnerReference { uid: format!("owner-{number}"), ..OwnerReference::default() };
        object.metadata.owner_references = Some(vec![owner]);
        store.apply(&cluster(number), object);
        store.doom(&ObjectKey::new(cluster(number), "default", "map"), &format!("uid-{number}"));
    }
    let (objects, full) = store.room();
    assert!(objects == CLUSTERS as usize && full >= 2 * CLUSTERS as usize, "{objects} {full}");
    for number in 0..CLUSTERS / 2 {
        store.remove(&cluster(number), &typed("map", CLUSTERS + number, &format!("uid-{number}")));
    }
    store.replace(&(3 * CLUSTERS).to_string(), Vec::new());
    let (objects, room) = store.room();
    assert!(objects == 0 && room < 200, "{objects} {room} of {full}");
}
