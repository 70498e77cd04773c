//! `serve`: the whole control plane in one process.

mod credential;
mod listen;
mod wiring;

use crate::arguments::{MachineOptions, ServeOptions};
use crate::paths::{Paths, private_directory, write_private};
use anyhow::{Context, Result};
use microvm::HostOptions;
use runtime::Shutdown;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long tasks may take to stop.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Serves until SIGINT or SIGTERM. Machines go on running: the next start adopts them.
pub(crate) async fn run(paths: &Paths, options: ServeOptions) -> Result<ExitCode> {
    let begin = Instant::now();
    runtime::logging::init(options.log_format.parse()?, &runtime::logging::filter_from_env(options.log.as_deref()))?;
    let state = paths.state()?;
    private_directory(&state)?;
    let shutdown = Shutdown::new();
    shutdown.trigger_on_signals().context("cannot handle signals")?;

    let store = store::Embedded::open(state.join("store"), store::embedded::Options::default())
        .with_context(|| format!("cannot open the store in {}", state.display()))?;
    let listener = listen::bind(&paths.address()?, options.listen).await?;
    let address = listener.local_addr().context("the listener has no address")?;
    let machines = host_options(paths, &options.machines)?;
    let plane = wiring::start(store, listener, machines, &options, shutdown.clone()).await?;

    write_private(&paths.admin_kubeconfig()?, &plane.admin.issue().await?)?;
    write_private(&paths.address()?, &format!("https://{address}\n"))?;
    tracing::info!(address = %address, state = %state.display(), ready_ms = begin.elapsed().as_millis(), "serving");
    let mut tasks = plane.tasks;
    credential::keep_fresh(&mut tasks, plane.admin, paths.admin_kubeconfig()?);
    tasks.join(STOP_GRACE).await.context("the control plane stopped")?;
    tracing::info!("stopped; machines go on running and are adopted by the next start");
    Ok(ExitCode::SUCCESS)
}

/// How this host runs machines.
pub(crate) fn host_options(paths: &Paths, machines: &MachineOptions) -> Result<HostOptions> {
    let agent = match &machines.agent {
        Some(agent) => std::path::absolute(agent)?,
        None => std::env::current_exe().context("cannot tell where this program is")?.with_file_name("socialweb-node"),
    };
    let mut options = HostOptions::new(paths.state()?, paths.cache()?, agent);
    options.image_archives = machines.images.iter().map(std::path::absolute).collect::<Result<_, _>>()?;
    Ok(options)
}
