//! The writer thread: groups waiting transactions, commits, publishes, answers.

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
                self.commit_group(Vec::new()).await;
                continue;
            }
            // An idle store has no timer running.
            let quiet = if self.written { self.shared.options.quiet } else { Duration::MAX };
            match timeout(quiet, self.requests.recv_many(&mut group, limit)).await {
                Ok(0) => return,
                Ok(_) => {
                    self.written = true;
                    self.commit_group(std::mem::take(&mut group)).await;
                }
                Err(_) => {
                    self.written = false;
                    self.shrink();
                }
            }
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

    /// Applies the requests in one durable step, and trims history.
    async fn commit_group(&mut self, requests: Vec<Request>) {
        let mut group = Group::default();
        let applied = match self.shared.file() {
            Ok(file) => self.apply(&file, requests, &mut group),
            Err(_) => {
                // An earlier attempt to open the file failed; this one may succeed.
                self.reopen().await;
                match self.shared.file() {
                    Ok(file) => self.apply(&file, requests, &mut group),
                    Err(why) => {
                        group.refuse_all(requests);
                        self.trimming = false;
                        group.answer(&Err(why));
                        return;
                    }
                }
            }
        };
        let outcome = match applied {
            Ok(state) => {
                self.shared.set_compacted(state);
                self.shared.hub.publish(std::mem::take(&mut group.events));
                Ok(())
            }
            Err(cause) => self.recover(cause, &group).await,
        };
        group.answer(&outcome);
    }

    fn apply(&mut self, file: &OpenFile, requests: Vec<Request>, group: &mut Group) -> Result<State, redb::Error> {
        let options = self.shared.options;
        let mut requests = requests.into_iter();
        let result = (|| {
            let txn = begin(file)?;
            let mut tables = Tables::open(&txn)?;
            let before = tables.state;
            let mut changes = 0;
            for request in requests.by_ref() {
                changes += group.apply(&mut tables, request)?;
            }
            // Removing more than was added lets history shrink to its bounds while writes go on.
            let steps = options.trim_step.max(2 * changes);
            let keep = Keep { revisions: options.history_revisions, bytes: options.history_bytes };
            let removed = tables.trim(keep, steps)?;
            self.trimming = removed == steps;
            if tables.state == before && removed == 0 {
                drop(tables);
                txn.abort()?;
                return Ok(before);
            }
            let state = tables.save()?;
            txn.commit()?;
            Ok(state)
        })();
        group.refuse_all(requests);
        result
    }

    /// After an error the outcome is whatever the file says when it is opened again.
    async fn recover(&mut self, cause: redb::Error, group: &Group) -> Result<(), Error> {
        let why = store_error("cannot write the data file", cause);
        tracing::warn!(%why, "a group of transactions failed; opening the store's file again");
        self.trimming = false;
        let state = self.reopen().await;
        match (state, group.last_revision) {
            (Some(state), Some(last)) if state.revision >= last => Ok(()),
            _ => Err(why),
        }
    }

    /// Opens the file again, and publishes what turns out to be committed but was not published.
    async fn reopen(&mut self) -> Option<State> {
        if let Ok(old) = self.shared.file() {
            old.retire();
        }
        let options = &self.shared.options;
        let opened = self.directory.open_data(options.cache_bytes, options.max_file_bytes);
        if let Err(why) = &opened {
            tracing::error!(%why, "the store's file cannot be opened again; trying at the next write");
        }
        self.shared.replace(opened);
        match self.catch_up().await {
            Ok(state) => Some(state),
            Err(why) => {
                self.shared.replace(Err(why));
                None
            }
        }
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

/// Requests whose answers wait until their outcome is durable.
#[derive(Default)]
struct Group {
    events: Vec<Arc<Event>>,
    commits: Vec<(Answer<Commit>, Option<Commit>)>,
    compactions: Vec<(Answer<()>, Option<Error>)>,
    last_revision: Option<u64>,
}

impl Group {
    /// Applies one request and answers how many changes it made.
    fn apply(&mut self, tables: &mut Tables<'_>, request: Request) -> Result<usize, redb::Error> {
        match request {
            Request::Commit { txn, answer, .. } => {
                // Remembered first, so that it is answered if applying fails.
                self.commits.push((answer, None));
                let (commit, event) = tables.apply(txn)?;
                if let Some((_, outcome)) = self.commits.last_mut() {
                    *outcome = Some(commit);
                }
                let Some(event) = event else { return Ok(0) };
                self.last_revision = Some(event.revision.0);
                let changes = event.changes.len();
                self.events.push(Arc::new(event));
                Ok(changes)
            }
            Request::Compact { revision, answer } => {
                let newest = Revision(tables.state.revision);
                let future = (revision > newest).then_some(Error::Future { requested: revision, newest });
                if future.is_none() {
                    tables.state.compacted = tables.state.compacted.max(revision.0);
                }
                self.compactions.push((answer, future));
                Ok(0)
            }
        }
    }

    /// Takes requests that are not going to be applied.
    fn refuse_all(&mut self, requests: impl IntoIterator<Item = Request>) {
        for request in requests {
            match request {
                Request::Commit { answer, .. } => self.commits.push((answer, None)),
                Request::Compact { answer, .. } => {
                    self.compactions.push((answer, None));
                }
            }
        }
    }

    /// Answers everyone. A caller that has gone away does not mind.
    fn answer(self, outcome: &Result<(), Error>) {
        for (answer, commit) in self.commits {
            let result = match (outcome, commit) {
                (Ok(()), Some(commit)) => Ok(commit),
                (Ok(()), None) => Err(Error::Failed("the transaction was not applied".into())),
                (Err(why), _) => Err(why.clone()),
            };
            let _ = answer.send(result);
        }
        for (answer, refused) in self.compactions {
            let _ = answer.send(outcome.clone().and(refused.map_or(Ok(()), Err)));
        }
    }
}
