//! What a Pod's worker knows of its Pod: the desired object and the observed containers.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// A container's part in its Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// Starts in order with the init containers and goes on running.
    Sidecar,
    /// One of `spec.containers`.
    App,
}

/// The containers of a Pod in the order in which they start.
pub(crate) fn containers(pod: &Pod) -> impl Iterator<Item = (Role, &Container)> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default().iter().map(|container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        (if sidecar { Role::Sidecar } else { Role::Init }, container)
    });
    let app = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    init.chain(app.iter().map(|container| (Role::App, container)))
}

/// A container of that name.
pub(crate) fn container<'a>(pod: &'a Pod, name: &str) -> Option<(Role, &'a Container)> {
    containers(pod).find(|(_, container)| container.name == name)
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) id: String,
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) started_at: Timestamp,
    pub(crate) finished_at: Timestamp,
}

/// Where a container is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not begun yet, or to be begun again.
    Waiting {
        /// Upstream's word for why; empty before the first try.
        reason: String,
        message: String,
    },
    /// Being pulled or created.
    Starting {
        /// Whether its image is there, from when on it cannot be called off.
        pulled: bool,
    },
    /// Running.
    Running {
        id: String,
        started_at: Timestamp,
        /// Its startup probe has succeeded, or it has none.
        started: bool,
        /// Its readiness probe succeeds, or it has none.
        ready: bool,
        /// It was told to stop.
        stopping: bool,
    },
    /// Ended.
    Ended(Ended),
}

/// A container as observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerState {
    pub(crate) phase: Phase,
    /// How it ended before.
    pub(crate) last: Option<Ended>,
    pub(crate) restarts: u32,
    /// Failures in a row: of starting, or of running for long.
    pub(crate) failures: u32,
    /// Not to be begun before.
    pub(crate) retry_at: Option<Timestamp>,
    pub(crate) image_id: String,
}

impl Default for ContainerState {
    fn default() -> Self {
        Self {
            phase: Phase::Waiting { reason: String::new(), message: String::new() },
            last: None,
            restarts: 0,
            failures: 0,
            retry_at: None,
            image_id: String::new(),
        }
    }
}

impl ContainerState {
    /// Whether something of it is or may soon be running.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Starting { .. } | Phase::Running { .. })
    }
}

/// The Pod's network and volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sandbox {
    /// Not made.
    #[default]
    None,
    /// Being made.
    Making,
    /// Could not be made; to be tried again at that time.
    Failed(Timestamp),
    /// There.
    Ready,
    /// Being removed.
    Removing,
    /// Gone for good.
    Removed,
}

/// A Pod as observed.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodState {
    pub(crate) sandbox: Sandbox,
    pub(crate) sandbox_failures: u32,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) containers: BTreeMap<String, ContainerState>,
    /// Since when the node knows the Pod.
    pub(crate) accepted_at: Option<Timestamp>,
    /// Why the Pod as a whole has failed, for good: reason and message.
    pub(crate) failed: Option<(String, String)>,
    /// The object is gone from the API server.
    pub(crate) gone: bool,
    /// Its last status is written and it was deleted.
    pub(crate) deleted: bool,
}

impl PodState {
    /// A container, as far as anything happened to it.
    pub(crate) fn container(&self, name: &str) -> ContainerState {
        self.containers.get(name).cloned().unwrap_or_default()
    }

    /// Whether nothing of the Pod runs.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.containers.values().any(ContainerState::is_active)
    }
}
