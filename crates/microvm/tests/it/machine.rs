//! What a guest gets and what it leaves.

use crate::host::{self, TOKEN};
use compute_api::NodeProvider;
use microvm::{HostProvider, Severity, check_host};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use test_support::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_finds_its_drives_modules_and_network() {
    let dir = host::State::new();
    let state_dir = dir.path().join("state, with comma");
    let image = dir.path().join("image.tar");
    fs::write(&image, "hello image!").unwrap();
    let mut options = host::options(&state_dir);
    options.image_archives = vec![image];
    let provider = HostProvider::open(options.clone()).await.unwrap();
    provider.prepare().await.unwrap();
    assert!(fs::exists(options.cache_dir.join("acceleration.json")).unwrap());
    let findings = check_host(&options);
    assert!(findings.iter().all(|finding| finding.severity != Severity::Error), "{findings:?}");

    let machine = host::id("one");
    provider.provision(&host::request(&machine, "modules")).await.unwrap();
    let own = state_dir.join("machines/one");
    let join = own.join("join.img");
    if let Ok(found) = fs::metadata(&join) {
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
    }
    let [pid] = host::processes(&own)[..] else { panic!("one machine is one process") };
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
    for place in [arguments, environment] {
        assert!(!place.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes()));
    }
    host::running(&provider, &machine).await;
    let console = fs::read_to_string(provider.console(&machine).unwrap()).unwrap();
    for line in [
        r#"test: drives {"cidata": "vda", "image0": "vdc", "join": "vdb"}"#,
        "test: network true",
        "test: header \"#socialweb-node\"",
        "test: join drive holds JSON true",
        "test: image \"hello image!\"",
        "test: loaded nft-filter",
    ] {
        assert!(console.contains(line), "{line} in {console}");
    }
    assert!(!console.contains(TOKEN));
    assert!(!join.exists(), "the secret is gone once the machine is ready");
    provider.joined(&machine).await;
    for entry in fs::read_dir(&own).unwrap() {
        let path = entry.unwrap().path();
        let content = fs::read(&path).unwrap();
        assert!(!content.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes()), "{}", path.display());
    }
    provider.release(&machine).await.unwrap();
    assert!(!own.exists());
    assert!(provider.timings(&machine).is_none() && provider.console(&machine).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_joined_machine_keeps_no_secret() {
    let dir = host::State::new();
    let provider = HostProvider::open(host::options(dir.path())).await.unwrap();
    let machine = host::id("joins");
    provider.provision(&host::request(&machine, "ready")).await.unwrap();
    provider.joined(&machine).await;
    assert!(!dir.path().join("machines/joins/join.img").exists());
    provider.joined(&machine).await;
    provider.joined(&host::id("unknown")).await;
    provider.release(&machine).await.unwrap();
    eventually("no process", || async {
        if host::processes(dir.path()).is_empty() { Ok(()) } else { Err(host::processes(dir.path())) }
    })
    .await;
}
