//! The host of the tests: a state directory of their own, a cache that all share, the test agent.

use compute_api::{MachineId, MachineState, NodeProvider, NodeRequest, Secret};
use microvm::{HostOptions, HostProvider};
use node_api::BootConfig;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use test_support::eventually;

pub(crate) const TOKEN: &str = "a-token-that-must-stay-secret";

/// Where kernel, initramfs and probe are kept between runs.
pub(crate) fn cache_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("microvm-cache")
}

/// The compiled test agent. Each process compiles its own, and puts it in place whole.
pub(crate) fn agent() -> PathBuf {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT
        .get_or_init(|| {
            let shared = Path::new(env!("CARGO_TARGET_TMPDIR"));
            let place = shared.join("microvm-test-agent");
            // The compiler's own temporary files are named after the crate, so it gets a directory.
            let dir = tempfile::tempdir_in(shared).unwrap();
            let made = dir.path().join("agent");
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/agent.rs");
            let status = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
                .args(["--edition=2024", "-O", "-Cpanic=abort", "-Cstrip=symbols", "-Ctarget-feature=+crt-static"])
                .arg("--target=x86_64-unknown-linux-gnu")
                .arg("-o")
                .args([&made, &source])
                .env_remove("RUSTFLAGS")
                .status()
                .unwrap();
            assert!(status.success(), "the test agent does not compile");
            fs::rename(&made, &place).unwrap();
            place
        })
        .clone()
}

pub(crate) fn options(state_dir: &Path) -> HostOptions {
    HostOptions::new(state_dir, cache_dir(), agent())
}

pub(crate) fn id(name: &str) -> MachineId {
    MachineId(name.to_owned())
}

/// A request; `test` tells the test agent what to do.
pub(crate) fn request(id: &MachineId, test: &str) -> NodeRequest {
    let config = BootConfig {
        server: "https://10.0.2.2:6443".to_owned(),
        cluster: "root".to_owned(),
        node_name: "node-1".to_owned(),
        certificate_authority: String::new(),
        pod_cidr: "10.244.0.0/24".to_owned(),
        service_cidr: "10.96.0.0/12".to_owned(),
        cluster_dns: "10.96.0.10".to_owned(),
        cluster_domain: "cluster.local".to_owned(),
        labels: BTreeMap::from([("test".to_owned(), test.to_owned())]),
        insecure_registries: Vec::new(),
        registry_mirrors: BTreeMap::new(),
    };
    NodeRequest {
        id: id.clone(),
        cluster: "root".to_owned(),
        node_name: "node-1".to_owned(),
        cpus: 1,
        memory_mib: 192,
        boot_config: serde_json::to_string(&config).unwrap(),
        join_secret: Secret::new(format!(r#"{{"token":"{TOKEN}"}}"#)),
    }
}

/// Ids of the processes of machines below a directory.
pub(crate) fn processes(state_dir: &Path) -> Vec<u32> {
    // QEMU takes a comma in a path twice.
    let mark = state_dir.to_str().unwrap().replace(',', ",,");
    let mark = mark.as_bytes();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.starts_with(b"qemu") && line.windows(mark.len()).any(|window| window == mark) {
            found.push(pid);
        }
    }
    found
}

/// A state directory of a test. Whatever still runs in it ends with the test, also with one that
/// fails.
pub(crate) struct State {
    dir: tempfile::TempDir,
}

impl State {
    pub(crate) fn new() -> Self {
        Self { dir: test_support::tempdir() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for pid in processes(self.path()) {
            kill(pid);
        }
    }
}

/// Ends a process as a power cut would.
pub(crate) fn kill(pid: u32) {
    let status = Command::new("sh").args(["-c", &format!("kill -9 {pid}")]).status();
    assert!(status.is_ok(), "there is no shell");
}

pub(crate) async fn running(provider: &HostProvider, id: &MachineId) {
    let state = eventually("the machine to run or to be lost", || async {
        match provider.observe(id).await {
            settled @ (MachineState::Running | MachineState::Lost { .. }) => Ok(settled),
            other => Err(other),
        }
    })
    .await;
    let console = provider.console(id).and_then(|path| fs::read_to_string(path).ok());
    assert_eq!(state, MachineState::Running, "console: {console:?}");
}

pub(crate) async fn lost(provider: &HostProvider, id: &MachineId) -> String {
    eventually("the machine to be lost", || async {
        match provider.observe(id).await {
            MachineState::Lost { reason } => Ok(reason),
            other => Err(other),
        }
    })
    .await
}
