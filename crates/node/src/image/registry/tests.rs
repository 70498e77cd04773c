//! Pulls from a registry that runs in the test.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;

use super::auth::{Challenge, challenge, token_url};
use super::http::Url;
use super::resolver;
use crate::image::digest::Digest;
use crate::image::error::Error;
use crate::image::tests::{Tar, documents, gzip};
use crate::image::{ImageOptions, Images, PullPolicy, RegistryAuth};

/// What the registry has and what it was asked.
#[derive(Default)]
struct Content {
    paths: HashMap<String, Vec<u8>>,
    /// Blobs are sent from another path than they are asked at.
    redirect: bool,
    /// A token is needed, which this user and password give.
    password: Option<&'static str>,
    /// Layers are cut short this many times.
    cuts: usize,
    asked: Vec<String>,
}

struct TestRegistry {
    address: SocketAddr,
    content: Arc<Mutex<Content>>,
}

impl TestRegistry {
    async fn start(content: Content) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let content = Arc::new(Mutex::new(content));
        let served = content.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let content = served.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = answer(&mut content.lock().unwrap(), address, &request);
                    async move { Ok::<_, Infallible>(answer) }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { address, content }
    }

    fn asked(&self, part: &str) -> usize {
        self.content.lock().unwrap().asked.iter().filter(|path| path.contains(part)).count()
    }

    fn images(&self, change: impl FnOnce(&mut ImageOptions)) -> (tempfile::TempDir, Images) {
        let directory = tempfile::tempdir().unwrap();
        let mut options =
            ImageOptions { insecure_registries: vec![self.address.to_string()], ..ImageOptions::default() };
        change(&mut options);
        let images = Images::open(directory.path(), options).unwrap();
        (directory, images)
    }
}

fn answer(content: &mut Content, address: SocketAddr, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    content.asked.push(path.clone());
    let status = |status: StatusCode| Response::builder().status(status);
    let empty = Full::new(Bytes::new());
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if path == "/token" {
        // "user:right"
        let right = authorization == Some("Basic dXNlcjpyaWdodA==")
            && request.uri().query().is_some_and(|query| query.contains("scope=repository:team/app:pull"));
        return match right {
            true => Response::new(Full::new(Bytes::from_static(br#"{"token":"abc"}"#))),
            false => status(StatusCode::UNAUTHORIZED).body(empty).unwrap(),
        };
    }
    if let Some(moved) = path.strip_prefix("/elsewhere") {
        let bytes = content.paths.get(moved).cloned().unwrap_or_default();
        return Response::new(Full::new(bytes.into()));
    }
    if content.password.is_some() && authorization != Some("Bearer abc") {
        let challenge = format!("Bearer realm=\"http://{address}/token\",service=\"the registry\"");
        let refusal = status(StatusCode::UNAUTHORIZED).header(header::WWW_AUTHENTICATE, challenge);
        return refusal.body(empty).unwrap();
    }
    let Some(bytes) = content.paths.get(&path).cloned() else {
        return status(StatusCode::NOT_FOUND).body(empty).unwrap();
    };
    if path.contains("/blobs/") && content.redirect {
        let moved = status(StatusCode::TEMPORARY_REDIRECT).header(header::LOCATION, format!("/elsewhere{path}"));
        return moved.body(empty).unwrap();
    }
    if path.contains("/blobs/") && bytes.starts_with(&[0x1f, 0x8b]) && content.cuts > 0 {
        content.cuts -= 1;
        return Response::new(Full::new(Bytes::from(bytes[..bytes.len() / 2].to_vec())));
    }
    Response::new(Full::new(bytes.into()))
}

/// An image `team/app:1` behind an index, and its id.
fn image() -> (HashMap<String, Vec<u8>>, String) {
    let layers = vec![Tar::new().file("a", b"1").done(), Tar::new().file("b", &vec![7; 200_000]).done()];
    let blobs: Vec<_> = layers.iter().map(|layer| gzip(layer)).collect();
    let (config, manifest) = documents(&layers, &blobs);
    let platform = |architecture: &str, digest: Digest| json!({ "digest": digest, "platform": { "os": "linux", "architecture": architecture } });
    let index = json!({ "manifests": [
        platform("s390x", Digest::of(b"other")),
        platform(crate::image::model::ARCHITECTURE, Digest::of(&manifest)),
    ]});
    let index = index.to_string().into_bytes();
    let path = |kind: &str, name: &str| format!("/v2/team/app/{kind}/{name}");
    let mut paths = HashMap::from([
        (path("manifests", Digest::of(&manifest).as_str()), manifest),
        (path("manifests", "1"), index.clone()),
        (path("manifests", Digest::of(&index).as_str()), index),
    ]);
    let id = Digest::of(&config).to_string();
    for blob in blobs.into_iter().chain([config]) {
        paths.insert(path("blobs", Digest::of(&blob).as_str()), blob);
    }
    (paths, id)
}

#[tokio::test]
async fn an_image_is_pulled_once_unless_it_always_must() {
    let (paths, id) = image();
    let registry = TestRegistry::start(Content { paths, redirect: true, ..Content::default() }).await;
    let (_directory, images) = registry.images(|_| {});
    let name = format!("{}/team/app:1", registry.address);
    let image = images.ensure(&name, PullPolicy::IfNotPresent, None).await.unwrap();
    assert_eq!(image.id, id);
    assert_eq!(std::fs::read(image.layers[0].join("a")).unwrap(), b"1");
    assert_eq!(std::fs::read(image.layers[1].join("b")).unwrap().len(), 200_000);
    assert_eq!(image.size, 200_001);
    let asked = registry.asked("");
    images.ensure(&name, PullPolicy::IfNotPresent, None).await.unwrap();
    assert_eq!(registry.asked(""), asked);
    // Asked again, but the layers are there.
    images.ensure(&name, PullPolicy::Always, None).await.unwrap();
    assert_eq!(registry.asked("/manifests/1"), 2);
    assert_eq!(registry.asked("/elsewhere"), 4);
    // By digest it is the same image.
    let by_digest = image.repo_digest.unwrap();
    assert_eq!(images.ensure(&by_digest, PullPolicy::Always, None).await.unwrap().id, id);
}

#[tokio::test]
async fn a_token_is_fetched_with_the_password() {
    let (paths, id) = image();
    let registry = TestRegistry::start(Content { paths, password: Some("right"), ..Content::default() }).await;
    let (_directory, images) = registry.images(|_| {});
    let name = format!("{}/team/app:1", registry.address);
    let login = |password: &str| RegistryAuth::Basic { username: "user".into(), password: password.into() };
    for auth in [None, Some(login("wrong"))] {
        let error = images.ensure(&name, PullPolicy::Always, auth.as_ref()).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    }
    let image = images.ensure(&name, PullPolicy::Always, Some(&login("right"))).await.unwrap();
    assert_eq!(image.id, id);
    assert_eq!(registry.asked("/token"), 3);
}

#[tokio::test]
async fn what_is_not_there_is_told_apart_from_what_is_broken() {
    let (mut paths, _) = image();
    paths.insert("/v2/team/app/manifests/broken".into(), b"{".to_vec());
    let registry = TestRegistry::start(Content { paths, ..Content::default() }).await;
    let (_directory, images) = registry.images(|_| {});
    let pull = async |tag: &str| {
        images.ensure(&format!("{}/team/{tag}", registry.address), PullPolicy::Always, None).await.unwrap_err()
    };
    assert!(matches!(pull("app:2").await, Error::NotFound { .. }));
    assert!(matches!(pull("app:broken").await, Error::Malformed(_)));
    let unreachable = images.ensure("127.0.0.1:1/team/app", PullPolicy::Always, None).await.unwrap_err();
    assert!(matches!(unreachable, Error::Connection { .. }) && unreachable.is_retryable(), "{unreachable:?}");
}

#[tokio::test]
async fn content_that_changed_is_refused() {
    let (mut paths, _) = image();
    let blob = paths.iter().find(|(path, bytes)| path.contains("/blobs/") && bytes.len() > 300).unwrap().0.clone();
    let other = gzip(&Tar::new().file("b", b"evil").done());
    paths.insert(blob, other);
    let registry = TestRegistry::start(Content { paths, ..Content::default() }).await;
    let (directory, images) = registry.images(|_| {});
    let error = images.ensure(&format!("{}/team/app:1", registry.address), PullPolicy::Always, None).await.unwrap_err();
    assert!(matches!(error, Error::Digest { .. }), "{error:?}");
    assert!(images.images().is_empty());
    let leftovers = std::fs::read_dir(directory.path().join("layers")).unwrap();
    assert!(leftovers.map(|entry| entry.unwrap().file_name()).all(|name| !name.to_str().unwrap().starts_with("new-")));
}

#[tokio::test]
async fn a_transfer_that_was_cut_is_begun_again_a_few_times() {
    for (cuts, succeeds) in [(2, true), (3, false)] {
        let (paths, _) = image();
        let registry = TestRegistry::start(Content { paths, cuts, ..Content::default() }).await;
        let (_directory, images) = registry.images(|options| options.retries = 2);
        let pulled = images.ensure(&format!("{}/team/app:1", registry.address), PullPolicy::Always, None).await;
        assert_eq!(pulled.is_ok(), succeeds, "{:?}", pulled.err());
    }
}

#[tokio::test]
async fn a_mirror_is_asked_first_and_without_the_password() {
    let (paths, id) = image();
    let empty = TestRegistry::start(Content::default()).await;
    let mirror = TestRegistry::start(Content { paths, ..Content::default() }).await;
    let (_directory, images) = mirror.images(|options| {
        options.insecure_registries.push(empty.address.to_string());
        let mirrors = vec![empty.address.to_string(), mirror.address.to_string()];
        options.mirrors = BTreeMap::from([("example.org".to_owned(), mirrors)]);
    });
    let auth = RegistryAuth::Bearer("secret".into());
    let image = images.ensure("example.org/team/app:1", PullPolicy::Always, Some(&auth)).await.unwrap();
    assert_eq!(image.id, id);
    assert_eq!(empty.asked("/manifests/1"), 1);
}

#[test]
fn challenges_are_read() {
    let read = |values: &[&'static str]| {
        let values = values.iter().map(|value| (header::WWW_AUTHENTICATE, HeaderValue::from_static(value)));
        challenge(&values.collect::<HeaderMap>())
    };
    let bearer = |realm: &str, service: Option<&str>| {
        Some(Challenge::Bearer { realm: realm.into(), service: service.map(str::to_owned) })
    };
    assert_eq!(read(&["Basic realm=\"x\""]), Some(Challenge::Basic));
    assert_eq!(
        read(&["bearer realm=\"https://a/b\", service=\"c, d\",scope=\"e\""]),
        bearer("https://a/b", Some("c, d"))
    );
    assert_eq!(read(&["Basic realm=x", "Bearer realm=https://a"]), bearer("https://a", None));
    assert_eq!(read(&["Bearer service=\"x\""]), None);
    assert_eq!(read(&["Bearer realm=\"x"]), None);
    assert_eq!(read(&[]), None);
    assert_eq!(token_url("https://a/t", Some("b c"), "d/e"), "https://a/t?scope=repository:d/e:pull&service=b%20c");
}

#[test]
fn addresses_are_joined() {
    let join =
        |base: &str, target: &str| Url::parse(base).and_then(|base| base.join(target)).map(|url| url.host().to_owned());
    assert_eq!(join("https://a:1/b/c", "/d").unwrap(), "a:1");
    assert_eq!(join("https://a/b/c", "//e/d").unwrap(), "e");
    assert_eq!(join("https://a/b/c", "http://f/").unwrap(), "f");
    assert_eq!(join("https://a/b/c", "d").unwrap(), "a");
    assert!(join("https://a/", "ftp://b/").is_err());
    assert!(Url::parse("a/b").is_err());
}

#[test]
fn name_server_answers_are_read() {
    let question = resolver::question([1, 2], "example.org").unwrap();
    assert_eq!(&question[12..], b"\x07example\x03org\x00\x00\x01\x00\x01");
    let mut answer = question.clone();
    answer[2] = 0x81;
    answer[7] = 2;
    // A name that stands for another, then its address.
    answer.extend_from_slice(b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x00\x00\x02\xc0\x0c");
    answer.extend_from_slice(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04\x0a\x00\x00\x01");
    assert_eq!(resolver::addresses(&answer, [1, 2]), Some(vec![[10, 0, 0, 1].into()]));
    assert_eq!(resolver::addresses(&answer, [1, 3]), None);
    assert_eq!(resolver::addresses(&question, [1, 2]), None);
    for length in 0..answer.len() {
        assert_eq!(resolver::addresses(&answer[..length], [1, 2]), None, "{length}");
    }
    assert!(resolver::question([0, 0], "a..b").is_err());
    assert!(resolver::question([0, 0], &"a".repeat(64)).is_err());
}
