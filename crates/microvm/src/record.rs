//! What is remembered of a machine, and the verdict about its process after a restart.

#[cfg(test)]
mod tests;

use crate::{Error, files};
use os_linux::process::ProcessId;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// When things happened to a machine, in milliseconds since the Unix epoch by the host's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// The request was taken.
    pub requested_ms: u64,
    /// Its QEMU was started.
    pub started_ms: Option<u64>,
    /// Its agent said that it is ready.
    pub ready_ms: Option<u64>,
}

/// A machine's record file. It is written before QEMU is started and again right after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The boot of the host that the machine was started in.
    pub boot_id: String,
    /// Its QEMU, once started.
    pub process: Option<RecordedProcess>,
    /// Times.
    pub timings: Timings,
    /// Why it is lost, once it is.
    pub lost: Option<String>,
}

/// A process as a record names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedProcess {
    /// Process id.
    pub pid: u32,
    /// Start time.
    pub start_ticks: u64,
}

impl From<ProcessId> for RecordedProcess {
    fn from(id: ProcessId) -> Self {
        Self { pid: id.pid, start_ticks: id.start_ticks }
    }
}

impl From<RecordedProcess> for ProcessId {
    fn from(process: RecordedProcess) -> Self {
        Self { pid: process.pid, start_ticks: process.start_ticks }
    }
}

impl Record {
    /// Reads a record; `None` when there is none.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, Error> {
        let json = match fs::read(path) {
            Ok(json) => json,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("read", path)(error)),
        };
        let record = serde_json::from_slice(&json)
            .map_err(|error| Error::file("understand", path)(std::io::Error::new(ErrorKind::InvalidData, error)))?;
        Ok(Some(record))
    }

    /// Writes it, whole or not at all.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let json = serde_json::to_vec(self)
            .map_err(|error| Error::file("write", path)(std::io::Error::new(ErrorKind::InvalidData, error)))?;
        files::write_atomically(path, &[&json])
    }
}

/// What to do about a machine that was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Take hold of this process; if it is gone the machine is lost.
    Hold(ProcessId),
    /// No process was recorded: look for one by its name.
    Search,
    /// Verified gone.
    Lost(String),
    /// Cannot be told; ask again.
    Unknown(String),
}

/// Judges a machine by its record and the host's present boot. Pure.
pub(crate) fn judge(record: &Result<Option<Record>, Error>, boot_id: &std::io::Result<String>) -> Verdict {
    let record = match record {
        Ok(Some(record)) => record,
        // The record is written before anything is started.
        Ok(None) => return Verdict::Lost("the machine was never started".to_owned()),
        Err(error) => return Verdict::Unknown(runtime::error_chain(error)),
    };
    if let Some(reason) = &record.lost {
        return Verdict::Lost(reason.clone());
    }
    match boot_id {
        Err(error) => Verdict::Unknown(format!("the boot id of the host cannot be read: {error}")),
        Ok(boot_id) if *boot_id != record.boot_id => {
            Verdict::Lost("the host was restarted, and the machine ended with it".to_owned())
        }
        Ok(_) => record.process.map_or(Verdict::Search, |process| Verdict::Hold(process.into())),
    }
}
