use super::*;
use async_trait::async_trait;
use http_body_util::Full;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Mutex;

type Sent = (String, String, String, Value);

/// Answers from a list and remembers what it was asked: method, path, content type and body.
#[derive(Default)]
struct Scripted {
    answers: Mutex<VecDeque<(u16, Value)>>,
    sent: Mutex<Vec<Sent>>,
}

impl Scripted {
    fn client(answers: impl IntoIterator<Item = (u16, Value)>) -> (Arc<Self>, Client) {
        let server = Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), sent: Mutex::default() });
        (server.clone(), Client::new(server, "c1"))
    }

    fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }
}

#[async_trait]
impl Transport for Scripted {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, crate::BoxError> {
        let content_type = request.headers()[header::CONTENT_TYPE].to_str()?.to_owned();
        let body = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
        self.sent.lock().unwrap().push((request.method().to_string(), request.uri().to_string(), content_type, body));
        let (status, answer) = self.answers.lock().unwrap().pop_front().ok_or("nothing left to say")?;
        let body = Full::new(Bytes::from(answer.to_string())).map_err(|never| match never {});
        Ok(Response::builder().status(status).body(Body::new(body))?)
    }
}

#[tokio::test]
async fn a_missing_object_is_none_and_other_errors_keep_their_reason() {
    let (_, client) = Scripted::client([
        (404, ApiError::not_found("", "pods", "web").to_status()),
        (409, ApiError::modified("", "pods", "web").to_status()),
        (409, ApiError::already_exists("", "pods", "web").to_status()),
        (502, json!("bad gateway")),
    ]);
    assert!(client.get::<Pod>("default", "web").await.expect("absence is an answer").is_none());
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "default"}})).unwrap();
    assert!(client.update(&pod).await.unwrap_err().is_conflict());
    let exists = client.create(&pod).await.unwrap_err();
    assert!(exists.is_already_exists() && !exists.is_conflict());
    let error = client.create(&pod).await.unwrap_err();
    assert_eq!(error.api().map(|e| (e.code, e.reason.as_str())), Some((502, "BadGateway")));
}

#[tokio::test]
async fn lists_follow_the_continue_token() {
    let item = |name: &str| json!({"metadata": {"name": name}});
    let (server, client) = Scripted::client([
        (200, json!({"metadata": {"continue": "a/b", "resourceVersion": "7"}, "items": [item("one")]})),
        (200, json!({"metadata": {"resourceVersion": "7"}, "items": [item("two")]})),
    ]);
    let maps: Vec<ConfigMap> = client.list("", &ListOptions::labels("app in (x)")).await.unwrap();
    assert_eq!(maps.len(), 2);
    assert_eq!(
        server.sent()[1].1,
        "/clusters/c1/api/v1/configmaps?labelSelector=app%20in%20%28x%29&limit=500&continue=a%2Fb"
    );
}

#[tokio::test]
async fn verbs_have_their_paths_and_content_types() {
    let ok = || (200, json!({"metadata": {"name": "web"}}));
    let (server, client) = Scripted::client([ok(), ok(), ok(), ok()]);
    client.patch_status::<Pod>("default", "web", &Patch::Strategic(json!({"status": {}}))).await.unwrap();
    client.delete::<Pod>("default", "web", &DeleteOptions::of_uid("u").with_grace_period(0)).await.unwrap();
    client.bind_pod("default", "web", "u", "n1").await.unwrap();
    client.delete_collection::<Pod>("default", &ListOptions::fields("a=b"), &DeleteOptions::default()).await.unwrap();
    let sent = server.sent();
    let base = "/clusters/c1/api/v1/namespaces/default/pods";
    assert_eq!((&*sent[0].1, &*sent[0].2), (&*format!("{base}/web/status"), "application/strategic-merge-patch+json"));
    assert_eq!(sent[1].3["preconditions"]["uid"], "u");
    assert_eq!(sent[1].3["gracePeriodSeconds"], 0);
    assert_eq!(sent[2].1, format!("{base}/web/binding"));
    assert_eq!(sent[2].3["target"]["name"], "n1");
    assert_eq!((&*sent[3].0, &*sent[3].1), ("DELETE", &*format!("{base}?fieldSelector=a%3Db")));
}

#[tokio::test]
async fn no_answer_is_its_own_error() {
    let (_, client) = Scripted::client([]);
    let error = client.get::<Pod>("default", "web").await.unwrap_err();
    assert!(matches!(error, ClientError::Transport { .. }));
    assert_eq!(
        runtime::error_chain(&error),
        "GET /clusters/c1/api/v1/namespaces/default/pods/web: no answer from the API server: nothing left to say"
    );
}
