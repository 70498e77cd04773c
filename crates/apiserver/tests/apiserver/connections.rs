//! Connections: both protocols, limits, shutdown.

use crate::support::{self, PATIENCE, get, post, send_with, start, start_with};
use apimachinery::auth::GROUP_MASTERS;
use apiserver::Options;
use bytes::Bytes;
use controller_runtime::Transport as _;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::json;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn http2_and_names_in_the_certificate() {
    let running = start().await;
    let admin = running.admin("root").await;
    for path in ["/api/v1/namespaces", "/clusters/root/api/v1/namespaces"] {
        let answer = get(&admin, path).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["kind"], "NamespaceList");
        assert!(answer.headers.contains_key("audit-id"));
    }
}

#[tokio::test]
async fn http1_with_a_client_certificate() {
    let running = start().await;
    let credential = running.credential("root", "admin", &[GROUP_MASTERS]).await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(running.authority().as_bytes()).unwrap()).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(credential.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(credential.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let tcp = tokio::net::TcpStream::connect(running.address).await.unwrap();
    let name = ServerName::try_from("kubernetes.default.svc").unwrap();
    let tls = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
    assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..2 {
        let request = http::Request::get("/api/v1/nodes").header("host", "kubernetes").body(Full::new(Bytes::new()));
        let response = sender.send_request(request.unwrap()).await.unwrap();
        assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_11));
        response.into_body().collect().await.unwrap();
    }
}

#[tokio::test]
async fn an_unknown_authority_is_not_trusted_by_clients() {
    let (running, other) = (start().await, start().await);
    let options = controller_runtime::HttpOptions::new(format!("https://{}", running.address), other.authority());
    let client = controller_runtime::HttpTransport::new(options).unwrap();
    let request = http::Request::get("/healthz").body(Bytes::new()).unwrap();
    assert!(client.send(request).await.is_err());
}

#[tokio::test]
async fn bodies_over_the_limit() {
    let running = start_with(support::builder(Options { max_body_bytes: 1000, ..Options::default() }).await).await;
    let admin = running.admin("root").await;
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "x".repeat(2000)}});
    let answer = post(&admin, "/api/v1/namespaces/default/configmaps", map).await;
    assert_eq!(answer.status, 413);
    assert_eq!(answer.json()["reason"], "RequestEntityTooLarge");
    assert_eq!(answer.json()["message"], "Request entity too large: limit is 1000");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    assert_eq!(post(&admin, "/api/v1/namespaces/default/configmaps", map).await.status, 201);
}

#[tokio::test]
async fn protobuf_bodies_are_answered_in_json() {
    let running = start().await;
    let admin = running.admin("root").await;
    // The envelope, and in it a ConfigMap named `m` with `k: v` and an empty generateName.
    let map = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x0f\x0a\x05\x0a\x01m\x12\x00\x12\x06\x0a\x01k\x12\x01v";
    let headers = [
        ("content-type", "application/vnd.kubernetes.protobuf"),
        ("accept", "application/vnd.kubernetes.protobuf,application/json"),
    ];
    let path = "/api/v1/namespaces/default/configmaps";
    let created = send_with(&admin, "POST", path, &headers, Bytes::from_static(map)).await;
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!((&created.json()["metadata"]["name"], &created.json()["data"]), (&json!("m"), &json!({"k": "v"})));
    assert_eq!(created.headers["content-type"], "application/json");
    let broken = send_with(&admin, "POST", path, &headers, Bytes::from_static(&map[..20])).await;
    assert_eq!(broken.status, 400, "{}", broken.text());
    let unknown = Bytes::from_static(b"k8s\0\x0a\x08\x0a\x02v1\x12\x02No\x12\x00");
    assert_eq!(send_with(&admin, "POST", path, &headers, unknown).await.status, 415);
}

#[tokio::test]
async fn too_many_requests() {
    let options = Options { max_long_running: 0, max_requests_in_flight: 1, ..Options::default() };
    let running = start_with(support::builder(options).await).await;
    let admin = running.admin("root").await;
    let refused = get(&admin, "/api/v1/pods?watch=true").await;
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (429, Some("TooManyRequests")));
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(get(&admin, "/api/v1/pods").await.status, 200);
}

#[tokio::test]
async fn large_answers_are_compressed_on_request() {
    let running = start_with(support::builder(Options { gzip_threshold: 2000, ..Options::default() }).await).await;
    let admin = running.admin("root").await;
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let plain = get(&admin, path).await;
    assert!(plain.bytes.len() > 2000 && !plain.headers.contains_key("content-encoding"));
    let packed = send_with(&admin, "GET", path, &[("accept-encoding", "gzip")], Bytes::new()).await;
    assert_eq!(packed.headers["content-encoding"], "gzip");
    assert!(packed.bytes.len() < plain.bytes.len());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.bytes[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.bytes);
    let small = send_with(&admin, "GET", "/version", &[("accept-encoding", "gzip")], Bytes::new()).await;
    assert!(!small.headers.contains_key("content-encoding"));
}

#[tokio::test]
async fn shutdown_ends_watches_and_the_listener() {
    let mut running = start_with(
        support::builder(Options { shutdown_grace: Duration::from_millis(200), ..Options::default() }).await,
    )
    .await;
    let admin = running.admin("root").await;
    let request = http::Request::get("/api/v1/pods?watch=true").body(Bytes::new()).unwrap();
    let watch = admin.send(request).await.unwrap();
    assert_eq!(watch.status(), 200);
    running.shutdown.trigger();
    tokio::time::timeout(PATIENCE, &mut running.ended).await.unwrap().unwrap();
    assert!(tokio::time::timeout(PATIENCE, watch.into_body().collect()).await.is_ok());
    assert!(tokio::net::TcpStream::connect(running.address).await.is_err());
}
