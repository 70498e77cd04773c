//! Runs the suite against both drivers.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Embedded, Memory, Store, WatchOptions, embedded, memory};

fn watch_options() -> WatchOptions {
    WatchOptions {
        ring_transactions: 100,
        buffer_transactions: 700,
        progress_interval: Duration::from_millis(50),
        ..WatchOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    let options = memory::Options { watch: watch_options(), ..memory::Options::default() };
    store::conformance::run(|| async { Arc::new(Memory::new(options)) as Arc<dyn Store> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded() {
    let options = embedded::Options { watch: watch_options(), ..embedded::Options::default() };
    let directories = Mutex::new(Vec::new());
    store::conformance::run(|| async {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(directory.path(), options).unwrap();
        directories.lock().unwrap().push(directory);
        Arc::new(store) as Arc<dyn Store>
    })
    .await;
}
