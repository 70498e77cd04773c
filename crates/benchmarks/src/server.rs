//! A server that is measured from outside: its process, and a client for it.

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use controller_runtime::{Client, HttpOptions, HttpTransport};
use serde_json::Value;
use std::fmt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const START: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(1);

/// What the server uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Resident memory, KiB.
    pub(crate) rss_kib: u64,
    pub(crate) threads: u64,
    /// Asynchronous tasks, as the server counts them.
    pub(crate) tasks: u64,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB resident, {} threads, {} tasks", self.rss_kib, self.threads, self.tasks)
    }
}

pub(crate) struct Server {
    process: Child,
    pub(crate) client: Client,
    /// From starting the process until it answered `/readyz`.
    pub(crate) ready_after: Duration,
}

impl Server {
    /// Starts the program on a state directory and waits until it is ready.
    pub(crate) async fn start(program: &Path, state: &Path) -> Result<Self> {
        let kubeconfig = state.join("admin.kubeconfig");
        let address = state.join("address");
        let _ = std::fs::remove_file(&kubeconfig);
        let begin = Instant::now();
        let mut process = Command::new(program)
            .args(["serve", "--no-prepare", "--log", "warn", "--state"])
            .arg(state)
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        while !(kubeconfig.exists() && address.exists()) {
            if let Some(status) = process.try_wait()? {
                bail!("the server ended: {status}");
            }
            if begin.elapsed() > START {
                bail!("the server is not up after {START:?}");
            }
            tokio::time::sleep(POLL).await;
        }
        let client = client(&kubeconfig)?;
        client.get_text("/readyz").await.context("/readyz")?;
        Ok(Self { process, client, ready_after: begin.elapsed() })
    }

    pub(crate) async fn usage(&self) -> Result<Usage> {
        let metrics = self.client.get_text("/metrics").await.context("/metrics")?;
        let figure = |name: &str| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|figure| figure.parse::<u64>().ok()).with_context(|| format!("/metrics tells no {name}"))
        };
        Ok(Usage {
            rss_kib: figure("process_resident_memory_bytes")? / 1024,
            threads: figure("process_threads")?,
            tasks: figure("tokio_alive_tasks")?,
        })
    }

    /// Kills it as a crash would.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn client(kubeconfig: &Path) -> Result<Client> {
    let config: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(kubeconfig)?)?;
    let decode = |value: &Value| -> Result<String> {
        Ok(String::from_utf8(STANDARD.decode(value.as_str().context("kubeconfig")?)?)?)
    };
    let cluster = &config["clusters"][0]["cluster"];
    let user = &config["users"][0]["user"];
    let url = cluster["server"].as_str().context("kubeconfig")?;
    let (server, workspace) = url.split_once("/clusters/").context("kubeconfig")?;
    let mut options = HttpOptions::new(server, decode(&cluster["certificate-authority-data"])?);
    options.client_certificate = Some((decode(&user["client-certificate-data"])?, decode(&user["client-key-data"])?));
    Ok(Client::new(Arc::new(HttpTransport::new(options)?), workspace))
}
