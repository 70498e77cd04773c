//! What a worker needs of images and containers, so that it can be tested without either.

use crate::container::{ContainerSpec, ExitStatus, Started};
use crate::image::{PreparedImage, PullPolicy, RegistryAuth};
use async_trait::async_trait;
use rustix::process::Signal;
use std::time::Duration;

/// Images and containers.
#[async_trait]
pub(crate) trait Engine: Send + Sync + 'static {
    /// Gets an image, unpacked.
    async fn image(&self, name: &str, policy: PullPolicy, auth: Option<RegistryAuth>) -> Result<PreparedImage, String>;
    /// Starts a container.
    async fn start(&self, spec: &ContainerSpec) -> Result<Started, String>;
    /// Waits for a container's end; `None` when it is unknown.
    async fn wait(&self, id: &str) -> Option<ExitStatus>;
    /// Signals a container's first process, if it runs.
    fn signal(&self, id: &str, signal: Signal);
    /// Kills everything in a container.
    fn kill(&self, id: &str);
    /// Removes a container that has ended.
    async fn remove(&self, id: &str);
    /// Runs a command in a container: its exit code and what it said.
    async fn run(&self, id: &str, command: Vec<String>, limit: Duration) -> Result<(i32, String), String>;
}
