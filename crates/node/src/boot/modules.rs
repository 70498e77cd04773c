//! Kernel modules, loaded in the order that the image lists and only when they are needed.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Sets of modules under one directory: `order-<set>` lists a set's files in load order.
#[derive(Debug)]
pub(crate) struct Modules {
    dir: PathBuf,
    loaded: Mutex<HashSet<String>>,
}

impl Modules {
    /// Modules below `dir`, none loaded yet.
    pub(crate) fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), loaded: Mutex::default() }
    }

    /// The running kernel's.
    pub(crate) fn system() -> &'static Self {
        static SYSTEM: OnceLock<Modules> = OnceLock::new();
        SYSTEM.get_or_init(|| Self::new("/modules"))
    }

    /// The files of a set, in load order. A set that the image does not have is empty: then the
    /// kernel has it built in.
    pub(crate) fn files(&self, set: &str) -> io::Result<Vec<PathBuf>> {
        match fs::read_to_string(self.dir.join(format!("order-{set}"))) {
            Ok(list) => Ok(list
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .map(|line| self.dir.join(line))
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Loads a set, once. Modules that the kernel has already are skipped.
    pub(crate) fn load(&self, set: &str) -> io::Result<()> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.contains(set) {
            return Ok(());
        }
        for path in self.files(set)? {
            let name = path.display().to_string();
            let failed = |error: io::Error| io::Error::new(error.kind(), format!("cannot load {name}: {error}"));
            let file = File::open(&path).map_err(failed)?;
            match rustix::system::finit_module(&file, c"", 0) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        loaded.insert(set.to_owned());
        Ok(())
    }
}
