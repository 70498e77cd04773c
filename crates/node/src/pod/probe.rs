//! Probes and hooks: a command in the container, an HTTP request, a TCP connection.

use super::engine::Engine;
use super::worker::{ProbeKind, Report};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{ContainerPort, ExecAction, HTTPGetAction, LifecycleHandler, Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// What is probed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) id: &'a str,
    pub(crate) address: &'a str,
    pub(crate) ports: Option<&'a [ContainerPort]>,
}

/// Counts results against a probe's thresholds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    success: u32,
    failure: u32,
    run: u32,
    last: Option<bool>,
}

impl Thresholds {
    /// Nothing was probed yet.
    pub(crate) fn new(success: Option<i32>, failure: Option<i32>) -> Self {
        let positive = |value: Option<i32>, default| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        Self { success: positive(success, 1), failure: positive(failure, 3), run: 0, last: None }
    }

    /// Takes a result; the verdict once so many in a row agree.
    pub(crate) fn count(&mut self, ok: bool) -> Option<bool> {
        self.run = if self.last == Some(ok) { self.run.saturating_add(1) } else { 1 };
        self.last = Some(ok);
        (self.run >= if ok { self.success } else { self.failure }).then_some(ok)
    }
}

/// Probes until the reports are not wanted; a startup probe until its first verdict.
#[allow(clippy::too_many_arguments)]
pub(crate) async fn watch(
    engine: Arc<dyn Engine>,
    kind: ProbeKind,
    probe: Probe,
    name: String,
    id: String,
    address: String,
    ports: Option<Vec<ContainerPort>>,
    reports: mpsc::Sender<Report>,
) {
    let seconds = |value: Option<i32>, default: u64| {
        Duration::from_secs(value.and_then(|value| u64::try_from(value).ok()).filter(|v| *v > 0).unwrap_or(default))
    };
    let limit = seconds(probe.timeout_seconds, 1);
    let mut thresholds = Thresholds::new(probe.success_threshold, probe.failure_threshold);
    tokio::time::sleep(seconds(probe.initial_delay_seconds, 0)).await;
    let mut tick = tokio::time::interval(seconds(probe.period_seconds, 10));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let target = Target { id: &id, address: &address, ports: ports.as_deref() };
        let result = once(&*engine, &probe, &target, limit).await;
        let verdict = thresholds.count(result.is_ok());
        let message = result.err().unwrap_or_default();
        let report = Report::Probe { name: name.clone(), id: id.clone(), kind, verdict, message };
        if reports.send(report).await.is_err() || (kind == ProbeKind::Startup && verdict.is_some()) {
            return;
        }
    }
}

async fn once(engine: &dyn Engine, probe: &Probe, target: &Target<'_>, limit: Duration) -> Result<(), String> {
    if let Some(action) = &probe.exec {
        return exec(engine, action, target.id, limit).await;
    }
    let network = async {
        if let Some(action) = &probe.http_get {
            http(action, target).await
        } else if let Some(action) = &probe.tcp_socket {
            tcp(action, target).await
        } else {
            Err("the probe is of a kind that this node does not support".to_owned())
        }
    };
    tokio::time::timeout(limit, network).await.unwrap_or_else(|_| Err(format!("timed out after {limit:?}")))
}

/// Runs a lifecycle hook.
pub(crate) async fn hook(
    engine: &dyn Engine,
    hook: &LifecycleHandler,
    target: &Target<'_>,
    limit: Duration,
) -> Result<(), String> {
    if let Some(action) = &hook.exec {
        return exec(engine, action, target.id, limit).await;
    }
    let work = async {
        if let Some(action) = &hook.http_get {
            http(action, target).await
        } else if let Some(action) = &hook.sleep {
            tokio::time::sleep(Duration::from_secs(u64::try_from(action.seconds).unwrap_or(0))).await;
            Ok(())
        } else {
            Ok(())
        }
    };
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(format!("timed out after {limit:?}")))
}

async fn exec(engine: &dyn Engine, action: &ExecAction, id: &str, limit: Duration) -> Result<(), String> {
    match engine.run(id, action.command.clone().unwrap_or_default(), limit).await {
        Ok((0, _)) => Ok(()),
        Ok((code, output)) if output.trim().is_empty() => Err(format!("command exited with {code}")),
        Ok((_, output)) => Err(output),
        Err(error) => Err(error),
    }
}

/// The number of a port that may be given by name.
pub(crate) fn port(port: &IntOrString, ports: Option<&[ContainerPort]>) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => ports
            .unwrap_or_default()
            .iter()
            .find(|port| port.name.as_deref() == Some(name))
            .map(|port| port.container_port)
            .or_else(|| name.parse().ok()),
    };
    number.and_then(|number| u16::try_from(number).ok()).ok_or_else(|| "the port does not exist".to_owned())
}

async fn tcp(action: &TCPSocketAction, target: &Target<'_>) -> Result<(), String> {
    let host = action.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(target.address);
    let port = port(&action.port, target.ports)?;
    TcpStream::connect((host, port)).await.map(drop).map_err(|error| format!("dial tcp {host}:{port}: {error}"))
}

async fn http(action: &HTTPGetAction, target: &Target<'_>) -> Result<(), String> {
    let host = action.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(target.address);
    let port = port(&action.port, target.ports)?;
    let failed = |error: &dyn std::fmt::Display| format!("Get \"http://{host}:{port}\": {error}");
    let stream = TcpStream::connect((host, port)).await.map_err(|error| failed(&error))?;
    let path = match action.path.as_deref().unwrap_or("/") {
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    };
    let mut request = http::Request::get(path).header("User-Agent", "kube-probe/1.36").header("Accept", "*/*");
    let mut named = false;
    for header in action.http_headers.iter().flatten() {
        named |= header.name.eq_ignore_ascii_case("host");
        request = request.header(&header.name, &header.value);
    }
    if !named {
        request = request.header("Host", format!("{host}:{port}"));
    }
    let request = request.body(Empty::<bytes::Bytes>::new()).map_err(|error| failed(&error))?;
    let status = if action.scheme.as_deref() == Some("HTTPS") {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(&error))?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(insecure::config().map_err(|e| failed(&e))?));
        get(connector.connect(name, stream).await.map_err(|error| failed(&error))?, request).await
    } else {
        get(stream, request).await
    }
    .map_err(|error| failed(&error))?;
    if (200..400).contains(&status) { Ok(()) } else { Err(format!("HTTP probe failed with statuscode: {status}")) }
}

async fn get<S>(stream: S, request: http::Request<Empty<bytes::Bytes>>) -> hyper::Result<u16>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    const MAX_BODY: usize = 10 * 1024;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let drive = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    // Read a little, so that the server does not see the connection break.
    let mut body = response.into_body();
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, bytes::Bytes::len);
        if read > MAX_BODY {
            break;
        }
    }
    drive.abort();
    Ok(status)
}

mod insecure {
    //! TLS to a probed container, whose certificate nobody can know.

    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
    use std::sync::Arc;

    #[derive(Debug)]
    struct AnyServer(Vec<SignatureScheme>);

    pub(super) fn config() -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let schemes = provider.signature_verification_algorithms.supported_schemes();
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer(schemes)))
            .with_no_client_auth();
        Ok(config)
    }

    impl ServerCertVerifier for AnyServer {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{IntOrString, Target, Thresholds, http, port, tcp};
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn verdicts_need_results_in_a_row() {
        let mut thresholds = Thresholds::new(Some(2), Some(3));
        let results = [true, true, true, false, false, true, false, false, false, false];
        let verdicts: Vec<Option<bool>> = results.into_iter().map(|ok| thresholds.count(ok)).collect();
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(verdicts, [None, yes, yes, None, None, None, None, None, no, no]);
        assert_eq!(Thresholds::new(None, None).count(true), yes);
    }

    #[test]
    fn ports_by_name_or_number() {
        let ports = serde_json::from_value::<Vec<_>>(json!([{"name": "web", "containerPort": 8080}])).unwrap();
        assert_eq!(port(&IntOrString::String("web".into()), Some(&ports)), Ok(8080));
        assert_eq!(port(&IntOrString::Int(9), None), Ok(9));
        assert!(port(&IntOrString::String("x".into()), Some(&ports)).is_err());
        assert!(port(&IntOrString::Int(70_000), None).is_err());
    }

    #[tokio::test]
    async fn network_probes_on_loopback() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let number = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            for answer in ["204 No Content", "503 Busy"] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 1024];
                let read = stream.read(&mut request).await.unwrap();
                assert!(String::from_utf8_lossy(&request[..read]).starts_with("GET /health HTTP/1.1"));
                stream.write_all(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n").as_bytes()).await.unwrap();
            }
            listener.accept().await.unwrap();
        });
        let target = Target { id: "", address: "127.0.0.1", ports: None };
        let get = serde_json::from_value(json!({"path": "health", "port": number})).unwrap();
        assert_eq!(http(&get, &target).await, Ok(()));
        assert_eq!(http(&get, &target).await, Err("HTTP probe failed with statuscode: 503".to_owned()));
        let socket = serde_json::from_value(json!({"port": number})).unwrap();
        assert_eq!(tcp(&socket, &target).await, Ok(()));
        server.await.unwrap();
        assert!(tcp(&socket, &target).await.is_err(), "nothing listens any more");
    }
}
