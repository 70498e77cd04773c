//! Kills a writing process at random moments and checks what it left behind.
//!
//! `STORE_CRASH_ROUNDS` sets the number of kills, `STORE_CRASH_SEED` replays a run's choices.

use bytes::Bytes;
use futures_util::StreamExt;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Change, Commit, Embedded, KeyRange, Op, RangeOptions, Revision, Store, Txn, WatchItem, embedded};

const DIRECTORY: &str = "STORE_CRASH_DIRECTORY";
const SEED: &str = "STORE_CRASH_SEED";
const ROUNDS: &str = "STORE_CRASH_ROUNDS";
const WRITERS: u64 = 4;
/// Keys that every transaction of one writer sets to the same value.
const TOGETHER: u64 = 3;
/// Room for one writer's keys that only some transactions set.
const SINGLE: u64 = 40;

/// Small bounds, so that trimming and shrinking are under way when the kill comes.
fn options() -> embedded::Options {
    embedded::Options {
        history_revisions: 300,
        history_bytes: 200 << 10,
        trim_step: 16,
        quiet: Duration::from_millis(1),
        quiet_cache_bytes: 0,
        shrink_min_bytes: 0,
        shrink_ratio: 1,
        cache_bytes: 1 << 20,
        ..embedded::Options::default()
    }
}

fn together_key(writer: u64, number: u64) -> String {
    format!("together/{writer}/{number}")
}

/// The child process: writes until it is killed and tells each acknowledged transaction.
/// Without the variable this is not the child, and there is nothing to do.
#[test]
fn writer_process() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
    let store = Arc::new(Embedded::open(directory, options()).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // A quiet start is when the file is trimmed and shrunk.
        if seed.is_multiple_of(3) {
            tokio::time::sleep(Duration::from_millis(seed % 16)).await;
        }
        let writers = (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), writer, seed)));
        futures_util::future::join_all(writers.collect::<Vec<_>>()).await;
    });
}

async fn write(store: Arc<Embedded>, writer: u64, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed ^ writer);
    loop {
        let token: u64 = random.random();
        let value = Bytes::from(vec![b'.'; random.random_range(0..3000)]);
        let together = Bytes::from(format!("{token}"));
        let mut ops: Vec<_> = (0..TOGETHER)
            .map(|number| Op::Put { key: together_key(writer, number).into(), value: together.clone() })
            .collect();
        let single = format!("single/{writer}/{}", random.random_range(0..SINGLE));
        ops.push(match random.random_range(0..4) {
            0 => Op::DeleteRange { range: KeyRange::prefix(single) },
            1 => Op::Delete { key: single.into() },
            _ => Op::Put { key: single.into(), value },
        });
        let Ok(Commit::Done { revision }) = store.commit(Txn { conditions: vec![], ops }).await else {
            panic!("the store failed without a kill")
        };
        // One write call, so that a kill tears no line.
        let line = format!("\nacknowledged {writer} {revision} {token}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        if random.random_range(0..20) == 0 {
            tokio::time::sleep(Duration::from_millis(random.random_range(0..4))).await;
        }
    }
}

struct Acknowledged {
    revision: u64,
    token: u64,
}

/// Starts a writer, kills it at a random moment, and returns the newest acknowledged transaction
/// of each of its tasks, and how many there were.
fn run_and_kill(directory: &Path, random: &mut StdRng) -> (BTreeMap<u64, Acknowledged>, usize) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::writer_process", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .env(SEED, random.random::<u64>().to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (after_lines, then) = (random.random_range(0..60), Duration::from_micros(random.random_range(0..4000)));
    // Some kills come while the child is still opening the store.
    let early = random.random_range(0..10) == 0;
    if early {
        kill_after(&mut child, Duration::from_micros(random.random_range(0..20_000)));
    }
    let mut newest = BTreeMap::new();
    let (mut count, mut killed) = (0, early);
    for line in lines {
        let line = line.unwrap();
        let mut words = line.split(' ');
        if words.next() != Some("acknowledged") {
            continue;
        }
        let mut number = || words.next().unwrap().parse::<u64>().unwrap();
        let (writer, revision, token) = (number(), number(), number());
        newest.insert(writer, Acknowledged { revision, token });
        count += 1;
        if count > after_lines && !killed {
            kill_after(&mut child, then);
            killed = true;
        }
    }
    let mut stderr = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut stderr).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "not killed by us: {stderr}");
    (newest, count)
}

/// Waits by the clock: the moment of the kill is the input of this test.
fn kill_after(child: &mut Child, delay: Duration) {
    let end = Instant::now() + delay;
    while Instant::now() < end {
        std::thread::yield_now();
    }
    child.kill().unwrap();
}

async fn verify(store: &Embedded, newest: &BTreeMap<u64, Acknowledged>, before: Revision) {
    let revision = store.revision();
    assert!(revision >= before, "revisions went back from {before} to {revision}");
    let range = store.range(&KeyRange::prefix("together/"), RangeOptions::default()).await.unwrap();
    let entries: BTreeMap<_, _> = range.entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
    for writer in 0..WRITERS {
        let find = |number| entries.get(together_key(writer, number).as_bytes());
        let first = find(0);
        for number in 1..TOGETHER {
            let same = find(number).map(|entry| (&entry.value, entry.modified));
            assert_eq!(same, first.map(|entry| (&entry.value, entry.modified)), "writer {writer}: a torn transaction");
        }
        let Some(acknowledged) = newest.get(&writer) else { continue };
        let entry = first.unwrap_or_else(|| panic!("writer {writer}: an acknowledged write is gone"));
        // One transaction that was not acknowledged may have followed.
        if entry.modified.0 == acknowledged.revision {
            assert_eq!(entry.value, acknowledged.token.to_string(), "writer {writer}: a wrong value");
        } else {
            assert!(entry.modified.0 > acknowledged.revision, "writer {writer}: an acknowledged write is lost");
            let then = Some(Revision(acknowledged.revision));
            let entry = store.get(together_key(writer, 0).as_bytes(), then).await.unwrap().unwrap();
            assert_eq!(entry.value, acknowledged.token.to_string(), "writer {writer}: a wrong value");
        }
    }
    verify_history(store, revision).await;
}

/// The kept history has every revision, and leads from its oldest state to the live one.
async fn verify_history(store: &Embedded, revision: Revision) {
    let mut at = store.compacted();
    let all = KeyRange::prefix(Bytes::new());
    let oldest = store.range(&all, RangeOptions { at: Some(at), limit: None }).await.unwrap();
    let mut state: BTreeMap<_, _> = oldest.entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
    let mut watch = store.watch(&all, at).await.unwrap();
    // Progress is told when everything kept has been delivered.
    while let WatchItem::Changes { revision, changes } = watch.next().await.unwrap().unwrap() {
        assert_eq!(revision.0, at.0 + 1, "a revision is missing");
        at = revision;
        for change in changes {
            assert_eq!(change.previous(), state.get(change.key()));
            match change {
                Change::Put { entry, .. } => state.insert(entry.key.clone(), entry),
                Change::Delete { previous } => state.remove(&previous.key),
            };
        }
    }
    assert_eq!(at, revision);
    let live = store.range(&all, RangeOptions::default()).await.unwrap();
    assert!(live.entries.iter().eq(state.values()), "history does not lead to the live state");
}

#[test]
fn killed_writers_lose_nothing() {
    let rounds: u64 = std::env::var(ROUNDS).map_or(200, |rounds| rounds.parse().unwrap());
    let seed: u64 = std::env::var(SEED).map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("{SEED}={seed} {ROUNDS}={rounds}");
    let mut random = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut revision, mut acknowledged, mut slowest) = (Revision(0), 0, Duration::ZERO);
    for round in 0..rounds {
        let (newest, count) = run_and_kill(directory.path(), &mut random);
        acknowledged += count;
        let start = Instant::now();
        // Without bounds on history, it holds still while it is verified.
        let unbounded = embedded::Options { history_revisions: u64::MAX, history_bytes: u64::MAX, ..options() };
        let store = Embedded::open(directory.path(), unbounded)
            .unwrap_or_else(|why| panic!("{SEED}={seed}, round {round}: cannot open: {why}"));
        slowest = slowest.max(start.elapsed());
        runtime.block_on(verify(&store, &newest, revision));
        revision = store.revision();
    }
    println!("{rounds} kills, {acknowledged} acknowledged transactions, slowest opening {slowest:?}");
    assert!(acknowledged as u64 > rounds, "the writers hardly wrote");
}
