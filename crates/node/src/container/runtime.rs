//! The containers of the node: their start, their end, and everything between.

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::Signal;
use tokio::sync::{Semaphore, broadcast, watch};

use super::cgroup::{self, Usage};
use super::container::{self, Container, Ended};
use super::error::IoContext;
use super::launch::{Streams, launch};
use super::logs::{self, LogOptions, LogStream, LogWriter};
use super::shim::{ExecRequest, Files, RunRequest};
use super::user::UserRequest;
use super::{ContainerSpec, Error, ExecSpec, ExitStatus, RuntimeOptions, Session, Started, bundle};

/// Runs containers. Cheap to clone; all clones are one runtime.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    options: RuntimeOptions,
    containers: Mutex<HashMap<String, Arc<Container>>>,
    slots: Arc<Semaphore>,
    jobs: AtomicU64,
}

impl Runtime {
    /// Makes the directories. Containers do not outlive the node's machine, so there are none yet.
    pub fn open(options: RuntimeOptions) -> Result<Self, Error> {
        make_directory(&options.root)?;
        std::fs::create_dir_all(&options.log_root).context("make directory", &options.log_root)?;
        let slots = Arc::new(Semaphore::new(options.max_containers));
        let inner = Inner { options, containers: Mutex::default(), slots, jobs: AtomicU64::new(0) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Creates and starts a container. After a failure nothing of it is left but its log.
    pub async fn create_and_start(&self, spec: &ContainerSpec) -> Result<Started, Error> {
        let options = &self.inner.options;
        let slot = self.inner.slots.clone().try_acquire_owned();
        let slot = slot.map_err(|_| Error::Limit { what: "containers", limit: options.max_containers })?;
        let id = new_id()?;
        let configuration = bundle::configuration(spec, options, &id)?;
        let cgroup = options.cgroup_mount.join(bundle::cgroup(spec, options, &id)?);
        let (layers_root, layers) = layers(&spec.image.layers)?;
        let log = LogWriter::open(&spec.log_path, options.log_max_bytes, options.log_max_files)
            .context("open log", &spec.log_path)?;
        let request = RunRequest {
            layers_root,
            layers,
            configuration,
            user: UserRequest {
                image: spec.image.config.user.clone(),
                uid: spec.user.uid,
                gid: spec.user.gid,
                supplemental_groups: spec.user.supplemental_groups.clone(),
            },
            seccomp: spec.security.seccomp,
        };
        let directory = options.root.join(&id);
        let started = async {
            prepare(&directory, &request)?;
            launch(options, &directory, "run", Streams { tty: spec.tty, stdin: spec.stdin }).await
        };
        let launched = match started.await {
            Ok(launched) => launched,
            Err(error) => {
                if let Err(error) = self.clean(&directory, &cgroup).await {
                    tracing::warn!(error = %runtime::error_chain(&error), "cannot clean up after a failed start");
                }
                return Err(error);
            }
        };
        let started = Started { id: id.clone(), pid: launched.pid };
        let (output, _) = broadcast::channel(options.attach_backlog.max(1));
        let (exit_sender, exit) = watch::channel(None);
        let (ended_sender, ended) = watch::channel(false);
        let container = Arc::new(Container {
            id: id.clone(),
            directory,
            cgroup: cgroup.clone(),
            process: launched.process,
            terminal: launched.terminal,
            stdin: Arc::new(tokio::sync::Mutex::new(launched.stdin)),
            stdin_once: spec.stdin_once,
            output: Mutex::new(Some(output.clone())),
            exit,
            ended,
            sessions: Arc::new(Semaphore::new(options.max_sessions)),
            seccomp: spec.security.seccomp,
            tty: spec.tty,
            _slot: slot,
        });
        self.containers().insert(id, container.clone());
        let pump = tokio::spawn(container::pump(launched.stdout, launched.stderr, log, output));
        let ended = Ended { exit: exit_sender, ended: ended_sender };
        tokio::spawn(container::supervise(container, launched.control, pump, options.clone(), ended));
        Ok(started)
    }

    /// Waits for a container's end; one that has ended is still known until it is removed.
    pub async fn wait(&self, id: &str) -> Result<ExitStatus, Error> {
        let mut exit = self.get(id)?.exit.clone();
        let status = exit.wait_for(Option::is_some).await.map_err(|_| Error::NotFound(id.to_owned()))?.clone();
        status.ok_or_else(|| Error::NotFound(id.to_owned()))
    }

    /// How the container ended; `None` while it runs.
    pub fn exit_status(&self, id: &str) -> Result<Option<ExitStatus>, Error> {
        Ok(self.get(id)?.exit.borrow().clone())
    }

    /// Sends a signal to the container's first process. One that has ended is no error.
    pub fn signal(&self, id: &str, signal: Signal) -> Result<(), Error> {
        super::session::send(&self.get(id)?.process, signal)
    }

    /// Kills all processes of the container.
    pub fn kill_all(&self, id: &str) -> Result<(), Error> {
        let container = self.get(id)?;
        super::session::send(&container.process, Signal::KILL)?;
        cgroup::kill(&container.cgroup).context("kill", &container.cgroup)
    }

    /// Kills the container if it runs, and removes everything but its log. An unknown one is no error.
    pub async fn remove(&self, id: &str) -> Result<(), Error> {
        let Ok(container) = self.get(id) else { return Ok(()) };
        if container.exit.borrow().is_none() {
            self.kill_all(id)?;
            let timeout = self.inner.options.drain_timeout + self.inner.options.remove_timeout;
            let ended = tokio::time::timeout(timeout, self.wait(id)).await;
            ended.map_err(|_| Error::Timeout("waiting for a killed container"))??;
        }
        self.clean(&container.directory, &container.cgroup).await?;
        self.containers().remove(id);
        Ok(())
    }

    /// Runs another process in the container, as the same user and with the same limits.
    pub async fn exec(&self, id: &str, spec: &ExecSpec) -> Result<Session, Error> {
        let container = self.running_container(id)?;
        if spec.command.first().is_none_or(String::is_empty) {
            return Err(Error::Invalid("no command specified".to_owned()));
        }
        let permit = container.session(&self.inner.options)?;
        let request = ExecRequest { command: spec.command.clone(), tty: spec.tty, seccomp: container.seccomp };
        let job = self.inner.jobs.fetch_add(1, Ordering::Relaxed).to_string();
        let files = Files::new(&container.directory, &job);
        write_request(&files.request, &request)?;
        let streams = Streams { tty: spec.tty, stdin: spec.stdin };
        let launched = launch(&self.inner.options, &container.directory, &job, streams).await?;
        Ok(container::exec_session(launched, permit))
    }

    /// Connects to the streams of the container's first process: its output from now on, and its
    /// stdin if it has one and `stdin` asks for it.
    pub fn attach(&self, id: &str, stdin: bool) -> Result<Session, Error> {
        let container = self.running_container(id)?;
        let permit = container.session(&self.inner.options)?;
        container::attach(&container, stdin, permit, self.inner.options.session_buffer)
            .ok_or_else(|| Error::NotRunning(id.to_owned()))
    }

    /// Reads a log; `id` is the container that writes it, if there still is one.
    pub async fn logs(&self, log: &Path, id: Option<&str>, options: LogOptions) -> io::Result<LogStream> {
        let ended = match id.and_then(|id| self.get(id).ok()) {
            Some(container) => container.ended.clone(),
            None => watch::channel(true).1,
        };
        logs::read(log, options, ended, self.inner.options.follow_interval).await
    }

    /// Whether the container runs.
    pub fn running(&self, id: &str) -> bool {
        self.running_container(id).is_ok()
    }

    /// The ids of all containers that were not removed.
    pub fn ids(&self) -> Vec<String> {
        self.containers().keys().cloned().collect()
    }

    /// What the container uses now.
    pub fn usage(&self, id: &str) -> Result<Usage, Error> {
        Ok(cgroup::usage(&self.get(id)?.cgroup))
    }

    /// The options it was opened with.
    pub fn options(&self) -> &RuntimeOptions {
        &self.inner.options
    }

    fn containers(&self) -> MutexGuard<'_, HashMap<String, Arc<Container>>> {
        // Every change of the map is one call, so a panic elsewhere leaves it whole.
        self.inner.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, id: &str) -> Result<Arc<Container>, Error> {
        self.containers().get(id).cloned().ok_or_else(|| Error::NotFound(id.to_owned()))
    }

    fn running_container(&self, id: &str) -> Result<Arc<Container>, Error> {
        let container = self.get(id)?;
        if container.exit.borrow().is_some() {
            return Err(Error::NotRunning(id.to_owned()));
        }
        Ok(container)
    }

    async fn clean(&self, directory: &Path, cgroup: &Path) -> Result<(), Error> {
        cgroup::kill(cgroup).context("kill", cgroup)?;
        cgroup::remove(cgroup, self.inner.options.remove_timeout).await.context("remove", cgroup)?;
        let directory = directory.to_owned();
        let removal = tokio::task::spawn_blocking(move || {
            let root = directory.join("bundle").join("rootfs");
            match rustix::mount::unmount(&root, UnmountFlags::DETACH) {
                // Not mounted; without privileges it never was.
                Ok(()) | Err(Errno::INVAL | Errno::NOENT | Errno::PERM) => {}
                Err(error) => return Err(error).context("unmount", root),
            }
            match std::fs::remove_dir_all(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                result => result.context("remove", directory),
            }
        });
        removal.await.map_err(io::Error::other).context("remove", "container")?
    }
}

fn make_directory(path: &Path) -> Result<(), Error> {
    DirBuilder::new().mode(0o700).recursive(true).create(path).context("make directory", path)
}

fn prepare(directory: &Path, request: &RunRequest) -> Result<(), Error> {
    make_directory(directory)?;
    for part in ["bundle", "work", "state"] {
        make_directory(&directory.join(part))?;
    }
    // These two show as the root directory of the container.
    for part in ["bundle/rootfs", "upper"] {
        let path = directory.join(part);
        DirBuilder::new().mode(0o755).create(&path).context("make directory", &path)?;
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .context("make directory", &path)?;
    }
    write_request(&Files::new(directory, "run").request, request)
}

fn write_request(path: &Path, request: &impl serde::Serialize) -> Result<(), Error> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let content = serde_json::to_vec(request).map_err(io::Error::from).context("write", path)?;
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(&content)).context("write", path)
}

/// The directory of the layers and their names in it.
fn layers(paths: &[PathBuf]) -> Result<(PathBuf, Vec<String>), Error> {
    let root = paths.first().and_then(|path| path.parent()).unwrap_or(Path::new("/"));
    let name = |path: &PathBuf| match (path.parent(), path.file_name().and_then(|name| name.to_str())) {
        (Some(parent), Some(name)) if parent == root && !name.contains([':', ',', '\\']) => Ok(name.to_owned()),
        _ => Err(Error::Invalid(format!("{} is not a layer", path.display()))),
    };
    Ok((root.to_owned(), paths.iter().map(name).collect::<Result<_, _>>()?))
}

fn new_id() -> Result<String, Error> {
    use std::fmt::Write;
    let mut bytes = [0; 32];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
        .map_err(|_| io::Error::other("no random numbers"))
        .context("read", "random numbers")?;
    Ok(bytes.iter().fold(String::new(), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    }))
}
