//! Machines that fail and hosts that cannot have any, each with a reason that helps.

use crate::host;
use compute_api::{NodeProvider, NodeRequest, ProvisionError};
use microvm::{Error, HostOptions, HostProvider};
use std::fs;
use std::path::Path;

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_is_lost_with_its_own_last_words() {
    let dir = host::State::new();
    let provider = HostProvider::open(host::options(dir.path())).await.unwrap();
    let (fatal, panic) = (host::id("fatal"), host::id("panic"));
    provider.provision(&host::request(&fatal, "fatal")).await.unwrap();
    provider.provision(&host::request(&panic, "panic")).await.unwrap();
    assert_eq!(host::lost(&provider, &fatal).await, "socialweb-node: fatal: told to fail");
    let words = host::lost(&provider, &panic).await;
    assert!(words.starts_with("Kernel panic - not syncing: Attempted to kill init!"), "{words}");

    drop(provider);
    let provider = HostProvider::open(host::options(dir.path())).await.unwrap();
    assert_eq!(host::lost(&provider, &fatal).await, "socialweb-node: fatal: told to fail", "it is remembered");
    assert_eq!(host::lost(&provider, &panic).await, words);
    for id in [fatal, panic] {
        provider.release(&id).await.unwrap();
    }
    assert!(host::processes(dir.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_qemu_that_ends_at_once_is_lost_in_its_words() {
    let dir = host::State::new();
    let machine = host::id("one");
    let broken = dir.path().join("broken-qemu");
    fs::write(&broken, "#!/bin/sh\necho 'qemu: no such machine' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let options = HostOptions { qemu: broken, ..host::options(dir.path()) };
    let provider = HostProvider::open(options).await.unwrap();
    provider.provision(&host::request(&machine, "ready")).await.unwrap();
    let reason = host::lost(&provider, &machine).await;
    assert_eq!(reason, "its QEMU exited with code 1: qemu: no such machine");
    provider.release(&machine).await.unwrap();
}

async fn refused(options: HostOptions, change: impl Fn(&mut NodeRequest)) -> ProvisionError {
    let provider = HostProvider::open(options).await.unwrap();
    let machine = host::id("refused");
    let mut request = host::request(&machine, "ready");
    change(&mut request);
    let error = provider.provision(&request).await.unwrap_err();
    assert_eq!(provider.list().await.unwrap(), [], "nothing is left");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_says_why() {
    let dir = host::State::new();
    let same = |_: &mut NodeRequest| {};
    let options = |change: &dyn Fn(&mut HostOptions)| {
        let mut options = host::options(dir.path());
        change(&mut options);
        options
    };
    let says = |error: ProvisionError, declined: bool, words: &str| {
        assert_eq!(matches!(error, ProvisionError::Declined(_)), declined, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    says(refused(options(&|options| options.min_free_state_mib = u64::MAX), same).await, false, "MiB free");
    says(refused(options(&|options| options.memory_reserve_mib = 1 << 40), same).await, true, "MiB of memory");
    says(refused(options(&|options| options.max_machines = 0), same).await, true, "its limit");
    says(refused(options(&|options| options.agent_binary = "/absent".into()), same).await, false, "No such file");
    let dynamic = std::env::current_exe().unwrap();
    let with_dynamic = options(&|options| options.agent_binary = dynamic.clone());
    says(refused(with_dynamic, same).await, false, "linked dynamically");
    let no_qemu = options(&|options| options.qemu = "/absent/qemu".into());
    says(refused(no_qemu, same).await, false, "is it installed?");
    let no_image = options(&|options| options.image_archives = vec!["/absent.tar".into()]);
    says(refused(no_image, same).await, false, "/absent.tar");
    says(refused(options(&|_| {}), |request| request.cpus = 0).await, false, "CPUs");
    says(refused(options(&|_| {}), |request| request.memory_mib = 1).await, false, "memory");
    says(refused(options(&|_| {}), |request| request.id = host::id("../up")).await, false, "cannot name");
    let secret = |request: &mut NodeRequest| request.join_secret = compute_api::Secret::new("s3cret");
    let error = refused(options(&|_| {}), secret).await;
    assert!(!error.to_string().contains("s3cret"));
    says(error, false, "join secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_cache_is_made_again() {
    let dir = host::State::new();
    let cache = dir.path().join("cache");
    copy(&host::cache_dir(), &cache).await;
    let options = || HostOptions { cache_dir: cache.clone(), ..host::options(&dir.path().join("state")) };
    let archive = fs::read_dir(cache.join("initramfs")).unwrap().next().unwrap().unwrap().path();
    let length = fs::metadata(&archive).unwrap().len();
    fs::OpenOptions::new().write(true).open(&archive).unwrap().set_len(length - 1).unwrap();
    fs::create_dir(cache.join("kernels/.unfinished-1-1")).unwrap();
    let provider = HostProvider::open(options()).await.unwrap();
    provider.prepare().await.unwrap();
    assert_eq!(fs::metadata(&archive).unwrap().len(), length);
    assert!(!cache.join("kernels/.unfinished-1-1").exists(), "what a crash left is removed");
}

/// Copies a prepared cache.
async fn copy(from: &Path, to: &Path) {
    let dir = host::State::new();
    HostProvider::open(host::options(dir.path())).await.unwrap().prepare().await.unwrap();
    let status = std::process::Command::new("cp").arg("-r").args([from, to]).status().unwrap();
    assert!(status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_state_directory_has_one_provider() {
    let dir = host::State::new();
    let first = HostProvider::open(host::options(dir.path())).await.unwrap();
    let second = HostOptions { open_timeout: std::time::Duration::ZERO, ..host::options(dir.path()) };
    let error = HostProvider::open(second).await.unwrap_err();
    assert!(matches!(error, Error::InUse(_)), "{error}");
    drop(first);
    HostProvider::open(host::options(dir.path())).await.unwrap();
}
