//! A registry with two clusters, and requests to it as lines of text.

use apimachinery::auth::UserInfo;
use apimachinery::builtin::base::{BaseParams, objects};
use apimachinery::definition::GroupResource;
use apimachinery::status::ApiError;
use apiserver::pki;
use apiserver::registry::{LogicalClusterKind, Options, Registry};
use apiserver::request::{ClusterScope, RequestContext, RequestInfo, ResourceRequest};
use async_trait::async_trait;
use bytes::Bytes;
use controller_runtime::Body;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::{Commit, Entry, KeyRange, Memory, RangeOptions, RangeResult, Revision, Store, Txn, WatchStream};

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A store whose disk can be full.
pub(crate) struct Disk {
    inner: Memory,
    full: AtomicBool,
}

impl Disk {
    pub(crate) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }
}

#[async_trait]
impl Store for Disk {
    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<Option<Entry>, store::Error> {
        self.inner.get(key, at).await
    }
    async fn range(&self, range: &KeyRange, options: RangeOptions) -> Result<RangeResult, store::Error> {
        self.inner.range(range, options).await
    }
    async fn commit(&self, txn: Txn) -> Result<Commit, store::Error> {
        if self.full.load(Ordering::SeqCst) {
            return Err(store::Error::OutOfSpace);
        }
        self.inner.commit(txn).await
    }
    async fn watch(&self, range: &KeyRange, after: Revision) -> Result<WatchStream, store::Error> {
        self.inner.watch(range, after).await
    }
    async fn compact(&self, revision: Revision) -> Result<(), store::Error> {
        self.inner.compact(revision).await
    }
    fn revision(&self) -> Revision {
        self.inner.revision()
    }
    fn compacted(&self) -> Revision {
        self.inner.compacted()
    }
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    /// The body, when the code is the expected one.
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        self.body
    }

    /// The message of a failure with this code and reason.
    #[track_caller]
    pub(crate) fn refused(self, code: u16, reason: &str) -> String {
        assert_eq!((self.code, self.body["reason"].as_str()), (code, Some(reason)), "{}", self.body);
        self.body["message"].as_str().unwrap().to_owned()
    }
}

pub(crate) struct Harness {
    pub(crate) registry: Registry,
    pub(crate) disk: Arc<Disk>,
}

pub(crate) fn options() -> Options {
    let hosts = GroupResource { group: api::GROUP.into(), resource: "clusters".into() };
    Options { hosts: Some(hosts), ..Options::default() }
}

impl Harness {
    /// Workspace `root` and clusters `a` and `b`.
    pub(crate) async fn new() -> Self {
        Self::with(options(), store::memory::Options::default()).await
    }

    pub(crate) async fn with(options: Options, memory: store::memory::Options) -> Self {
        let disk = Arc::new(Disk { inner: Memory::new(memory), full: AtomicBool::new(false) });
        let definitions = apimachinery::builtin::definitions().into_iter().chain(api::definitions()).collect();
        let base = objects(&BaseParams {
            root_ca_pem: "PEM".into(),
            kubernetes_ip: Ipv4Addr::new(10, 96, 0, 1),
            dns_ip: Ipv4Addr::new(10, 96, 0, 10),
            api_server_port: 6443,
        });
        let registry = Registry::open(disk.clone(), definitions, base, options).unwrap();
        for (name, kind) in [
            ("root", LogicalClusterKind::Workspace),
            ("a", LogicalClusterKind::Cluster),
            ("b", LogicalClusterKind::Cluster),
        ] {
            let authority = pki::new_client_authority(name).unwrap();
            registry.create_logical_cluster(name, kind, authority).await.unwrap();
        }
        Self { registry, disk }
    }

    /// Sends `VERB /path?query` to a cluster; `*` is every one.
    pub(crate) async fn raw(
        &self,
        cluster: &str,
        line: &str,
        headers: &[(&'static str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Response<Body>, ApiError> {
        let context = RequestContext { info: parse(cluster, line), user: UserInfo::anonymous() };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        self.registry.serve(&context, &map, body.into()).await
    }

    pub(crate) async fn send(
        &self,
        cluster: &str,
        line: &str,
        headers: &[(&'static str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        match self.raw(cluster, line, headers, body).await {
            Ok(response) => {
                let code = response.status().as_u16();
                let warnings = response.headers().get_all("warning").iter();
                let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
                let yaml = response.headers()["content-type"] == "application/yaml";
                let bytes = response.into_body().collect().await.unwrap().to_bytes();
                let body = if yaml {
                    serde_yaml_ng::from_slice(&bytes).unwrap()
                } else {
                    serde_json::from_slice(&bytes).unwrap()
                };
                Answer { code, body, warnings }
            }
            Err(error) => Answer { code: error.code, body: error.to_status(), warnings: Vec::new() },
        }
    }

    /// Sends a request with a JSON body, or with none for null.
    pub(crate) async fn call(&self, cluster: &str, line: &str, body: Value) -> Answer {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
        self.send(cluster, line, &[("content-type", "application/json")], body).await
    }

    /// Sends a patch; its type is `json`, `merge` or `strategic`.
    pub(crate) async fn patch(&self, cluster: &str, path: &str, kind: &str, body: Value) -> Answer {
        let media_type = match kind {
            "json" => "application/json-patch+json",
            "merge" => "application/merge-patch+json",
            "strategic" => "application/strategic-merge-patch+json",
            other => panic!("{other}"),
        };
        self.send(cluster, &format!("patch {path}"), &[("content-type", media_type)], body.to_string()).await
    }

    /// Starts a watch.
    pub(crate) async fn watch(&self, cluster: &str, path: &str) -> Watch {
        self.watch_as(cluster, path, "application/json").await
    }

    pub(crate) async fn watch_as(&self, cluster: &str, path: &str, accept: &str) -> Watch {
        let response = self.raw(cluster, &format!("watch {path}"), &[("accept", accept)], Bytes::new()).await.unwrap();
        Watch { body: response.into_body(), text: Vec::new() }
    }
}

/// A watch in progress.
pub(crate) struct Watch {
    body: Body,
    text: Vec<u8>,
}

impl Watch {
    /// The next event; `None` when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(at) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=at).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("an event in time")?;
            self.text.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
    }

    /// The next event as `TYPE name`.
    pub(crate) async fn line(&mut self) -> String {
        let event = self.next().await.expect("an event");
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        format!("{} {name}", event["type"].as_str().unwrap())
    }
}

fn parse(cluster: &str, line: &str) -> RequestInfo {
    let (verb, rest) = line.split_once(' ').unwrap();
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut parts = path.trim_start_matches('/').split('/').collect::<Vec<_>>();
    let (group, version) = match parts.remove(0) {
        "api" => (String::new(), parts.remove(0).to_owned()),
        _ => (parts.remove(0).to_owned(), parts.remove(0).to_owned()),
    };
    let mut namespace = None;
    if parts[0] == "namespaces" && parts.len() > 2 && !matches!(parts[2], "status" | "finalize") {
        namespace = Some(parts[1].to_owned());
        parts.drain(..2);
    }
    let mut parts = parts.into_iter().map(str::to_owned);
    let resource = ResourceRequest {
        group,
        version,
        resource: parts.next().unwrap(),
        namespace,
        name: parts.next(),
        subresource: parts.next(),
    };
    let query = query.split('&').filter_map(|pair| pair.split_once('='));
    RequestInfo {
        cluster: if cluster == "*" { ClusterScope::Every } else { ClusterScope::One(cluster.into()) },
        verb: verb.into(),
        path: path.into(),
        resource: Some(resource),
        query: query.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
    }
}

pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

pub(crate) fn labelled(name: &str, app: &str) -> Value {
    let mut map = config_map(name);
    map["metadata"]["labels"] = json!({"app": app});
    map
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    })
}

pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "busybox"}]},
            },
        },
    })
}

/// The names of a list, in order.
pub(crate) fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}
