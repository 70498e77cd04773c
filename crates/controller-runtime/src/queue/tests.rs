use super::*;

const OPTIONS: QueueOptions = QueueOptions {
    max_keys: 3,
    backoff: BackoffOptions { initial: Duration::from_secs(1), max: Duration::from_secs(60), factor: 2.0, jitter: 0.0 },
};

async fn within(queue: &Queue<u32>, limit: Duration) -> Option<u32> {
    tokio::time::timeout(limit, queue.next()).await.ok().flatten()
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_once_and_is_with_one_worker_at_a_time() {
    let queue = Queue::new(OPTIONS);
    assert!(queue.add(1) && queue.add(1) && queue.add(2));
    assert_eq!(queue.next().await, Some(1));
    queue.add(1);
    assert_eq!(queue.next().await, Some(2));
    assert_eq!(within(&queue, Duration::from_secs(3600)).await, None, "1 is being worked on");
    queue.done(1, Outcome::Done);
    assert_eq!(within(&queue, Duration::ZERO).await, Some(1), "it was added meanwhile");
    queue.done(1, Outcome::Done);
    queue.done(2, Outcome::Done);
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_success_forgets_them() {
    let queue = Queue::new(OPTIONS);
    let start = Instant::now();
    queue.add(1);
    let mut waited = Vec::new();
    for _ in 0..4 {
        assert_eq!(queue.next().await, Some(1));
        waited.push(start.elapsed().as_secs());
        queue.done(1, Outcome::Failed);
    }
    assert_eq!(waited, [0, 1, 3, 7]);
    assert_eq!(queue.next().await, Some(1));
    queue.done(1, Outcome::After(Duration::from_secs(5)));
    let before = Instant::now();
    assert_eq!(queue.next().await, Some(1));
    assert_eq!(before.elapsed().as_secs(), 5);
    queue.done(1, Outcome::Failed);
    let before = Instant::now();
    assert_eq!(queue.next().await, Some(1));
    assert_eq!(before.elapsed().as_secs(), 1, "the first failure again");
}

#[tokio::test(start_paused = true)]
async fn a_change_makes_a_delayed_key_due_at_once() {
    let queue = Queue::new(OPTIONS);
    queue.add_after(1, Duration::from_secs(100));
    assert_eq!(within(&queue, Duration::from_secs(50)).await, None);
    queue.add(1);
    assert_eq!(within(&queue, Duration::ZERO).await, Some(1));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_told() {
    let queue = Queue::new(OPTIONS);
    assert!((0..3).all(|key| queue.add(key)));
    assert!(!queue.add(3) && !queue.add_after(4, Duration::ZERO));
    assert!(queue.add(2), "it waits already");
    assert_eq!(queue.room(), 0);
    assert!(queue.take_overflow());
    assert!(!queue.take_overflow());
}

#[tokio::test(start_paused = true)]
async fn every_worker_gets_its_share_and_closing_ends_all() {
    let queue = Queue::new(OPTIONS);
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.add_after(1, Duration::from_secs(1));
    queue.add_after(2, Duration::from_secs(2));
    tokio::time::sleep(Duration::from_secs(3)).await;
    queue.close();
    let mut got = Vec::new();
    for worker in workers {
        got.extend(worker.await.unwrap());
    }
    got.sort_unstable();
    assert_eq!(got, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_was_full_gives_its_room_back() {
    const KEYS: u32 = 5000;
    let queue = Queue::new(QueueOptions { max_keys: KEYS as usize, ..OPTIONS });
    let room = || {
        let inner = queue.lock();
        (inner.entries.capacity(), inner.ready.capacity())
    };
    assert!((0..KEYS).all(|key| queue.add(key)));
    let full = room();
    for key in 0..KEYS {
        assert_eq!(queue.next().await, Some(key));
        // Some fail at first.
        queue.done(key, if key % 10 == 0 { Outcome::Failed } else { Outcome::Done });
    }
    for _ in 0..KEYS / 10 {
        let key = queue.next().await.unwrap();
        queue.done(key, Outcome::Done);
    }
    assert!(queue.is_empty() && queue.lock().delayed.is_empty());
    assert!(full.0 >= KEYS as usize && full.1 >= KEYS as usize);
    assert!(room().0 < 100 && room().1 < 100, "{:?} of {full:?}", room());
}
