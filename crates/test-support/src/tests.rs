//! Tests of the helpers.
#![allow(clippy::unwrap_used)]

use super::*;
use std::cell::Cell;
use std::process::Stdio;

#[tokio::test]
async fn waits_until_it_is_so() {
    let count = Cell::new(0);
    let value = eventually("three calls", || {
        count.set(count.get() + 1);
        let now = count.get();
        async move { if now < 3 { Err(now) } else { Ok(now) } }
    })
    .await;
    assert_eq!(value, 3);
    assert_eq!(
        eventually_blocking("six calls", || {
            count.set(count.get() + 1);
            if count.get() < 6 { Err("not yet") } else { Ok(count.get()) }
        }),
        6
    );
}

#[test]
fn a_process_ends_with_its_guard() {
    let mut command = Command::new("sleep");
    command.arg("600").stdin(Stdio::null());
    let guard = ProcessGuard::spawn(&mut command);
    let path = format!("/proc/{}", guard.pid());
    assert!(std::fs::exists(&path).unwrap());
    drop(guard);
    assert!(!std::fs::exists(&path).unwrap());
}

#[test]
fn a_directory_goes_with_its_value() {
    let dir = tempdir();
    let path = dir.path().to_owned();
    std::fs::write(path.join("file"), "x").unwrap();
    drop(dir);
    assert!(!path.exists());
}
