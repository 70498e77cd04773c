//! Container logs in the CRI format, `<time> <stream> <F|P> <text>`: written with rotation, read with
//! the options of the pod `log` subresource.

mod format;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use format::Stream;
pub use reader::{LogOptions, LogStream, read};
pub(super) use writer::LogWriter;

/// The log of a container's `attempt`-th start.
pub fn path(log_root: &Path, namespace: &str, pod: &str, uid: &str, container: &str, attempt: u32) -> PathBuf {
    pod_directory(log_root, namespace, pod, uid).join(container).join(format!("{attempt}.log"))
}

/// The directory of all logs of a pod.
pub fn pod_directory(log_root: &Path, namespace: &str, pod: &str, uid: &str) -> PathBuf {
    log_root.join(format!("{namespace}_{pod}_{uid}"))
}

/// Every file of a log, the oldest first; the last is the one being written.
fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let prefix = format!("{name}.");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
            files.push(entry.path());
        }
    }
    files.sort();
    if path.exists() {
        files.push(path.to_owned());
    }
    Ok(files)
}
