use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const GRACE: Duration = Duration::from_secs(1);
const QUICK: BackoffOptions =
    BackoffOptions { initial: Duration::from_millis(1), max: Duration::from_millis(2), factor: 2.0, jitter: 0.0 };

#[tokio::test]
async fn restarts_after_errors_and_panics_until_it_succeeds() {
    let mut set = TaskSet::new(Shutdown::new());
    let runs = Arc::new(AtomicU32::new(0));
    let counter = runs.clone();
    set.spawn("flaky", TaskPolicy::Restart(QUICK), move || {
        let run = counter.fetch_add(1, Ordering::SeqCst);
        async move {
            match run {
                0 => Err("first".into()),
                1 => panic!("second"),
                _ => Ok(()),
            }
        }
    });
    set.join(GRACE).await.expect("the third run succeeds");
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_failure_stops_the_others_and_is_reported() {
    let shutdown = Shutdown::new();
    let mut set = TaskSet::new(shutdown.clone());
    let other = shutdown.clone();
    set.spawn("good", TaskPolicy::Fail, move || {
        let shutdown = other.clone();
        async move {
            shutdown.triggered().await;
            Ok(())
        }
    });
    set.spawn("bad", TaskPolicy::Fail, || async { Err("no luck".into()) });
    let error = set.join(GRACE).await.expect_err("one task failed");
    assert_eq!(error_chain(&error), "task \"bad\" failed: no luck");
    assert!(shutdown.is_triggered());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ignores_the_signal_is_aborted() {
    let shutdown = Shutdown::new();
    let mut set = TaskSet::new(shutdown.clone());
    set.spawn("deaf", TaskPolicy::Fail, std::future::pending);
    shutdown.trigger();
    assert!(matches!(set.join(GRACE).await, Err(TaskError::Stuck(1, GRACE))));
}

#[tokio::test]
async fn dropping_the_set_aborts_its_tasks() {
    let mut set = TaskSet::new(Shutdown::new());
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let mut sender = Some(sender);
    set.spawn("held", TaskPolicy::Fail, move || {
        let held = sender.take();
        async move {
            let _held = held;
            std::future::pending().await
        }
    });
    tokio::task::yield_now().await;
    drop(set);
    let ended = tokio::time::timeout(Duration::from_secs(10), receiver).await.expect("the task is gone");
    assert!(ended.is_err(), "the sender was dropped with its task");
}
