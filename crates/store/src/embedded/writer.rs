//! The writer thread: groups waiting transactions, commits, publishes, answers.

use super::Options;
use super::file::{Directory, OpenFile, store_error};
use super::schema::State;
use super::shared::Shared;
use super::shrink::Shrinker;
use super::write::{Keep, Tables};
use crate::watch::{ChangeLog, Event};
use crate::{Commit, Error, Revision, Txn};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;

type Answer<T> = oneshot::Sender<Result<T, Error>>;

/// What callers ask of the writer.
pub(super) enum Request {
    Commit {
        txn: Txn,
        answer: Answer<Commit>,
        /// The transaction's share of the bytes that may wait.
        _room: OwnedSemaphorePermit,
    },
    Compact {
        revision: Revision,
        answer: Answer<()>,
    },
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    directory: Directory,
    requests: mpsc::Receiver<Request>,
    /// Whether history beyond the bounds is left over from the last step.
    trimming: bool,
    /// Whether there was a write since shrinking was last considered.
    written: bool,
    shrinker: Shrinker,
}

/// Creates the tables of a new file, and tells the state of an old one.
pub(super) fn prepare(file: &OpenFile) -> Result<State, Error> {
    let prepare = || {
        let txn = begin(file)?;
        let state = Tables::open(&txn)?.save()?;
        txn.commit()?;
        Ok(state)
    };
    prepare().map_err(|cause| store_error("cannot prepare the data file", cause))
}

/// Starts a transaction that will leave the file ready to be opened fast after a crash.
pub(super) fn begin(file: &OpenFile) -> Result<redb::WriteTransaction, redb::Error> {
    let mut txn = file.db.begin_write()?;
    txn.set_quick_repair(true);
    Ok(txn)
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, directory: Directory, requests: mpsc::Receiver<Request>) -> Self {
        Self { shared, directory, requests, trimming: true, written: true, shrinker: Shrinker::default() }
    }

    /// Works until every sender is gone and the queue is empty.
    pub(super) fn run(mut self) {
        match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime.block_on(self.serve()),
            Err(cause) => tracing::error!(%cause, "the store cannot write: no timer for its writer thread"),
        }
        self.shared.close();
    }

    async fn serve(&mut self) {
        let mut group = Vec::new();
        let limit = self.shared.options.group_transactions.max(1);
        loop {
            if self.trimming && self.requests.is_empty() && !self.requests.is_closed() {
                self.trim().await;
                continue;
            }
            // An idle store has no timer running.
            let quiet = if self.written { self.shared.options.quiet } else { Duration::MAX };
            match timeout(quiet, self.requests.recv_many(&mut group, limit)).await {
                Ok(0) => return,
                Ok(_) => {
                    self.written = true;
                    self.handle(std::mem::take(&mut group)).await;
                }
                Err(_) => {
                    self.written = false;
                    self.shrink();
                    self.rest();
                }
            }
        }
    }

    /// Removes one step of history that is beyond the bounds.
    async fn trim(&mut self) {
        if let Err(cause) = self.commit(&[], Mode::Ordinary).await {
            self.trimming = false;
            tracing::warn!(%cause, "cannot trim the store's history; trying again at the next write");
        }
    }

    fn shrink(&mut self) {
        let requests = &self.requests;
        let interrupted = || !requests.is_empty() || requests.is_closed();
        match self.shrinker.run(&self.shared, &self.directory, interrupted) {
            Ok(()) => {}
            Err(cause) => tracing::warn!(%cause, "cannot shrink the store's file; trying again when it has grown"),
        }
    }

    /// Gives memory back while nobody writes: what was cached and remembered of the last changes.
    fn rest(&mut self) {
        self.shared.hub.release();
        let options = &self.shared.options;
        let cached = self.shared.file().map_or(0, |file| file.moved_bytes());
        if cached <= options.quiet_cache_bytes as u64 {
            return;
        }
        match self.shared.reopen_unused(|| self.directory.open_data(options)) {
            Ok(true) => tracing::debug!("emptied the store's cache"),
            // Someone is reading: another time.
            Ok(false) => self.written = true,
            Err(cause) => tracing::error!(%cause, "the store's file cannot be opened again; trying at the next write"),
        }
    }

    /// Does what is asked and answers. Without room, gives up history, then tries one by one.
    async fn handle(&mut self, requests: Vec<Request>) {
        match self.commit(&requests, Mode::Ordinary).await {
            Ok(outcomes) => {
                requests.into_iter().zip(outcomes).for_each(|(request, outcome)| request.answer(Ok(outcome)));
            }
            Err(Error::OutOfSpace) => {
                self.give_up_history().await;
                for request in requests {
                    let outcome = self.commit(std::slice::from_ref(&request), Mode::Emergency).await;
                    request.answer(outcome.and_then(|mut outcomes| outcomes.pop().ok_or(Error::Closed)));
                }
            }
            Err(why) => requests.into_iter().for_each(|request| request.answer(Err(why.clone()))),
        }
    }

    /// Applies requests and trims history in one durable step; then tells the watchers. An error
    /// means that nothing was applied, except after an I/O error that left the outcome unknown.
    async fn commit(&mut self, requests: &[Request], mode: Mode) -> Result<Vec<Outcome>, Error> {
        let file = match self.shared.file() {
            Ok(file) => file,
            // An earlier attempt to open the file failed; this one may succeed.
            Err(_) => self.reopen().await.and_then(|_| self.shared.file())?,
        };
        let mut group = Group::default();
        let applied = apply(&file, requests, mode, &self.shared.options, &mut group);
        drop(file);
        match applied {
            Ok(Applied { state, trimming }) => {
                self.trimming = trimming;
                self.shared.set_compacted(state);
                self.shared.hub.publish(group.events);
                Ok(group.outcomes)
            }
            Err(cause) => {
                self.recover(cause, group.last_revision).await?;
                Ok(group.outcomes)
            }
        }
    }

    /// Removes all history, in small steps that need little room.
    async fn give_up_history(&mut self) {
        self.trimming = true;
        while self.trimming {
            if self.commit(&[], Mode::Emergency).await.is_err() {
                return;
            }
        }
    }

    /// After an error the outcome is whatever the file says when it is opened again.
    async fn recover(&mut self, cause: redb::Error, last_revision: Option<u64>) -> Result<(), Error> {
        let why = store_error("cannot write the data file", cause);
        tracing::debug!(%why, "a group of transactions failed; opening the store's file again");
        self.trimming = false;
        let state = self.reopen().await.map_err(|cause| {
            tracing::error!(%cause, "the store's file cannot be opened again; trying at the next write");
            why.clone()
        })?;
        if last_revision.is_some_and(|last| state.revision >= last) { Ok(()) } else { Err(why) }
    }

    /// Opens the file again, and publishes what turns out to be committed but was not published.
    async fn reopen(&mut self) -> Result<State, Error> {
        if let Ok(old) = self.shared.file() {
            old.retire();
        }
        self.shared.replace(self.directory.open_data(&self.shared.options));
        let caught_up = self.catch_up().await;
        if let Err(why) = &caught_up {
            if let Ok(unreadable) = self.shared.file() {
                unreadable.retire();
            }
            self.shared.replace(Err(why.clone()));
        }
        caught_up
    }

    async fn catch_up(&self) -> Result<State, Error> {
        let state = self.shared.read(|snapshot| Ok(snapshot.state)).await?;
        while self.shared.hub.revision().0 < state.revision {
            let chunk = self.shared.read_after(self.shared.hub.revision()).await?;
            self.shared.hub.publish(chunk.events);
        }
        self.shared.set_compacted(state);
        Ok(state)
    }
}

/// How a step treats history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Keeps what the options say.
    Ordinary,
    /// Keeps none, because there is no room.
    Emergency,
}

/// Changes removed in one step when there is no room.
const EMERGENCY_STEP: usize = 16;

/// What a durable step did.
struct Applied {
    state: State,
    /// Whether there is more history to remove.
    trimming: bool,
}

/// What the requests of one step lead to, once the step is durable.
#[derive(Default)]
struct Group {
    outcomes: Vec<Outcome>,
    events: Vec<Arc<Event>>,
    last_revision: Option<u64>,
}

enum Outcome {
    Committed(Commit),
    Compacted(Result<(), Error>),
}

fn apply(
    file: &OpenFile,
    requests: &[Request],
    mode: Mode,
    options: &Options,
    group: &mut Group,
) -> Result<Applied, redb::Error> {
    let txn = begin(file)?;
    let mut tables = Tables::open(&txn)?;
    let before = tables.state;
    let (keep, min_steps) = match mode {
        Mode::Ordinary => {
            (Keep { revisions: options.history_revisions, bytes: options.history_bytes }, options.trim_step.max(1))
        }
        Mode::Emergency => {
            tables.without_history();
            (Keep { revisions: 0, bytes: 0 }, EMERGENCY_STEP)
        }
    };
    let mut changes = 0;
    for request in requests {
        changes += group.apply(&mut tables, request)?;
    }
    // Removing more than was added lets history shrink to its bounds while writes go on.
    let steps = min_steps.max(2 * changes);
    let removed = tables.trim(keep, steps)?;
    let trimming = removed == steps;
    if tables.state == before && removed == 0 {
        drop(tables);
        txn.abort()?;
        return Ok(Applied { state: before, trimming });
    }
    let state = tables.save()?;
    txn.commit()?;
    Ok(Applied { state, trimming })
}

impl Group {
    /// Applies one request and answers how many changes it made.
    fn apply(&mut self, tables: &mut Tables<'_>, request: &Request) -> Result<usize, redb::Error> {
        let mut changes = 0;
        let outcome = match request {
            Request::Commit { txn, .. } => {
                let (commit, event) = tables.apply(txn)?;
                if let Some(event) = event {
                    self.last_revision = Some(event.revision.0);
                    changes = event.changes.len();
                    self.events.push(Arc::new(event));
                }
                Outcome::Committed(commit)
            }
            Request::Compact { revision, .. } => {
                let newest = Revision(tables.state.revision);
                Outcome::Compacted(if *revision > newest {
                    Err(Error::Future { requested: *revision, newest })
                } else {
                    tables.state.compacted = tables.state.compacted.max(revision.0);
                    Ok(())
                })
            }
        };
        self.outcomes.push(outcome);
        Ok(changes)
    }
}

impl Request {
    /// Answers the caller, who may have gone away.
    fn answer(self, outcome: Result<Outcome, Error>) {
        match self {
            Self::Commit { answer, .. } => {
                let _ = answer.send(outcome.and_then(|outcome| match outcome {
                    Outcome::Committed(commit) => Ok(commit),
                    Outcome::Compacted(_) => Err(Error::Failed("a transaction was taken for a compaction".into())),
                }));
            }
            Self::Compact { answer, .. } => {
                let _ = answer.send(outcome.and_then(|outcome| match outcome {
                    Outcome::Compacted(result) => result,
                    Outcome::Committed(_) => Err(Error::Failed("a compaction was taken for a transaction".into())),
                }));
            }
        }
    }
}
