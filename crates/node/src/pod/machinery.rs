//! The machine's own images and containers.

use super::engine::Engine;
use crate::container::{ContainerSpec, ExecSpec, ExitStatus, Runtime, Started};
use crate::image::{Images, PreparedImage, PullPolicy, RegistryAuth};
use async_trait::async_trait;
use rustix::process::Signal;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;

/// Output of a command kept for a message, bytes.
const MAX_OUTPUT: u64 = 8 * 1024;

/// The machine's own.
#[derive(Clone)]
pub(crate) struct Machinery {
    pub(crate) runtime: Runtime,
    pub(crate) images: Images,
    /// Whether the preloaded images are in.
    pub(crate) imported: watch::Receiver<bool>,
}

#[async_trait]
impl Engine for Machinery {
    async fn image(&self, name: &str, policy: PullPolicy, auth: Option<RegistryAuth>) -> Result<PreparedImage, String> {
        // An image may be among those that are being imported.
        let _ = self.imported.clone().wait_for(|imported| *imported).await;
        self.images.ensure(name, policy, auth.as_ref()).await.map_err(|error| runtime::error_chain(&error).to_string())
    }

    async fn start(&self, spec: &ContainerSpec) -> Result<Started, String> {
        self.runtime.create_and_start(spec).await.map_err(|error| runtime::error_chain(&error).to_string())
    }

    async fn wait(&self, id: &str) -> Option<ExitStatus> {
        self.runtime.wait(id).await.ok()
    }

    fn signal(&self, id: &str, signal: Signal) {
        if let Err(error) = self.runtime.signal(id, signal) {
            tracing::debug!(error = runtime::error_chain(&error), "cannot signal a container");
        }
    }

    fn kill(&self, id: &str) {
        if let Err(error) = self.runtime.kill_all(id) {
            tracing::debug!(error = runtime::error_chain(&error), "cannot kill a container");
        }
    }

    async fn remove(&self, id: &str) {
        if let Err(error) = self.runtime.remove(id).await {
            tracing::warn!(error = runtime::error_chain(&error), "cannot remove a container");
        }
    }

    async fn run(&self, id: &str, command: Vec<String>, limit: Duration) -> Result<(i32, String), String> {
        let spec = ExecSpec { command, tty: false, stdin: false };
        let mut session =
            self.runtime.exec(id, &spec).await.map_err(|error| runtime::error_chain(&error).to_string())?;
        let control = session.control();
        let (stdout, stderr) = (session.stdout.take(), session.stderr.take());
        let read = |stream: Option<crate::container::Reader>| async {
            let mut text = Vec::new();
            if let Some(mut stream) = stream {
                let _ = (&mut stream).take(MAX_OUTPUT).read_to_end(&mut text).await;
                // The rest must not block the process.
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            }
            text
        };
        let work = async { tokio::join!(read(stdout), read(stderr), control.wait()) };
        match tokio::time::timeout(limit, work).await {
            Ok((mut out, error, Some(status))) => {
                out.extend_from_slice(&error);
                Ok((status.code, String::from_utf8_lossy(&out).into_owned()))
            }
            Ok(_) => Err("the command was lost track of".to_owned()),
            Err(_) => {
                let _ = control.signal(Signal::KILL);
                Err(format!("command timed out after {limit:?}"))
            }
        }
    }
}
