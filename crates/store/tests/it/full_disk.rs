//! A store without room: refuses writes, goes on reading, and recovers.

use bytes::Bytes;
use std::path::Path;
use store::{Commit, Embedded, Error, KeyRange, Op, RangeOptions, Revision, Store, Txn, embedded};

fn options() -> embedded::Options {
    // A small cache, so that pages leave memory before the commit.
    embedded::Options { cache_bytes: 1 << 20, history_bytes: 256 << 10, ..embedded::Options::default() }
}

async fn put(store: &Embedded, key: &str, bytes: usize) -> Result<Revision, Error> {
    let op = Op::Put { key: Bytes::copy_from_slice(key.as_bytes()), value: vec![b'v'; bytes].into() };
    match store.commit(Txn { conditions: vec![], ops: vec![op] }).await? {
        Commit::Done { revision } => Ok(revision),
        Commit::Conflict { .. } => unreachable!("there is no condition"),
    }
}

/// Writes until there is no room, checks that nothing is lost, and returns how many writes fit.
async fn fill(store: &Embedded) -> usize {
    let mut count = 0;
    let why = loop {
        match put(store, &format!("k/{count:05}"), 20_000).await {
            Ok(revision) => assert_eq!(revision.0, count as u64 + 1),
            Err(why) => break why,
        }
        count += 1;
        assert!(count < 5000, "the limit does not work");
    };
    assert_eq!(why, Error::OutOfSpace);
    assert_eq!(store.revision(), Revision(count as u64), "a refused write takes no revision");
    for _ in 0..3 {
        assert_eq!(put(store, "big", 2 << 20).await, Err(Error::OutOfSpace));
        check(store, count).await;
    }
    count
}

async fn check(store: &Embedded, count: usize) {
    let all = store.range(&KeyRange::prefix(Bytes::new()), RangeOptions::default()).await.unwrap();
    assert_eq!(all.entries.len(), count, "every acknowledged write can be read, and no other");
    assert!(all.entries.iter().all(|entry| entry.value.len() == 20_000));
}

async fn writes_again(store: &Embedded, count: usize) {
    let revision = put(store, "later", 1 << 20).await.unwrap();
    assert_eq!(revision.0, count as u64 + 1, "the next revision follows the last that was acknowledged");
    assert_eq!(store.get(b"later", None).await.unwrap().unwrap().value.len(), 1 << 20);
}

#[tokio::test]
async fn size_limit() {
    let directory = tempfile::tempdir().unwrap();
    let limited = embedded::Options { max_file_bytes: Some(8 << 20), ..options() };
    let store = Embedded::open(directory.path(), limited).unwrap();
    let count = fill(&store).await;
    assert!(count > 100, "only {count} writes of 20 kB fit into 8 MiB");
    assert!(store.disk_bytes().unwrap() <= 8 << 20);
    drop(store);

    let store = Embedded::open(directory.path(), limited).unwrap();
    check(&store, count).await;
    assert_eq!(put(&store, "big", 2 << 20).await, Err(Error::OutOfSpace));
    drop(store);

    let store = Embedded::open(directory.path(), options()).unwrap();
    check(&store, count).await;
    writes_again(&store, count).await;
}

async fn delete_half(store: &Embedded, count: usize) {
    for number in 0..count / 2 {
        let op = Op::Delete { key: format!("k/{number:05}").into() };
        store.commit(Txn { conditions: vec![], ops: vec![op] }).await.unwrap();
    }
    for number in 0..count / 3 {
        put(store, &format!("later/{number}"), 20_000).await.unwrap();
    }
    assert_eq!(store.get(b"k/00000", None).await, Ok(None));
}

#[tokio::test]
async fn deleting_makes_room_below_a_size_limit() {
    let directory = tempfile::tempdir().unwrap();
    let limited = embedded::Options { max_file_bytes: Some(8 << 20), ..options() };
    let store = Embedded::open(directory.path(), limited).unwrap();
    let count = fill(&store).await;
    delete_half(&store, count).await;
    assert!(store.disk_bytes().unwrap() <= 8 << 20);
}

#[tokio::test]
async fn history_goes_before_a_write_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let limited = embedded::Options { max_file_bytes: Some(8 << 20), history_bytes: 1 << 30, ..options() };
    let store = Embedded::open(directory.path(), limited).unwrap();
    for _ in 0..1000 {
        put(&store, "same", 20_000).await.unwrap();
    }
    assert!(store.compacted() > Revision(500), "20 MB of history do not fit");
}

#[tokio::test]
async fn deleting_makes_room_on_a_full_device() {
    let Some(device) = Device::mount("size=8m") else {
        println!("skipped: mounting a file system needs root");
        return;
    };
    let store = Embedded::open(device.path().join("store"), options()).unwrap();
    let count = fill(&store).await;
    delete_half(&store, count).await;
}

/// A real device: a small file system in memory, which only root can mount.
#[tokio::test]
async fn full_device() {
    let Some(device) = Device::mount("size=24m") else {
        println!("skipped: mounting a file system needs root");
        return;
    };
    let store = Embedded::open(device.path().join("store"), options()).unwrap();
    let ballast = device.path().join("ballast");
    std::fs::write(&ballast, vec![0; 17 << 20]).unwrap();
    let count = fill(&store).await;
    std::fs::remove_file(ballast).unwrap();
    writes_again(&store, count).await;
    drop(store);
    let store = Embedded::open(device.path().join("store"), options()).unwrap();
    assert_eq!(store.revision(), Revision(count as u64 + 1));
}

struct Device(tempfile::TempDir);

impl Device {
    fn mount(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let size = std::ffi::CString::new(size).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("store-test", directory.path(), "tmpfs", flags, &*size).ok()?;
        Some(Self(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
    }
}
