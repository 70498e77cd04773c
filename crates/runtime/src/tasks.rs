//! A set of named tasks that live and fail together.

use crate::{Backoff, BackoffOptions, Shutdown, error_chain};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// Any error that a task ends with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What happens when a task fails or panics. A task that returns `Ok` is done.
#[derive(Clone, Copy, Debug)]
pub enum TaskPolicy {
    /// The whole set shuts down and reports the failure.
    Fail,
    /// The task is started again after a delay; the delay starts over once a run has lasted longer
    /// than the longest delay.
    Restart(BackoffOptions),
}

/// Why a set of tasks ended.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// A task returned an error.
    #[error("task {name:?} failed")]
    Failed {
        /// Which.
        name: String,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// A task panicked.
    #[error("task {name:?} panicked: {message}")]
    Panicked {
        /// Which.
        name: String,
        /// The panic's message.
        message: String,
    },
    /// Tasks that did not stop in time were aborted.
    #[error("{0} task(s) did not stop within {1:?} of the shutdown signal and were aborted")]
    Stuck(usize, Duration),
}

/// Named tasks. Dropping the set aborts them.
#[derive(Debug)]
pub struct TaskSet {
    shutdown: Shutdown,
    tasks: JoinSet<Result<(), TaskError>>,
}

impl TaskSet {
    /// An empty set whose tasks are expected to stop on `shutdown`.
    #[must_use]
    pub fn new(shutdown: Shutdown) -> Self {
        Self { shutdown, tasks: JoinSet::new() }
    }

    /// The signal that the set's tasks stop on.
    #[must_use]
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Starts a task. `make` is called for the first run and for every restart.
    pub fn spawn<M, F>(&mut self, name: impl Into<String>, policy: TaskPolicy, mut make: M)
    where
        M: FnMut() -> F + Send + 'static,
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let name = name.into();
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            let mut backoff = match policy {
                TaskPolicy::Restart(options) => Some((Backoff::new(options), options.max)),
                TaskPolicy::Fail => None,
            };
            loop {
                let started = tokio::time::Instant::now();
                // A task of its own, so that a panic ends this run only.
                let run = AbortOnDropHandle::new(tokio::spawn(make()));
                let error = match run.await {
                    Ok(Ok(())) => return Ok(()),
                    Ok(Err(source)) => TaskError::Failed { name: name.clone(), source },
                    Err(join) if join.is_panic() => {
                        TaskError::Panicked { name: name.clone(), message: panic_message(join.into_panic().as_ref()) }
                    }
                    Err(_) => return Ok(()),
                };
                let Some((backoff, max)) = &mut backoff else { return Err(error) };
                if started.elapsed() > *max {
                    backoff.reset();
                }
                let delay = backoff.next_delay();
                tracing::warn!(error = error_chain(&error), ?delay, "restarting a task");
                if shutdown.unless_triggered(tokio::time::sleep(delay)).await.is_none() {
                    return Ok(());
                }
            }
        });
    }

    /// Waits until every task has ended. The first failure gives the shutdown signal and is
    /// returned; after the signal, tasks have `grace` to stop before they are aborted.
    ///
    /// # Errors
    /// The first failure, or [`TaskError::Stuck`].
    pub async fn join(mut self, grace: Duration) -> Result<(), TaskError> {
        let mut first = Ok(());
        loop {
            let ended = tokio::select! {
                ended = self.tasks.join_next() => ended,
                () = self.shutdown.triggered() => break,
            };
            match ended {
                None => return first,
                Some(result) => note(&self.shutdown, &mut first, result),
            }
        }
        let deadline = tokio::time::Instant::now() + grace;
        loop {
            match tokio::time::timeout_at(deadline, self.tasks.join_next()).await {
                Ok(None) => return first,
                Ok(Some(result)) => note(&self.shutdown, &mut first, result),
                Err(_) => {
                    let stuck = TaskError::Stuck(self.tasks.len(), grace);
                    self.tasks.shutdown().await;
                    return first.and(Err(stuck));
                }
            }
        }
    }
}

fn note(
    shutdown: &Shutdown,
    first: &mut Result<(), TaskError>,
    ended: Result<Result<(), TaskError>, tokio::task::JoinError>,
) {
    if let Ok(Err(error)) = ended {
        tracing::error!(error = error_chain(&error), "a task failed");
        if first.is_ok() {
            *first = Err(error);
        }
        shutdown.trigger();
    }
}

/// The text of a panic's payload.
fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests;
