//! The suite that every provider passes.

use crate::host;
use async_trait::async_trait;
use compute_api::conformance::{self, Harness};
use compute_api::{MachineId, NodeRequest};
use microvm::HostProvider;
use std::path::PathBuf;
use std::time::Duration;
use test_support::{PATIENCE, eventually};

struct Host {
    state_dir: PathBuf,
}

impl Host {
    fn machine(&self, id: &MachineId) -> PathBuf {
        self.state_dir.join("machines").join(&id.0)
    }
}

#[async_trait]
impl Harness for Host {
    type Provider = HostProvider;

    async fn open(&self) -> HostProvider {
        HostProvider::open(host::options(&self.state_dir)).await.unwrap()
    }

    fn request(&self, id: &MachineId) -> NodeRequest {
        host::request(id, "ready")
    }

    fn bad_request(&self, id: &MachineId) -> NodeRequest {
        NodeRequest { boot_config: "not a boot configuration".to_owned(), ..host::request(id, "ready") }
    }

    async fn destroy(&self, id: &MachineId) {
        let pids = host::processes(&self.machine(id));
        assert_eq!(pids.len(), 1, "one machine is one process");
        host::kill(pids[0]);
        eventually("the process to end", || async {
            if host::processes(&self.machine(id)).is_empty() { Ok(()) } else { Err("it runs") }
        })
        .await;
    }

    async fn traces(&self, id: &MachineId) -> Vec<String> {
        let dir = self.machine(id);
        let mut traces: Vec<String> = host::processes(&dir).iter().map(|pid| format!("process {pid}")).collect();
        if dir.exists() {
            traces.push(dir.display().to_string());
        }
        traces
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_is_a_conforming_provider() {
    let dir = host::State::new();
    conformance::run(&Host { state_dir: dir.path().join("state") }).await;
}
