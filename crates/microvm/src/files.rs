//! Files: written whole or not at all, locked, hashed; free space.

use crate::Error;
use ring::digest;
use rustix::fs::FlockOperation;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Prefix of names that are being written.
pub(crate) const UNFINISHED: &str = ".unfinished-";

const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// A name beside others in `dir` that no one else uses.
pub(crate) fn unfinished(dir: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    dir.join(format!("{UNFINISHED}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// Makes a directory, and those above it, readable to its owner only.
pub(crate) fn make_dir(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Error::file("make the directory", path))
}

/// Writes a file as a whole: after a crash it has the old content or the new.
pub(crate) fn write_atomically(path: &Path, parts: &[&[u8]]) -> Result<(), Error> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let temporary = unfinished(dir);
    let written = (|| {
        let mut file = create(&temporary, 0o600)?;
        for part in parts {
            file.write_all(part).map_err(Error::file("write", path))?;
        }
        file.sync_all().map_err(Error::file("write", path))?;
        fs::rename(&temporary, path).map_err(Error::file("write", path))?;
        sync_dir(dir)
    })();
    if written.is_err() {
        // The error that matters is the first.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Makes a new file of this mode.
pub(crate) fn create(path: &Path, mode: u32) -> Result<File, Error> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(Error::file("create", path))
}

/// Makes renames and removals in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::file("sync the directory", dir))
}

/// Removes a directory and all in it; absence is a success.
pub(crate) fn remove_dir(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(Error::file("remove", path)),
    }
}

/// Removes a file; absence is a success.
pub(crate) fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(Error::file("remove", path)),
    }
}

/// Takes an exclusive lock that ends with the returned file, or with this process. Waits at most
/// `limit`; `None` when another holds it still.
pub(crate) fn lock(path: &Path, limit: Duration) -> Result<Option<File>, Error> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(Error::file("open the lock", path))?;
    let start = Instant::now();
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) if start.elapsed() < limit => std::thread::sleep(LOCK_PAUSE),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(Error::file("lock", path)(error.into())),
        }
    }
}

/// Refuses when the disk of `dir` has less than this free.
pub(crate) fn require_free(dir: &Path, needed_mib: u64) -> Result<(), Error> {
    let free_mib = free_mib(dir)?;
    if free_mib < needed_mib {
        return Err(Error::LowDisk { path: dir.to_owned(), free_mib, needed_mib });
    }
    Ok(())
}

/// Free space for this user, in MiB.
pub(crate) fn free_mib(dir: &Path) -> Result<u64, Error> {
    let space = rustix::fs::statvfs(dir).map_err(|error| Error::file("measure", dir)(error.into()))?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize) >> 20)
}

/// SHA-256 of a file, in hexadecimal.
pub(crate) fn sha256_file(path: &Path) -> Result<String, Error> {
    let mut file = File::open(path).map_err(Error::file("read", path))?;
    let mut hash = digest::Context::new(&digest::SHA256);
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer).map_err(Error::file("read", path))? {
            0 => return Ok(hex(hash.finish().as_ref())),
            count => hash.update(&buffer[..count]),
        }
    }
}

/// SHA-256 of bytes, in hexadecimal.
pub(crate) fn sha256(data: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, data).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes all writes");
        text
    })
}

/// The end of a text file, at most `limit` bytes of it, made printable.
pub(crate) fn tail(path: &Path, limit: u64) -> std::io::Result<String> {
    use std::io::{Seek, SeekFrom};
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
    let mut data = Vec::new();
    file.take(limit).read_to_end(&mut data)?;
    Ok(String::from_utf8_lossy(&data).into_owned())
}
