//! A directory that holds another root file system: every path is resolved by the kernel as if the
//! directory were `/`, so that no link or `..` in it leads outside.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid};
use rustix::io::Errno;

/// How many links may lead to one directory.
const MAX_LINKS: u32 = 40;

/// An open root directory.
pub(crate) struct RootDir(OwnedFd);

impl RootDir {
    /// Opens an existing directory.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
    }

    /// Opens a path, following links within the root.
    pub(crate) fn open_at(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        loop {
            match rustix::fs::openat2(&self.0, relative(path), flags, Mode::empty(), resolve) {
                // A rename elsewhere made the kernel unsure; it says to try again.
                Err(Errno::AGAIN) => continue,
                result => return result,
            }
        }
    }

    /// The state of the last component itself, be it a link.
    pub(crate) fn stat(&self, path: &Path) -> Result<Stat, Errno> {
        let file = self.open_at(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        rustix::fs::fstat(file)
    }

    /// A directory, made with its parents where they do not exist. `describe` gives owner and mode
    /// of a new one, or a link to make in its place.
    pub(crate) fn make_directory(
        &self,
        path: &Path,
        describe: &dyn Fn(&Path) -> Option<NewEntry>,
    ) -> io::Result<OwnedFd> {
        self.make_within(path, describe, MAX_LINKS)
    }

    fn make_within(
        &self,
        path: &Path,
        describe: &dyn Fn(&Path) -> Option<NewEntry>,
        links_left: u32,
    ) -> io::Result<OwnedFd> {
        let mut so_far = PathBuf::from("/");
        let mut directory = self.directory(&so_far)?;
        for component in clean(path)?.components() {
            let Component::Normal(name) = component else { continue };
            so_far.push(name);
            directory = match self.directory(&so_far) {
                Ok(found) => found,
                Err(Errno::NOENT) => self.make_one(&directory, name, &so_far, describe, links_left)?,
                Err(error) => return Err(error.into()),
            };
        }
        Ok(directory)
    }

    fn make_one(
        &self,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
        describe: &dyn Fn(&Path) -> Option<NewEntry>,
        links_left: u32,
    ) -> io::Result<OwnedFd> {
        let links_left = links_left.checked_sub(1).ok_or(Errno::LOOP)?;
        let existing = match rustix::fs::readlinkat(parent, name, Vec::new()) {
            Ok(target) => Some(PathBuf::from(OsString::from_vec(target.into_bytes()))),
            Err(Errno::NOENT) => match describe(path) {
                Some(NewEntry::Link(target)) => {
                    rustix::fs::symlinkat(&target, parent, name)?;
                    Some(target)
                }
                Some(NewEntry::Directory { mode, uid, gid }) => {
                    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700))?;
                    let made = open_no_follow(parent, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
                    rustix::fs::fchown(&made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
                    rustix::fs::fchmod(&made, Mode::from_raw_mode(mode & 0o7777))?;
                    return Ok(made);
                }
                None => {
                    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700))?;
                    let made = open_no_follow(parent, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
                    rustix::fs::fchmod(&made, Mode::from_raw_mode(0o755))?;
                    return Ok(made);
                }
            },
            Err(error) => return Err(error.into()),
        };
        // A link whose target does not exist yet: make the target.
        let target = existing.unwrap_or_default();
        let target = if target.is_absolute() {
            target
        } else {
            // The parent itself may have been reached through links; links to links are rare enough
            // that the textual parent is resolved once more instead of being remembered.
            path.parent().unwrap_or(Path::new("/")).join(target)
        };
        self.make_within(&target, describe, links_left)
    }

    fn directory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        self.open_at(path, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// The content of a file up to a limit; `None` if there is no such file.
    pub(crate) fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let mut content = Vec::new();
        File::from(file).take(limit).read_to_end(&mut content)?;
        Ok(Some(content))
    }
}

/// What to make where a path has no directory yet.
pub(crate) enum NewEntry {
    /// A directory.
    Directory {
        /// Permissions.
        mode: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
    },
    /// A symbolic link.
    Link(PathBuf),
}

/// Opens an entry of a directory that is not a link.
pub(crate) fn open_no_follow(directory: impl AsFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Removes an entry of a directory, with everything in it.
pub(crate) fn remove_entry(directory: impl AsFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(&directory, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        Err(Errno::NOENT) => return Ok(()),
        result => return Ok(result?),
    }
    clear(&open_no_follow(&directory, name, OFlags::RDONLY | OFlags::DIRECTORY)?)?;
    Ok(rustix::fs::unlinkat(&directory, name, AtFlags::REMOVEDIR)?)
}

/// Removes everything in a directory.
pub(crate) fn clear(directory: &OwnedFd) -> io::Result<()> {
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            let name = OsString::from_vec(name.to_bytes().to_vec());
            remove_entry(directory, &name)?;
        }
    }
    Ok(())
}

/// The path without `.` and with `..` taken literally, clamped at the root.
pub(crate) fn clean(path: &Path) -> io::Result<PathBuf> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir | Component::RootDir => {}
            Component::Prefix(_) => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    Ok(clean)
}

/// `openat2` wants a path that names something.
fn relative(path: &Path) -> &Path {
    let relative = path.strip_prefix("/").unwrap_or(path);
    if relative.as_os_str().is_empty() { Path::new(".") } else { relative }
}
