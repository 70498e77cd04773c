//! One machine: its directory, its QEMU, and what can be said of it.

use crate::console::{Scanner, Words};
use crate::prepared::Prepared;
use crate::qemu::{self, Drive, Guest};
use crate::record::{Record, Timings, Verdict, judge};
use crate::{Error, HostOptions, console, files, seed};
use compute_api::{MachineId, MachineState, NodeRequest};
use os_linux::process::{self, Ended, Process};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

const RECORD: &str = "record.json";
const SEED: &str = "seed.iso";
const JOIN: &str = "join.img";
const CONSOLE: &str = "console.log";
const LOG: &str = "qemu.log";

const COMMAND_LINE: &str = "console=ttyS0 quiet panic=-1 cryptomgr.notests";
const MAX_ID: usize = 64;
const MAX_DETAIL: u64 = 1000;

/// A machine that this provider started or adopted. Every method blocks on files or processes.
#[derive(Debug)]
pub(crate) struct Machine {
    dir: PathBuf,
    options: Arc<HostOptions>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    record: Option<Record>,
    hold: Hold,
    scanner: Scanner,
    /// The record has news that its file does not have.
    unsaved: bool,
}

#[derive(Debug)]
enum Hold {
    /// Not known yet, and why not.
    Unjudged(String),
    /// The process is held.
    Held(Process),
    /// Gone, and why.
    Lost(String),
    /// Nothing is left.
    Released,
}

/// Whether an id can be a directory's name.
pub(crate) fn is_valid_id(id: &str) -> bool {
    (1..=MAX_ID).contains(&id.len())
        && !id.starts_with('.')
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Now, in milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// The name of a machine's QEMU: no other directory has the same.
fn process_name(dir: &Path) -> String {
    format!("sw-{}", &files::sha256(dir.as_os_str().as_encoded_bytes())[..24])
}

impl Machine {
    /// Makes the machine's files and starts its QEMU. On failure nothing is left.
    pub(crate) fn start(
        request: &NodeRequest,
        prepared: &Prepared,
        options: Arc<HostOptions>,
        requested_ms: u64,
    ) -> Result<Self, Error> {
        let dir = options.machines_dir().join(&request.id.0);
        files::require_free(&options.state_dir, options.min_free_state_mib)?;
        let made = start_in(&dir, request, prepared, &options, requested_ms);
        match made {
            Ok((record, process, unsaved)) => {
                let state =
                    State { record: Some(record), hold: Hold::Held(process), scanner: Scanner::default(), unsaved };
                Ok(Self { dir, options, state: Mutex::new(state) })
            }
            Err(error) => {
                if let Err(left) = files::remove_dir(&dir) {
                    tracing::warn!(error = %left, "a machine that failed to start left files");
                }
                Err(error)
            }
        }
    }

    /// Takes over a machine that is found in the state directory.
    pub(crate) fn adopt(id: &MachineId, options: Arc<HostOptions>) -> Self {
        let dir = options.machines_dir().join(&id.0);
        let hold = Hold::Unjudged("not looked at yet".to_owned());
        let state = State { record: None, hold, scanner: Scanner::default(), unsaved: false };
        let machine = Self { dir, options, state: Mutex::new(state) };
        machine.look();
        machine
    }

    /// What is known now: reads what is new on the console and asks after the process.
    pub(crate) fn look(&self) -> MachineState {
        let mut state = self.lock();
        if matches!(state.hold, Hold::Unjudged(_)) {
            self.judge(&mut state);
        }
        let now = self.examine(&mut state);
        if state.unsaved
            && let Some(record) = &state.record
        {
            match record.write(&self.dir.join(RECORD)) {
                Ok(()) => state.unsaved = false,
                // Nothing is forgotten while this process lives; the next look tries again.
                Err(error) => tracing::warn!(error = %runtime::error_chain(&error), "a machine's record is not saved"),
            }
        }
        now
    }

    fn judge(&self, state: &mut State) {
        let record = Record::read(&self.dir.join(RECORD));
        let verdict = judge(&record, &process::boot_id());
        state.record = record.ok().flatten();
        state.hold = match verdict {
            Verdict::Lost(reason) => Hold::Lost(reason),
            Verdict::Unknown(reason) => Hold::Unjudged(reason),
            Verdict::Hold(id) => match Process::open(id) {
                Ok(Some(process)) => Hold::Held(process),
                Ok(None) => Hold::Lost(self.last_words(state, None)),
                Err(error) => Hold::Unjudged(format!("process {} cannot be examined: {error}", id.pid)),
            },
            Verdict::Search => match self.strays().map(|mut found| found.pop()) {
                Ok(Some(process)) => {
                    if let Some(record) = &mut state.record {
                        record.process = Some(process.id().into());
                        state.unsaved = true;
                    }
                    Hold::Held(process)
                }
                Ok(None) => Hold::Lost("the machine's start was cut off before its QEMU ran".to_owned()),
                Err(error) => Hold::Unjudged(format!("processes cannot be listed: {error}")),
            },
        };
        self.note_loss(state);
    }

    fn examine(&self, state: &mut State) -> MachineState {
        let ended = match &state.hold {
            Hold::Unjudged(reason) => return MachineState::Unknown { reason: reason.clone() },
            Hold::Lost(reason) => return MachineState::Lost { reason: reason.clone() },
            Hold::Released => return MachineState::Lost { reason: "the machine was released".to_owned() },
            Hold::Held(process) => process.wait_ended(Duration::ZERO),
        };
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => return MachineState::Unknown { reason: format!("its QEMU cannot be examined: {error}") },
        };
        if ended {
            let how = if let Hold::Held(process) = &state.hold { process.reap() } else { None };
            let reason = self.last_words(state, how);
            state.hold = Hold::Lost(reason.clone());
            self.note_loss(state);
            return MachineState::Lost { reason };
        }
        self.scan(state);
        if let Some(reason) = state.scanner.words.fatal.clone() {
            // Its QEMU may linger; releasing the machine ends it.
            if let Some(record) = &mut state.record
                && record.lost.is_none()
            {
                record.lost = Some(reason.clone());
                state.unsaved = true;
            }
            return MachineState::Lost { reason };
        }
        let Some(record) = &mut state.record else { return MachineState::Starting };
        if record.timings.ready_ms.is_none() {
            if !state.scanner.words.ready {
                return MachineState::Starting;
            }
            record.timings.ready_ms = Some(now_ms());
            state.unsaved = true;
            // Ready means joined.
            if let Err(error) = self.remove_join_secret() {
                tracing::warn!(error = %runtime::error_chain(&error), "a used join secret is not removed yet");
            }
        }
        MachineState::Running
    }

    fn scan(&self, state: &mut State) {
        if let Err(error) = state.scanner.look(&self.dir.join(CONSOLE), self.options.max_log_bytes) {
            tracing::warn!(error = %runtime::error_chain(&error), "a machine's console cannot be read");
        }
    }

    /// Why a machine whose QEMU has ended is gone, in its own words where it left some.
    fn last_words(&self, state: &mut State, how: Option<Ended>) -> String {
        self.scan(state);
        state.scanner.end();
        let Words { fatal, last, .. } = &state.scanner.words;
        if let Some(fatal) = fatal {
            return fatal.clone();
        }
        let how = how.map_or_else(|| "is gone".to_owned(), |how| how.to_string());
        let log = files::tail(&self.dir.join(LOG), MAX_DETAIL).unwrap_or_default();
        let said = log.lines().rev().map(|line| console::printable(line.as_bytes())).find(|line| !line.is_empty());
        match said {
            Some(said) => format!("its QEMU {how}: {said}"),
            None if last.is_empty() => format!("its QEMU {how}"),
            None => format!("its QEMU {how}; last on the console: {last}"),
        }
    }

    fn note_loss(&self, state: &mut State) {
        if let (Hold::Lost(reason), Some(record)) = (&state.hold, &mut state.record)
            && record.lost.is_none()
        {
            record.lost = Some(reason.clone());
            state.unsaved = true;
        }
    }

    /// Ends the machine and removes all that is kept for it.
    pub(crate) fn release(&self) -> Result<(), Error> {
        let mut state = self.lock();
        if let Hold::Held(process) = &state.hold {
            self.end(process)?;
        }
        // Also what no record tells of: a start that was cut off, a record that cannot be read.
        for stray in self.strays().map_err(Error::file("list the processes of", &self.dir))? {
            self.end(&stray)?;
        }
        files::remove_dir(&self.dir)?;
        files::sync_dir(&self.options.machines_dir())?;
        state.hold = Hold::Released;
        state.unsaved = false;
        Ok(())
    }

    fn end(&self, process: &Process) -> Result<(), Error> {
        let failed = Error::file("end the QEMU of", &self.dir);
        let end = || {
            process.terminate()?;
            if !process.wait_ended(self.options.release_timeout)? {
                process.kill()?;
                if !process.wait_ended(self.options.release_timeout)? {
                    let pid = process.id().pid;
                    return Err(std::io::Error::other(format!("process {pid} does not end")));
                }
            }
            // An adopted process is not a child; then there is nothing to collect.
            let _ = process.reap();
            Ok(())
        };
        end().map_err(failed)
    }

    fn strays(&self) -> std::io::Result<Vec<Process>> {
        let mut held = Vec::new();
        for id in process::find_by_argument(&qemu::name_argument(&process_name(&self.dir)))? {
            held.extend(Process::open(id)?);
        }
        Ok(held)
    }

    /// Overwrites and removes the join secret, which a guest must not be able to read again.
    pub(crate) fn remove_join_secret(&self) -> Result<(), Error> {
        let path = self.dir.join(JOIN);
        let length = match fs::metadata(&path) {
            Ok(found) => found.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::file("remove", &path)(error)),
        };
        let zeros = vec![0; usize::try_from(length).unwrap_or(0)];
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| file.write_all(&zeros))
            .map_err(Error::file("overwrite", &path))?;
        files::remove_file(&path)
    }

    /// Readable when the machine's QEMU has ended; `None` when none is held.
    pub(crate) fn end_signal(&self) -> Option<OwnedFd> {
        match &self.lock().hold {
            Hold::Held(process) => process.as_fd().try_clone_to_owned().ok(),
            _ => None,
        }
    }

    /// When things happened.
    pub(crate) fn timings(&self) -> Option<Timings> {
        self.lock().record.as_ref().map(|record| record.timings)
    }

    /// Where its serial console goes.
    pub(crate) fn console(&self) -> PathBuf {
        self.dir.join(CONSOLE)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the files and starts QEMU. Says also whether the record still has to be saved.
fn start_in(
    dir: &Path,
    request: &NodeRequest,
    prepared: &Prepared,
    options: &HostOptions,
    requested_ms: u64,
) -> Result<(Record, Process, bool), Error> {
    let config = seed::boot_config(request, options)?;
    let seed_image = seed::image(request, &config)?;
    let join_drive = seed::join_drive(request)?;
    let boot_id = process::boot_id().map_err(Error::file("read the boot id of", Path::new("/proc")))?;

    files::make_dir(dir)?;
    let timings = Timings { requested_ms, ..Timings::default() };
    let mut record = Record { boot_id, process: None, timings, lost: None };
    record.write(&dir.join(RECORD))?;
    files::write_atomically(&dir.join(SEED), &[&seed_image])?;
    files::write_atomically(&dir.join(JOIN), &[&join_drive])?;

    let drive = |serial: String, path: PathBuf| Drive { serial, path };
    let mut drives = vec![drive("cidata".to_owned(), dir.join(SEED)), drive("join".to_owned(), dir.join(JOIN))];
    for (index, archive) in options.image_archives.iter().enumerate() {
        drives.push(drive(format!("image{index}"), archive.clone()));
    }
    let guest = Guest {
        name: process_name(dir),
        acceleration: prepared.acceleration,
        cpus: request.cpus,
        memory_mib: request.memory_mib,
        kernel: prepared.kernel.clone(),
        initramfs: Some(prepared.initramfs.clone()),
        command_line: COMMAND_LINE,
        network: true,
        drives,
        console: dir.join(CONSOLE),
        log: dir.join(LOG),
    };
    let process = qemu::start(&guest, options)?;
    record.timings.started_ms = Some(now_ms());
    record.process = Some(process.id().into());
    // From here on the machine exists. A record without the process is not an error: a later
    // provider finds it by name.
    let unsaved = match record.write(&dir.join(RECORD)) {
        Ok(()) => false,
        Err(error) => {
            tracing::warn!(error = %runtime::error_chain(&error), "a machine's record is not saved");
            true
        }
    };
    Ok((record, process, unsaved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_safe_names() {
        for good in ["a", "6b1f3c1e-0d7e-4d1c-9f53-0123456789ab", "A_b.c"] {
            assert!(is_valid_id(good), "{good}");
        }
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "a\0b", "é", &"x".repeat(65)] {
            assert!(!is_valid_id(bad), "{bad:?}");
        }
    }

    #[test]
    fn each_directory_has_its_own_process_name() {
        assert_ne!(process_name(Path::new("/a/x")), process_name(Path::new("/b/x")));
        assert_eq!(process_name(Path::new("/a/x")).len(), 27);
    }
}
