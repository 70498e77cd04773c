//! The guests' root: a `newc` archive with the node agent as `/init` and the kernel modules, cached
//! by the hash of what is in it.

#[cfg(test)]
mod tests;

use crate::kernel::Kernel;
use crate::{Error, HostOptions, files};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const DIRECTORY: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;
const PLAIN: u32 = 0o100_644;

/// An agent is one small binary; a larger file is something else.
const MAX_AGENT: u64 = 256 << 20;

/// The archive for this agent and kernel. The caller holds the cache's lock.
pub(crate) fn ensure(options: &HostOptions, kernel: &Kernel) -> Result<PathBuf, Error> {
    let agent = read_agent(&options.agent_binary)?;
    let mut archive = Archive::default();
    for directory in ["dev", "proc", "sys", "run", "tmp", "modules"] {
        archive.add(directory, DIRECTORY, b"");
    }
    archive.add("init", EXECUTABLE, &agent);
    for (set, list) in &kernel.manifest.sets {
        let mut order = list.join("\n");
        order.push('\n');
        archive.add(&format!("modules/order-{set}"), PLAIN, order.as_bytes());
    }
    for name in kernel.manifest.modules.keys() {
        let path = kernel.modules_dir.join(name);
        archive.add(&format!("modules/{name}"), PLAIN, &fs::read(&path).map_err(Error::file("read", &path))?);
    }
    let bytes = archive.finish();

    let dir = options.cache_dir.join("initramfs");
    files::make_dir(&dir)?;
    let path = dir.join(format!("{}.cpio", files::sha256(&bytes)));
    // The name is the hash of the content, so a file that is whole is right.
    let same = fs::metadata(&path).is_ok_and(|found| found.len() == bytes.len() as u64)
        && path.file_stem().and_then(|stem| stem.to_str()) == Some(files::sha256_file(&path)?.as_str());
    if !same {
        files::write_atomically(&path, &[&bytes])?;
    }
    prune(&dir, &path, options.max_initramfs)?;
    Ok(path)
}

/// Reads and checks the agent: what is not a static x86-64 executable would only panic the kernel.
pub(crate) fn read_agent(path: &Path) -> Result<Vec<u8>, Error> {
    let unfit = |why: String| Error::Agent { path: path.to_owned(), why };
    let metadata = fs::metadata(path).map_err(|error| unfit(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > MAX_AGENT {
        return Err(unfit(format!("it is not a file of at most {} MiB", MAX_AGENT >> 20)));
    }
    let bytes = fs::read(path).map_err(|error| unfit(error.to_string()))?;
    match static_executable(&bytes) {
        Ok(()) => Ok(bytes),
        Err(why) => Err(unfit(why.to_owned())),
    }
}

fn static_executable(elf: &[u8]) -> Result<(), &'static str> {
    const NOT: &str = "it is not an x86-64 Linux executable";
    let half = |at: usize| elf.get(at..at + 2).map(|field| usize::from(field[0]) | usize::from(field[1]) << 8);
    if elf.get(..6) != Some(b"\x7fELF\x02\x01") || half(0x12) != Some(62) || !matches!(half(0x10), Some(2 | 3)) {
        return Err(NOT);
    }
    let table = elf.get(0x20..0x28).and_then(|field| field.first_chunk::<8>()).ok_or(NOT)?;
    let table = usize::try_from(u64::from_le_bytes(*table)).map_err(|_| NOT)?;
    let (size, count) = (half(0x36).ok_or(NOT)?, half(0x38).ok_or(NOT)?);
    for index in 0..count {
        let at = table.checked_add(index * size).ok_or(NOT)?;
        // PT_INTERP: it asks for a dynamic loader.
        if elf.get(at..).and_then(|rest| rest.first_chunk::<4>()).ok_or(NOT)? == &[3, 0, 0, 0] {
            return Err("it is linked dynamically; build it with the target feature crt-static");
        }
    }
    Ok(())
}

/// Removes all but the newest archives.
fn prune(dir: &Path, keep: &Path, max: usize) -> Result<(), Error> {
    let mut others = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::file("read", dir))? {
        let path = entry.map_err(Error::file("read", dir))?.path();
        if path != keep {
            let modified = fs::metadata(&path).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            others.push((modified, path));
        }
    }
    others.sort();
    let surplus = (others.len() + 1).saturating_sub(max.max(1));
    others.iter().take(surplus).try_for_each(|(_, path)| files::remove_file(path))
}

/// A `newc` archive in the making.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        self.entry(name, self.entries, mode, content);
    }

    fn entry(&mut self, name: &str, inode: u32, mode: u32, content: &[u8]) {
        let links = if mode & 0o040_000 != 0 { 2 } else { 1 };
        let fields = [inode, mode, 0, 0, links, 0, content.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, 0, b"");
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self.bytes
    }
}
