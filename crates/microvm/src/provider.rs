//! The host's [`NodeProvider`]: which machines there are, one operation at a time on each.

use crate::machine::{self, Machine};
use crate::prepared::{Prepared, prepare};
use crate::record::Timings;
use crate::{Error, HostOptions, check, files};
use async_trait::async_trait;
use compute_api::{Accepted, MachineId, MachineState, NodeExpiry, NodeProvider, NodeRequest, ProvisionError};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

/// Provides microVMs on this host. Dropping it leaves them running; a new one adopts them.
#[derive(Debug)]
pub struct HostProvider {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: Arc<HostOptions>,
    slots: Mutex<BTreeMap<MachineId, Arc<Slot>>>,
    prepared: OnceCell<Prepared>,
    _lock: File,
}

/// The place of one machine, from the moment it is asked for until it is released.
#[derive(Debug, Default)]
struct Slot {
    /// Held during provision and release; true once the slot is out of the map.
    removed: tokio::sync::Mutex<bool>,
    machine: OnceLock<Arc<Machine>>,
    watcher: OnceLock<AbortHandle>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher.get() {
            watcher.abort();
        }
    }
}

impl Slot {
    /// Takes the machine in and watches it until it is lost or the slot is dropped.
    fn fill(&self, machine: Arc<Machine>, options: &Arc<HostOptions>) {
        let watch = tokio::spawn(watch(machine.clone(), options.clone()));
        // Both are set here only, by whoever holds the operation.
        let _ = self.watcher.set(watch.abort_handle());
        let _ = self.machine.set(machine);
    }
}

impl HostProvider {
    /// Opens the state directory, alone, and adopts the machines in it.
    ///
    /// # Errors
    /// When the directory cannot be used or another process uses it.
    pub async fn open(options: HostOptions) -> Result<Self, Error> {
        let Opened { options, lock, machines } = blocking(move || open(options)).await??;
        let options = Arc::new(options);
        let slots = machines.into_iter().map(|(id, machine)| {
            let slot = Slot::default();
            slot.fill(Arc::new(machine), &options);
            (id, Arc::new(slot))
        });
        let slots = Mutex::new(slots.collect());
        Ok(Self { inner: Arc::new(Inner { options, slots, prepared: OnceCell::new(), _lock: lock }) })
    }

    /// Makes everything that the first machine needs: fetches the kernel, packs the initramfs, finds
    /// out about KVM. A machine does it when it was not done before; this only does it earlier.
    ///
    /// # Errors
    /// Whatever keeps machines from starting on this host.
    pub async fn prepare(&self) -> Result<(), Error> {
        self.inner.prepared().await.map(drop)
    }

    /// When a machine was asked for, started and ready.
    #[must_use]
    pub fn timings(&self, id: &MachineId) -> Option<Timings> {
        self.inner.slot(id)?.machine.get()?.timings()
    }

    /// The file that a machine's serial console goes to.
    #[must_use]
    pub fn console(&self, id: &MachineId) -> Option<PathBuf> {
        Some(self.inner.slot(id)?.machine.get()?.console())
    }
}

impl Inner {
    fn slots(&self) -> MutexGuard<'_, BTreeMap<MachineId, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, id: &MachineId) -> Option<Arc<Slot>> {
        self.slots().get(id).cloned()
    }

    async fn prepared(&self) -> Result<Prepared, Error> {
        let make = || async {
            let options = self.options.clone();
            blocking(move || prepare(&options)).await?
        };
        self.prepared.get_or_try_init(make).await.cloned()
    }

    async fn provision(&self, request: NodeRequest) -> Result<Accepted, ProvisionError> {
        let requested_ms = machine::now_ms();
        loop {
            let slot = self.slot_for(&request)?;
            let mut removed = slot.removed.lock().await;
            if *removed {
                continue;
            }
            if slot.machine.get().is_none() {
                match self.start(&request, requested_ms).await {
                    Ok(machine) => slot.fill(Arc::new(machine), &self.options),
                    Err(error) => {
                        *removed = true;
                        self.slots().remove(&request.id);
                        return Err(error);
                    }
                }
            }
            return Ok(Accepted { expiry: Some(NodeExpiry::Unlimited) });
        }
    }

    /// The machine's slot, new if it has none and there is room.
    fn slot_for(&self, request: &NodeRequest) -> Result<Arc<Slot>, ProvisionError> {
        let mut slots = self.slots();
        if let Some(slot) = slots.get(&request.id) {
            return Ok(slot.clone());
        }
        let options = &self.options;
        validate(request, options).map_err(|error| failed(&error))?;
        if slots.len() >= options.max_machines {
            return Err(ProvisionError::Declined(format!("this host runs {} machines, its limit", slots.len())));
        }
        let needed = u64::from(request.memory_mib) + options.memory_overhead_mib + options.memory_reserve_mib;
        if let Some(free) = check::available_memory_mib()
            && free < needed
        {
            return Err(ProvisionError::Declined(format!(
                "the host has {free} MiB of memory available, and {needed} MiB are needed"
            )));
        }
        let slot = Arc::new(Slot::default());
        slots.insert(request.id.clone(), slot.clone());
        Ok(slot)
    }

    async fn start(&self, request: &NodeRequest, requested_ms: u64) -> Result<Machine, ProvisionError> {
        let prepared = self.prepared().await.map_err(|error| failed(&error))?;
        let (request, options) = (request.clone(), self.options.clone());
        blocking(move || Machine::start(&request, &prepared, options, requested_ms))
            .await
            .and_then(|started| started)
            .map_err(|error| failed(&error))
    }

    async fn release(&self, id: &MachineId) -> Result<(), Error> {
        let Some(slot) = self.slot(id) else { return Ok(()) };
        let mut removed = slot.removed.lock().await;
        if *removed {
            return Ok(());
        }
        if let Some(machine) = slot.machine.get().cloned() {
            blocking(move || machine.release()).await??;
        }
        *removed = true;
        self.slots().remove(id);
        Ok(())
    }
}

#[async_trait]
impl NodeProvider for HostProvider {
    async fn provision(&self, request: &NodeRequest) -> Result<Accepted, ProvisionError> {
        let (inner, request) = (self.inner.clone(), request.clone());
        // A task of its own, so that a caller who gives up leaves no half of a machine.
        let task = tokio::spawn(async move { inner.provision(request).await });
        task.await.map_err(|_| failed(&Error::ShuttingDown))?
    }

    async fn observe(&self, id: &MachineId) -> MachineState {
        let Some(slot) = self.inner.slot(id) else {
            return MachineState::Lost { reason: "this host has no such machine".to_owned() };
        };
        let Some(machine) = slot.machine.get().cloned() else { return MachineState::Starting };
        match blocking(move || machine.look()).await {
            Ok(state) => state,
            Err(error) => MachineState::Unknown { reason: error.to_string() },
        }
    }

    async fn joined(&self, id: &MachineId) {
        let machine = self.inner.slot(id).and_then(|slot| slot.machine.get().cloned());
        let Some(machine) = machine else { return };
        if let Err(error) = blocking(move || machine.remove_join_secret()).await.and_then(|removed| removed) {
            tracing::warn!(%id, error = %runtime::error_chain(&error), "a used join secret is not removed");
        }
    }

    async fn release(&self, id: &MachineId) -> Result<(), String> {
        let (inner, id) = (self.inner.clone(), id.clone());
        let task = tokio::spawn(async move { inner.release(&id).await });
        let released = task.await.unwrap_or(Err(Error::ShuttingDown));
        released.map_err(|error| runtime::error_chain(&error))
    }

    async fn list(&self) -> Result<Vec<MachineId>, String> {
        let dir = self.inner.options.machines_dir();
        let on_disk = blocking(move || machine_ids(&dir)).await.and_then(|ids| ids);
        let mut ids = on_disk.map_err(|error| runtime::error_chain(&error))?;
        ids.extend(self.inner.slots().keys().cloned());
        Ok(ids.into_iter().collect())
    }
}

/// Looks at a machine until it is lost: at once when its QEMU ends, else from time to time.
async fn watch(machine: Arc<Machine>, options: Arc<HostOptions>) {
    let (mut signal, mut signalled) = (None, false);
    loop {
        let looked = machine.clone();
        let Ok(state) = blocking(move || looked.look()).await else { return };
        let pause = match state {
            MachineState::Lost { .. } => return,
            MachineState::Starting => options.starting_interval,
            MachineState::Running | MachineState::Unknown { .. } => options.running_interval,
        };
        if signal.is_none() {
            signal = machine.end_signal().and_then(readable);
        }
        match &signal {
            // It stays readable, so it is waited for once; the next look should say Lost.
            Some(signal) if !signalled => {
                signalled = tokio::time::timeout(pause, signal.readable()).await.is_ok();
            }
            _ => tokio::time::sleep(pause).await,
        }
    }
}

/// A state directory that is held, and what was in it.
struct Opened {
    options: HostOptions,
    lock: File,
    machines: Vec<(MachineId, Machine)>,
}

/// Deprecated upstream because a type could change its descriptor while it is registered; an
/// `OwnedFd` never does.
#[allow(deprecated)]
fn readable(fd: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE).ok()
}

fn open(mut options: HostOptions) -> Result<Opened, Error> {
    files::make_dir(&options.state_dir)?;
    // Names of processes are made from it, so it must always be spelled the same.
    options.state_dir = fs::canonicalize(&options.state_dir).map_err(Error::file("resolve", &options.state_dir))?;
    for path in [&mut options.cache_dir, &mut options.agent_binary].into_iter().chain(&mut options.image_archives) {
        // QEMU runs elsewhere.
        *path = std::path::absolute(&*path).map_err(Error::file("resolve", path))?;
    }
    // A provider that was just dropped may still end an operation.
    let Some(lock) = files::lock(&options.state_dir.join("host.lock"), options.open_timeout)? else {
        return Err(Error::InUse(options.state_dir));
    };
    let dir = options.machines_dir();
    files::make_dir(&dir)?;
    let shared = Arc::new(options.clone());
    let adopt = |id: MachineId| {
        let machine = Machine::adopt(&id, shared.clone());
        (id, machine)
    };
    let machines = machine_ids(&dir)?.into_iter().map(adopt).collect();
    Ok(Opened { options, lock, machines })
}

fn machine_ids(dir: &Path) -> Result<BTreeSet<MachineId>, Error> {
    let mut ids = BTreeSet::new();
    for entry in fs::read_dir(dir).map_err(Error::file("read", dir))? {
        let entry = entry.map_err(Error::file("read", dir))?;
        // Other names are not ours.
        if let Some(name) = entry.file_name().to_str().filter(|name| machine::is_valid_id(name)) {
            ids.insert(MachineId(name.to_owned()));
        }
    }
    Ok(ids)
}

fn validate(request: &NodeRequest, options: &HostOptions) -> Result<(), Error> {
    let why = if !machine::is_valid_id(&request.id.0) {
        format!("{:?} cannot name a machine", request.id.0)
    } else if request.cpus == 0 || request.cpus > options.max_cpus {
        format!("{} CPUs are not between 1 and {}", request.cpus, options.max_cpus)
    } else if request.memory_mib < options.min_memory_mib {
        format!("{} MiB of memory are less than {}", request.memory_mib, options.min_memory_mib)
    } else {
        return Ok(());
    };
    Err(Error::Request(why))
}

fn failed(error: &Error) -> ProvisionError {
    ProvisionError::Failed(runtime::error_chain(error))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::ShuttingDown)
}
