//! What every [`NodeProvider`] must do, as a reusable suite.
//!
//! A provider's tests implement [`Harness`] and call [`run`], which panics at the first broken
//! promise, naming it. The suite starts real machines, several at once but never more than two.

use crate::{Accepted, MachineId, MachineState, NodeProvider, NodeRequest, ProvisionError};
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(50);

/// The system under test.
#[async_trait]
pub trait Harness: Sync {
    /// The provider.
    type Provider: NodeProvider;

    /// A provider over this harness's one state, which was empty at first. The one that was opened
    /// before has been dropped.
    async fn open(&self) -> Self::Provider;

    /// A request that the provider can fulfil, under this id.
    fn request(&self, id: &MachineId) -> NodeRequest;

    /// A request that the provider must refuse or fail.
    fn bad_request(&self, id: &MachineId) -> NodeRequest;

    /// Makes the machine die behind the provider's back.
    async fn destroy(&self, id: &MachineId);

    /// What is left of a machine, whatever it is: processes, files, names.
    async fn traces(&self, id: &MachineId) -> Vec<String>;

    /// How long a machine may take to run, or to be seen dead.
    fn patience(&self) -> Duration;
}

/// Runs the whole suite.
///
/// # Panics
/// When the provider breaks a promise.
pub async fn run<H: Harness>(harness: &H) {
    unknown_ids_are_lost_and_released(harness).await;
    refusals_leave_nothing(harness).await;
    a_machine_lives_once_and_survives_its_provider(harness).await;
    death_is_noticed_and_kept_until_release(harness).await;
    machines_are_released_one_by_one(harness).await;
}

async fn unknown_ids_are_lost_and_released<H: Harness>(harness: &H) {
    let (provider, id) = (harness.open().await, id("unknown"));
    assert_lost(&provider, &id, "an id that was never provisioned").await;
    provider.joined(&id).await;
    released(&provider, &id).await;
    released(&provider, &id).await;
    assert_eq!(provider.list().await, Ok(vec![]), "a new provider holds nothing");
}

async fn refusals_leave_nothing<H: Harness>(harness: &H) {
    let (provider, id) = (harness.open().await, id("refused"));
    match provider.provision(&harness.bad_request(&id)).await {
        Ok(_) => panic!("a bad request was accepted"),
        Err(ProvisionError::Declined(why) | ProvisionError::Failed(why)) => {
            assert!(!why.trim().is_empty(), "a refusal says why");
        }
    }
    assert_lost(&provider, &id, "a refused machine").await;
    assert_eq!(provider.list().await, Ok(vec![]), "a refused machine is not listed");
    assert_gone(harness, &id, "a refusal").await;
}

async fn a_machine_lives_once_and_survives_its_provider<H: Harness>(harness: &H) {
    let (provider, id) = (harness.open().await, id("survivor"));
    let request = harness.request(&id);
    // Twice at once and once more: still one machine.
    let (first, second) = tokio::join!(provider.provision(&request), provider.provision(&request));
    accepted(first);
    accepted(second);
    accepted(provider.provision(&request).await);
    assert_eq!(provider.list().await, Ok(vec![id.clone()]), "one id is one machine");

    // The provider goes while the machine starts, and again while it runs.
    drop(provider);
    let provider = harness.open().await;
    assert_eq!(provider.list().await, Ok(vec![id.clone()]), "a starting machine is adopted");
    running(harness, &provider, &id).await;
    drop(provider);
    assert!(!harness.traces(&id).await.is_empty(), "dropping a provider destroys no machine");
    let provider = harness.open().await;
    assert_eq!(provider.list().await, Ok(vec![id.clone()]), "a running machine is adopted");
    running(harness, &provider, &id).await;
    provider.joined(&id).await;
    provider.joined(&id).await;
    accepted(provider.provision(&request).await);
    assert_eq!(provider.observe(&id).await, MachineState::Running, "an adopted machine is not started again");

    released(&provider, &id).await;
    assert_gone(harness, &id, "release").await;
    assert_eq!(provider.list().await, Ok(vec![]), "a released machine is not listed");
    assert_lost(&provider, &id, "a released machine").await;
    released(&provider, &id).await;
    drop(provider);
    let provider = harness.open().await;
    assert_eq!(provider.list().await, Ok(vec![]), "a released machine does not come back");
}

async fn death_is_noticed_and_kept_until_release<H: Harness>(harness: &H) {
    let (seen, unseen) = (id("dies-while-watched"), id("dies-unwatched"));
    let provider = harness.open().await;
    accepted(provider.provision(&harness.request(&seen)).await);
    accepted(provider.provision(&harness.request(&unseen)).await);
    running(harness, &provider, &seen).await;
    running(harness, &provider, &unseen).await;

    harness.destroy(&seen).await;
    lost(harness, &provider, &seen).await;
    assert_eq!(provider.observe(&unseen).await, MachineState::Running, "one death is not another's");
    drop(provider);
    harness.destroy(&unseen).await;
    let provider = harness.open().await;
    lost(harness, &provider, &unseen).await;
    lost(harness, &provider, &seen).await;

    let listed: BTreeSet<MachineId> = provider.list().await.expect("the list is readable").into_iter().collect();
    let both = BTreeSet::from([seen.clone(), unseen.clone()]);
    assert_eq!(listed, both, "a lost machine is listed until it is released");
    for id in [seen, unseen] {
        released(&provider, &id).await;
        assert_gone(harness, &id, "release of a lost machine").await;
    }
    assert_eq!(provider.list().await, Ok(vec![]), "nothing is left");
}

async fn machines_are_released_one_by_one<H: Harness>(harness: &H) {
    let (stays, goes) = (id("stays"), id("goes"));
    let provider = harness.open().await;
    accepted(provider.provision(&harness.request(&stays)).await);
    accepted(provider.provision(&harness.request(&goes)).await);
    // Released while it starts, by two callers.
    let (first, second) = tokio::join!(provider.release(&goes), provider.release(&goes));
    assert_eq!((first, second), (Ok(()), Ok(())), "release is idempotent");
    assert_gone(harness, &goes, "release of a starting machine").await;
    assert_eq!(provider.list().await, Ok(vec![stays.clone()]), "the other machine stays");
    running(harness, &provider, &stays).await;
    released(&provider, &stays).await;
    assert_gone(harness, &stays, "release").await;
}

fn id(name: &str) -> MachineId {
    MachineId(format!("conformance-{name}"))
}

fn accepted(answer: Result<Accepted, ProvisionError>) {
    if let Err(error) = answer {
        panic!("a good request was refused: {error}");
    }
}

async fn released<P: NodeProvider>(provider: &P, id: &MachineId) {
    assert_eq!(provider.release(id).await, Ok(()), "{id} is released");
}

async fn assert_gone<H: Harness>(harness: &H, id: &MachineId, after: &str) {
    let traces = harness.traces(id).await;
    assert!(traces.is_empty(), "{after} left traces of {id}: {traces:?}");
}

async fn assert_lost<P: NodeProvider>(provider: &P, id: &MachineId, what: &str) {
    match provider.observe(id).await {
        MachineState::Lost { reason } => assert!(!reason.trim().is_empty(), "a loss says why"),
        other => panic!("{what} is {other:?}, not Lost"),
    }
}

async fn running<H: Harness>(harness: &H, provider: &H::Provider, id: &MachineId) {
    let start = Instant::now();
    loop {
        let state = provider.observe(id).await;
        match state {
            MachineState::Running => return,
            MachineState::Lost { reason } => panic!("{id} was lost: {reason}"),
            _ if start.elapsed() < harness.patience() => tokio::time::sleep(PAUSE).await,
            other => panic!("{id} is still {other:?} after {:?}", harness.patience()),
        }
    }
}

async fn lost<H: Harness>(harness: &H, provider: &H::Provider, id: &MachineId) {
    let start = Instant::now();
    while !matches!(provider.observe(id).await, MachineState::Lost { .. }) {
        assert!(start.elapsed() < harness.patience(), "the death of {id} was not noticed");
        tokio::time::sleep(PAUSE).await;
    }
}
