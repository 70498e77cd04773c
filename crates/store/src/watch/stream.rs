//! One watch: reads the log until it meets the ring, then follows the hub.

use super::Event;
use super::hub::{Attach, Hub, Subscriber};
use crate::{Error, KeyRange, Revision, WatchItem};
use async_trait::async_trait;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::{Instant, Sleep, sleep};

/// A driver's kept history.
#[async_trait]
pub(crate) trait ChangeLog: Send + Sync + 'static {
    /// The next transactions after a revision, oldest first, as many as are sensible at once.
    ///
    /// # Errors
    /// [`Error::Compacted`] when they are no longer kept.
    async fn read_after(&self, after: Revision) -> Result<Chunk, Error>;
}

/// A piece of history.
pub(crate) struct Chunk {
    pub(crate) events: Vec<Arc<Event>>,
    /// There is nothing else up to this revision.
    pub(crate) through: Revision,
}

/// The stream behind [`crate::Store::watch`].
pub(crate) struct Watch {
    hub: Arc<Hub>,
    log: Arc<dyn ChangeLog>,
    range: KeyRange,
    /// Where reading or following goes on once `ready` is drained.
    cursor: Revision,
    ready: VecDeque<Arc<Event>>,
    phase: Phase,
    /// Whether progress is to be reported at the next quiet moment.
    progress_due: bool,
    timer: Pin<Box<Sleep>>,
}

enum Phase {
    Attaching,
    Reading(BoxFuture<'static, Result<Chunk, Error>>),
    Following(Arc<Subscriber>),
    Ended,
}

impl Watch {
    pub(crate) fn new(hub: Arc<Hub>, log: Arc<dyn ChangeLog>, range: KeyRange, after: Revision) -> Self {
        let timer = Box::pin(sleep(hub.options.progress_interval));
        let mut watch = Self {
            hub,
            log,
            range,
            cursor: after,
            ready: VecDeque::new(),
            phase: Phase::Attaching,
            progress_due: true,
            timer,
        };
        // Now rather than when first polled: what happens in between must not be lost. A failure
        // shows when it is polled.
        let _ = watch.attach();
        watch
    }

    /// Follows the hub from `cursor` on, or else goes on reading.
    fn attach(&mut self) -> Result<(), Error> {
        match self.hub.attach(&self.range, self.cursor)? {
            Attach::Attached { subscriber, backlog } => {
                self.ready = backlog;
                self.phase = Phase::Following(subscriber);
            }
            Attach::Behind => self.phase = self.read_on(),
        }
        Ok(())
    }

    fn next_ready(&mut self) -> Option<WatchItem> {
        while let Some(event) = self.ready.pop_front() {
            if let Some(item) = self.visible(&event) {
                return Some(item);
            }
        }
        None
    }

    fn visible(&self, event: &Event) -> Option<WatchItem> {
        let changes: Vec<_> =
            event.changes.iter().filter(|change| self.range.contains(change.key())).cloned().collect();
        (!changes.is_empty()).then_some(WatchItem::Changes { revision: event.revision, changes })
    }

    fn end(&mut self, why: Error) -> Poll<Option<Result<WatchItem, Error>>> {
        self.unsubscribe();
        self.phase = Phase::Ended;
        Poll::Ready(Some(Err(why)))
    }

    fn unsubscribe(&self) {
        if let Phase::Following(subscriber) = &self.phase {
            self.hub.detach(subscriber);
        }
    }

    fn read_on(&self) -> Phase {
        let log = self.log.clone();
        let after = self.cursor;
        Phase::Reading(Box::pin(async move { log.read_after(after).await }))
    }

    /// Reports progress if it is due, now or by the timer.
    fn poll_progress(&mut self, subscriber: &Subscriber, cx: &mut Context<'_>) -> Poll<Option<WatchItem>> {
        if !self.progress_due {
            ready!(self.timer.as_mut().poll(cx));
            self.progress_due = true;
        }
        // A transaction that arrived meanwhile goes first.
        let Some(revision) = self.hub.progress(subscriber) else { return Poll::Ready(None) };
        self.progress_due = false;
        let next = Instant::now() + self.hub.options.progress_interval;
        self.timer.as_mut().reset(next);
        Poll::Ready(Some(WatchItem::Progress(revision)))
    }
}

impl Stream for Watch {
    type Item = Result<WatchItem, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(item) = this.next_ready() {
                return Poll::Ready(Some(Ok(item)));
            }
            match &mut this.phase {
                Phase::Attaching => {
                    if let Err(why) = this.attach() {
                        return this.end(why);
                    }
                }
                Phase::Reading(chunk) => {
                    let chunk = match ready!(chunk.as_mut().poll(cx)) {
                        Ok(chunk) => chunk,
                        // It was kept when the watch began, so the consumer was too slow.
                        Err(Error::Compacted { .. }) => return this.end(Error::WatchLagged),
                        Err(why) => return this.end(why),
                    };
                    this.cursor = chunk.through;
                    this.ready.extend(chunk.events);
                    this.phase = Phase::Attaching;
                    // A long stretch without a change in range must not hold the thread.
                    match this.next_ready() {
                        Some(item) => return Poll::Ready(Some(Ok(item))),
                        None => {
                            cx.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                }
                Phase::Following(subscriber) => {
                    let subscriber = subscriber.clone();
                    subscriber.waker.register(cx.waker());
                    match subscriber.pop() {
                        Ok(Some(event)) => this.ready.push_back(event),
                        Ok(None) => {
                            if let Some(item) = ready!(this.poll_progress(&subscriber, cx)) {
                                return Poll::Ready(Some(Ok(item)));
                            }
                        }
                        Err(why) => return this.end(why),
                    }
                }
                Phase::Ended => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.unsubscribe();
    }
}
