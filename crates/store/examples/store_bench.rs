//! Measures the embedded store: durable puts, reads, watch fan-out, file size and restart.
//!
//! `store_bench [DIRECTORY] [--quick]`. Prints one `name value unit` line per measurement.

use bytes::Bytes;
use futures_util::StreamExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{Embedded, Error, KeyRange, Op, RangeOptions, Store, Txn, WatchItem, embedded};

const VALUE_BYTES: usize = 1024;

struct Scale {
    seconds_per_step: f64,
    keys: u64,
    updates: u64,
    watchers: u64,
    restart_keys: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let scale = if arguments.iter().any(|argument| argument == "--quick") {
        Scale { seconds_per_step: 0.5, keys: 1000, updates: 20_000, watchers: 1000, restart_keys: 50_000 }
    } else {
        Scale { seconds_per_step: 3.0, keys: 1000, updates: 300_000, watchers: 10_000, restart_keys: 1_000_000 }
    };
    let base = arguments.iter().find(|argument| !argument.starts_with('-')).map_or_else(std::env::temp_dir, Into::into);
    let directory = base.join(format!("store-bench-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(measure(&directory, &scale));
    std::fs::remove_dir_all(&directory)?;
    Ok(result?)
}

fn report(name: &str, value: f64, unit: &str) {
    println!("{name:<40} {value:>12.2} {unit}");
}

/// Values that do not compress.
fn value(mut seed: u64) -> Bytes {
    let mut bytes = Vec::with_capacity(VALUE_BYTES);
    while bytes.len() < VALUE_BYTES {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&seed.to_le_bytes());
    }
    bytes.into()
}

fn put(key: u64, seed: u64) -> Op {
    Op::Put { key: format!("r/core/pods/cluster/default/pod-{key:08}").into(), value: value(seed) }
}

async fn commit(store: &Embedded, ops: Vec<Op>) -> Result<(), Error> {
    store.commit(Txn { conditions: vec![], ops }).await.map(|_| ())
}

async fn measure(directory: &Path, scale: &Scale) -> Result<(), Error> {
    let store = Arc::new(Embedded::open(directory.join("small"), embedded::Options::default())?);
    for concurrency in [1, 16, 128] {
        puts(&store, concurrency, scale).await?;
    }
    drop(store);

    let store = Arc::new(Embedded::open(directory.join("updates"), embedded::Options::default())?);
    updates(&store, scale).await?;
    drop(store);

    let store = Arc::new(Embedded::open(directory.join("large"), embedded::Options::default())?);
    for first in (0..scale.restart_keys).step_by(5000) {
        commit(&store, (first..first + 5000).map(|key| put(key, key)).collect()).await?;
    }
    reads(&store, scale).await?;
    watches(&store, scale).await?;
    drop(store);
    let start = Instant::now();
    let store = Embedded::open(directory.join("large"), embedded::Options::default())?;
    report(&format!("restart, {} keys", scale.restart_keys), millis(start.elapsed()), "ms");
    drop(store);
    Ok(())
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

async fn join(tasks: Vec<tokio::task::JoinHandle<Result<(), Error>>>) -> Result<(), Error> {
    for task in tasks {
        task.await.map_err(|cause| Error::Failed(cause.to_string()))??;
    }
    Ok(())
}

async fn puts(store: &Arc<Embedded>, concurrency: u64, scale: &Scale) -> Result<(), Error> {
    let (count, nanos) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(scale.seconds_per_step);
    let keys = scale.keys;
    let writers = (0..concurrency).map(|writer| {
        let (store, count, nanos) = (store.clone(), count.clone(), nanos.clone());
        tokio::spawn(async move {
            let mut seed = writer;
            while Instant::now() < end {
                let one = Instant::now();
                commit(&store, vec![put(seed * 7919 % keys, seed)]).await?;
                nanos.fetch_add(one.elapsed().as_nanos() as u64, Ordering::Relaxed);
                count.fetch_add(1, Ordering::Relaxed);
                seed += concurrency;
            }
            Ok(())
        })
    });
    join(writers.collect()).await?;
    let count = count.load(Ordering::Relaxed);
    report(&format!("puts, {concurrency} at once"), count as f64 / start.elapsed().as_secs_f64(), "1/s");
    report(
        &format!("put latency, {concurrency} at once"),
        nanos.load(Ordering::Relaxed) as f64 / count as f64 / 1e6,
        "ms",
    );
    Ok(())
}

async fn updates(store: &Arc<Embedded>, scale: &Scale) -> Result<(), Error> {
    const WRITERS: u64 = 128;
    let (keys, each) = (scale.keys, scale.updates / WRITERS);
    let peak = Arc::new(AtomicU64::new(0));
    let writers = (0..WRITERS).map(|writer| {
        let (store, peak) = (store.clone(), peak.clone());
        tokio::spawn(async move {
            for number in 0..each {
                let seed = number * WRITERS + writer;
                commit(&store, vec![put(seed * 7919 % keys, seed)]).await?;
                if number % 64 == 0 {
                    peak.fetch_max(store.disk_bytes()?, Ordering::Relaxed);
                }
            }
            Ok(())
        })
    });
    let start = Instant::now();
    join(writers.collect()).await?;
    report(&format!("{} updates of {keys} keys", each * WRITERS), start.elapsed().as_secs_f64(), "s");
    let content = store.content_bytes().await?;
    report("live content", content.live as f64 / 1e6, "MB");
    report("kept history", content.history as f64 / 1e6, "MB");
    report("file, peak", peak.load(Ordering::Relaxed) as f64 / 1e6, "MB");
    let size = store.disk_bytes()? as f64;
    report("file, at the end", size / 1e6, "MB");
    report("file / content", size / (content.live + content.history) as f64, "x");
    tokio::time::sleep(embedded::Options::default().quiet + Duration::from_secs(2)).await;
    let size = store.disk_bytes()? as f64;
    report("file, after a quiet while", size / 1e6, "MB");
    report("file / content, after a quiet while", size / (content.live + content.history) as f64, "x");
    Ok(())
}

async fn reads(store: &Arc<Embedded>, scale: &Scale) -> Result<(), Error> {
    const READS: u64 = 20_000;
    let start = Instant::now();
    for number in 0..READS {
        let key = number * 7919 % scale.restart_keys;
        store.get(format!("r/core/pods/cluster/default/pod-{key:08}").as_bytes(), None).await?;
    }
    report("get", start.elapsed().as_secs_f64() * 1e6 / READS as f64, "us");
    let range = KeyRange { start: "r/core/pods/cluster/default/pod-00001".into(), end: None };
    let limit = std::num::NonZeroUsize::new(10_000);
    for name in ["range of 10k, first", "range of 10k, again"] {
        let start = Instant::now();
        store.range(&range, RangeOptions { at: None, limit }).await?;
        report(name, millis(start.elapsed()), "ms");
    }
    let at = Some(store.compacted());
    let start = Instant::now();
    store.range(&range, RangeOptions { at, limit }).await?;
    report("range of 10k in the past", millis(start.elapsed()), "ms");
    Ok(())
}

/// Everyone watches a key of its own, and one task follows everything.
async fn watches(store: &Arc<Embedded>, scale: &Scale) -> Result<(), Error> {
    const WRITES: u64 = 2000;
    let revision = store.revision();
    let mut idle = Vec::new();
    for number in 0..scale.watchers {
        idle.push(store.watch(&KeyRange::prefix(format!("r/other/cluster-{number}/")), revision).await?);
    }
    let mut all = store.watch(&KeyRange::prefix(""), revision).await?;
    let follower = tokio::spawn(async move {
        let mut seen = 0;
        while seen < WRITES {
            match all.next().await {
                Some(Ok(WatchItem::Changes { .. })) => seen += 1,
                Some(Ok(WatchItem::Progress(_))) => {}
                Some(Err(why)) => return Err(why),
                None => return Err(Error::Closed),
            }
        }
        Ok(())
    });
    let start = Instant::now();
    let writers = (0..16).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for number in 0..WRITES / 16 {
                commit(&store, vec![put(writer * 1000 + number, number)]).await?;
            }
            Ok(())
        })
    });
    join(writers.collect()).await?;
    join(vec![follower]).await?;
    let rate = WRITES as f64 / start.elapsed().as_secs_f64();
    report(&format!("puts, 16 at once, {} idle watches", scale.watchers), rate, "1/s");
    drop(idle);
    Ok(())
}
