//! The one signal that everything stops on.

use tokio_util::sync::CancellationToken;

/// A shutdown signal. Clones share it; children can be stopped alone.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(CancellationToken);

impl Shutdown {
    /// A signal that has not been given.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the signal. Idempotent.
    pub fn trigger(&self) {
        self.0.cancel();
    }

    /// Whether the signal was given.
    #[must_use]
    pub fn is_triggered(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits for the signal. Cancel safe.
    pub async fn triggered(&self) {
        self.0.cancelled().await;
    }

    /// A signal that this one also gives, and that can be given alone.
    #[must_use]
    pub fn child(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Runs `work` until it ends or the signal is given; `None` when the signal was first.
    pub async fn unless_triggered<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.0.run_until_cancelled(work).await
    }

    /// Gives the signal when the process gets SIGINT or SIGTERM, from a task of its own.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn trigger_on_signals(&self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let shutdown = self.clone();
        tokio::spawn(async move {
            let name = tokio::select! {
                _ = interrupt.recv() => "SIGINT",
                _ = terminate.recv() => "SIGTERM",
                () = shutdown.triggered() => return,
            };
            tracing::info!(signal = name, "shutting down");
            shutdown.trigger();
        });
        Ok(())
    }
}
