//! What every machine boots from, made once per provider.

use crate::{Acceleration, Error, HostOptions, acceleration, files, initramfs, kernel};
use std::fs;
use std::path::PathBuf;

/// Kernel, root and how to run them.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// What QEMU boots.
    pub kernel: PathBuf,
    /// The root.
    pub initramfs: PathBuf,
    /// KVM or emulation.
    pub acceleration: Acceleration,
}

/// Makes what is missing in the cache. Processes that share a cache take turns.
pub(crate) fn prepare(options: &HostOptions) -> Result<Prepared, Error> {
    // The quickest to fail comes first.
    initramfs::read_agent(&options.agent_binary)?;
    for archive in &options.image_archives {
        fs::File::open(archive).map_err(Error::file("read the image archive", archive))?;
    }
    files::make_dir(&options.cache_dir)?;
    let path = options.cache_dir.join("lock");
    let limit = options.fetch_timeout + options.kvm_probe_timeout + options.tcg_probe_timeout;
    let Some(_lock) = files::lock(&path, limit)? else {
        return Err(Error::Locked { path, limit });
    };
    remove_unfinished(options)?;
    let kernel = kernel::ensure(options)?;
    let initramfs = initramfs::ensure(options, &kernel)?;
    let acceleration = acceleration::choose(options, &kernel)?;
    Ok(Prepared { kernel: kernel.image, initramfs, acceleration })
}

/// What a process left that ended in the middle; the lock says that none is at work.
fn remove_unfinished(options: &HostOptions) -> Result<(), Error> {
    for dir in [options.cache_dir.clone(), options.cache_dir.join("kernels"), options.cache_dir.join("initramfs")] {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries {
            let entry = entry.map_err(Error::file("read", &dir))?;
            if !entry.file_name().to_string_lossy().starts_with(files::UNFINISHED) {
                continue;
            }
            if entry.path().is_dir() {
                files::remove_dir(&entry.path())?;
            } else {
                files::remove_file(&entry.path())?;
            }
        }
    }
    Ok(())
}
