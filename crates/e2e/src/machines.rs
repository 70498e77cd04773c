//! The machines of a stage, as the host sees them.

use anyhow::{Context, Result};
use os_linux::process::{Process, ProcessId, find_by_argument};
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

const END: Duration = Duration::from_secs(10);

/// A machine that the control plane keeps.
#[derive(Clone, Debug)]
pub struct Machine {
    directory: PathBuf,
    created: SystemTime,
}

impl Machine {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> String {
        self.directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// When the control plane set out to start it.
    ///
    /// # Errors
    /// When that was before this host's clock began.
    pub fn started(&self) -> Result<Instant> {
        let age = SystemTime::now().duration_since(self.created).unwrap_or_default();
        Instant::now().checked_sub(age).context("the machine is older than the clock")
    }

    /// Its QEMU; `None` before it was started.
    ///
    /// # Errors
    /// When its record cannot be read.
    pub fn process(&self) -> Result<Option<ProcessId>> {
        let path = self.directory.join("record.json");
        let record = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let record: Value = serde_json::from_slice(&record)?;
        let number = |field: &str| record["process"][field].as_u64();
        let (Some(pid), Some(start_ticks)) = (number("pid"), number("start_ticks")) else { return Ok(None) };
        Ok(Some(ProcessId { pid: u32::try_from(pid)?, start_ticks }))
    }

    /// Ends its QEMU as the host's out-of-memory killer would.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&self) -> Result<()> {
        let id = self.process()?.context("the machine has no process yet")?;
        Process::open(id)?.context("the machine does not run")?.kill().context("a machine cannot be killed")
    }

    /// The end of what its console shows.
    pub(crate) fn console(&self) -> String {
        let bytes = fs::read(self.directory.join("console.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(2000)..]).into_owned()
    }
}

/// The machines in a state directory.
pub(crate) fn list(state: &Path) -> Result<Vec<Machine>> {
    let directory = state.join("machines");
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", directory.display())),
    };
    let mut machines = Vec::new();
    for entry in entries {
        let entry = entry?;
        match entry.metadata().and_then(|metadata| Ok((metadata.is_dir(), metadata.created()?))) {
            Ok((true, created)) => machines.push(Machine { directory: entry.path(), created }),
            Ok((false, _)) => {}
            // It was released meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).context("a machine cannot be examined"),
        }
    }
    machines.sort_by_key(|machine| machine.created);
    Ok(machines)
}

/// Ends every machine of a state directory whose control plane is gone.
pub(crate) fn end_all(state: &Path) -> Result<()> {
    for machine in list(state)? {
        // The argument tells also of a machine whose process is not in its record yet.
        let console = format!("file,id=console,append=on,path={}", machine.directory.join("console.log").display());
        for id in find_by_argument(&console)? {
            if let Some(process) = Process::open(id)? {
                process.kill()?;
                process.wait_ended(END)?;
            }
        }
    }
    Ok(())
}
