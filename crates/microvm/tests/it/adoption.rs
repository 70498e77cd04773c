//! A control plane that is killed loses no machine.

use crate::host;
use compute_api::{MachineState, NodeProvider};
use microvm::HostProvider;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use test_support::ProcessGuard;

const HOLDER: &str = "MICROVM_TEST_HOLDER_STATE_DIR";
const STARTED: &str = "holder: started";

/// This test runs itself once more as the control plane that is killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_survives_kill_9_of_its_provider() {
    let machine = host::id("survivor");
    if let Some(state_dir) = std::env::var_os(HOLDER) {
        let provider = HostProvider::open(host::options(Path::new(&state_dir))).await.unwrap();
        provider.provision(&host::request(&machine, "ready")).await.unwrap();
        println!("{STARTED}");
        std::future::pending::<()>().await;
    }
    let dir = host::State::new();
    let state_dir = dir.path().join("state");
    let name = "adoption::a_machine_survives_kill_9_of_its_provider";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]).env(HOLDER, &state_dir).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut holder = ProcessGuard::spawn(&mut command);
    let output = BufReader::new(holder.child().stdout.take().unwrap());
    let started = output.lines().map_while(Result::ok).any(|line| line.contains(STARTED));
    assert!(started, "the holder ended before it had started a machine");
    holder.kill();

    let pids = host::processes(&state_dir);
    assert_eq!(pids.len(), 1, "the machine runs on");
    let provider = HostProvider::open(host::options(&state_dir)).await.unwrap();
    assert_eq!(provider.list().await.unwrap(), std::slice::from_ref(&machine));
    host::running(&provider, &machine).await;
    assert_eq!(host::processes(&state_dir), pids, "it is the same one");
    let timings = provider.timings(&machine).unwrap();
    assert!(timings.started_ms.unwrap() >= timings.requested_ms);
    assert!(timings.ready_ms.unwrap() >= timings.started_ms.unwrap());

    drop(provider);
    let provider = HostProvider::open(host::options(&state_dir)).await.unwrap();
    assert_eq!(provider.observe(&machine).await, MachineState::Running);
    assert_eq!(provider.timings(&machine), Some(timings), "times are remembered");

    // A record that lost its process, as after a crash right between start and record.
    drop(provider);
    let record = state_dir.join("machines/survivor/record.json");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    json["process"] = serde_json::Value::Null;
    std::fs::write(&record, json.to_string()).unwrap();
    let provider = HostProvider::open(host::options(&state_dir)).await.unwrap();
    assert_eq!(provider.observe(&machine).await, MachineState::Running, "found by its name");

    // A record that cannot be read is not a lost machine, and releasing it still ends the process.
    drop(provider);
    std::fs::write(&record, "{").unwrap();
    let provider = HostProvider::open(host::options(&state_dir)).await.unwrap();
    assert!(matches!(provider.observe(&machine).await, MachineState::Unknown { .. }));
    provider.release(&machine).await.unwrap();
    assert!(host::processes(&state_dir).is_empty(), "nothing runs");
}
