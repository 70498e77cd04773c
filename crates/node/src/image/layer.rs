//! Unpacks a layer into a directory that the kernel's overlay understands: removals become its
//! whiteouts. Every path is resolved within the directory by the kernel, see [`crate::rootdir`].

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use tar::EntryType;

use super::digest::{Digest, DigestReader};
use super::error::{Error, IoContext};
use super::options::ImageOptions;
use crate::rootdir::{NewEntry, RootDir, open_no_follow, remove_entry};

/// What a layer turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unpacked {
    /// Digest of the bytes as they came.
    pub(super) blob: Digest,
    /// Digest of the archive without compression.
    pub(super) diff_id: Digest,
    /// Bytes of all files.
    pub(super) size: u64,
}

/// Unpacks an archive, compressed or not, into an empty directory. `lower` are the layers below, the
/// lowest first: directories that the archive leaves out get owner and mode from there.
pub(super) fn unpack(
    blob: impl Read,
    directory: &Path,
    lower: &[PathBuf],
    options: &ImageOptions,
) -> Result<Unpacked, Error> {
    let mut blob = BufReader::new(DigestReader::new(blob, options.max_layer_bytes));
    let start = blob.fill_buf().context("read a layer")?;
    let compression = match start {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            return Err(Error::Malformed("layers compressed with zstd are not supported".into()));
        }
        _ => Compression::None,
    };
    // Headers and padding come on top of the files, at most two blocks and a long name each.
    let limit = options.max_unpacked_bytes.saturating_mul(2).saturating_add(1 << 20);
    let (diff_id, blob, size) = match compression {
        Compression::Gzip => {
            let (diff_id, decoder, size) = archive(MultiGzDecoder::new(blob), limit, directory, lower, options)?;
            (diff_id, decoder.into_inner(), size)
        }
        Compression::None => archive(blob, limit, directory, lower, options)?,
    };
    // What the buffer holds has been counted; the rest is read to the end.
    let (blob, _) = blob.into_inner().finish().context("read a layer")?;
    Ok(Unpacked { blob, diff_id, size })
}

enum Compression {
    None,
    Gzip,
}

fn archive<R: Read>(
    reader: R,
    limit: u64,
    directory: &Path,
    lower: &[PathBuf],
    options: &ImageOptions,
) -> Result<(Digest, R, u64), Error> {
    let lower = lower.iter().rev().map(|path| RootDir::open(path)).collect::<Result<Vec<_>, _>>();
    let mut unpacker = Unpacker {
        root: RootDir::open(directory).context("open a layer's directory")?,
        lower: lower.context("open a lower layer")?,
        parent: None,
        entries_left: options.max_layer_entries,
        bytes_left: options.max_unpacked_bytes,
    };
    let mut archive = tar::Archive::new(DigestReader::new(reader, limit));
    for entry in archive.entries().context("read a layer")? {
        unpacker.entry(&mut entry.context("read a layer")?)?;
    }
    let (diff_id, reader) = archive.into_inner().finish().context("read a layer")?;
    Ok((diff_id, reader, options.max_unpacked_bytes - unpacker.bytes_left))
}

struct Unpacker {
    root: RootDir,
    /// The highest first.
    lower: Vec<RootDir>,
    /// The directory used last; entries of one directory mostly follow each other.
    parent: Option<(PathBuf, OwnedFd)>,
    entries_left: u64,
    bytes_left: u64,
}

/// Owner, permissions and time of an entry.
struct Metadata {
    uid: u32,
    gid: u32,
    mode: u32,
    modified: i64,
}

const OPAQUE: &str = "trusted.overlay.opaque";
const WHITEOUT_PREFIX: &[u8] = b".wh.";
const WHITEOUT_OPAQUE: &[u8] = b".wh..wh..opq";
const WHITEOUT_META: &[u8] = b".wh..wh.";

impl Unpacker {
    fn entry(&mut self, entry: &mut tar::Entry<'_, impl Read>) -> Result<(), Error> {
        self.entries_left = self.entries_left.checked_sub(1).ok_or(Error::TooLarge("the number of a layer's files"))?;
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::XGlobalHeader) {
            return Ok(());
        }
        let path = safe_path(&entry.path_bytes())?;
        let header = entry.header();
        let number = |value: io::Result<u64>| u32::try_from(value.map_err(Error::malformed)?).map_err(Error::malformed);
        let metadata = Metadata {
            uid: number(header.uid())?,
            gid: number(header.gid())?,
            mode: header.mode().map_err(Error::malformed)? & 0o7777,
            modified: i64::try_from(header.mtime().unwrap_or(0)).unwrap_or(0),
        };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            // The root directory itself.
            let root = self.root.open_at(Path::new("."), OFlags::RDONLY | OFlags::DIRECTORY);
            return apply(&root.context("open a layer's directory")?, &metadata).context("unpack a layer");
        };
        let name = name.to_owned();
        let parent = self.parent(parent).context("make a layer's directory")?;
        if let Some(hidden) = name.as_bytes().strip_prefix(WHITEOUT_PREFIX) {
            return whiteout(&parent, &name, OsStr::from_bytes(hidden)).context("remove a file in a layer");
        }
        match kind {
            EntryType::Directory => {
                directory(&parent, &name, &metadata).context("unpack a directory")?;
                // It may have taken the place of something else.
                self.parent = None;
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                self.bytes_left =
                    self.bytes_left.checked_sub(entry.size()).ok_or(Error::TooLarge("the content of a layer"))?;
                replace(&parent, &name).context("unpack a file")?;
                file(&parent, &name, &metadata, entry).context("unpack a file")?;
            }
            EntryType::Symlink => {
                let target = link_target(entry)?;
                replace(&parent, &name).context("unpack a link")?;
                rustix::fs::symlinkat(OsStr::from_bytes(&target), &parent, &name).context("unpack a link")?;
                own(&parent, &name, &metadata).context("unpack a link")?;
                self.parent = None;
            }
            EntryType::Link => {
                let target = safe_path(&link_target(entry)?)?;
                replace(&parent, &name).context("unpack a hard link")?;
                self.hard_link(&target, &parent, &name).context("unpack a hard link")?;
            }
            EntryType::Fifo => {
                replace(&parent, &name).context("unpack a pipe")?;
                let mode = Mode::from_raw_mode(metadata.mode);
                rustix::fs::mknodat(&parent, &name, FileType::Fifo, mode, 0).context("unpack a pipe")?;
                own(&parent, &name, &metadata).context("unpack a pipe")?;
            }
            // Root file systems are mounted without devices; others are no files.
            _ => {}
        }
        Ok(())
    }

    fn parent(&mut self, path: &Path) -> io::Result<OwnedFd> {
        if let Some((known, directory)) = &self.parent
            && known == path
        {
            return directory.try_clone();
        }
        let lower = &self.lower;
        let found = self.root.make_directory(path, &|missing| describe(lower, missing))?;
        // One that can also be written attributes to.
        let found =
            rustix::fs::openat(&found, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        self.parent = Some((path.to_owned(), found.try_clone()?));
        Ok(found)
    }

    fn hard_link(&self, target: &Path, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let (Some(directory), Some(target_name)) = (target.parent(), target.file_name()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let directory = self.root.open_at(directory, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(rustix::fs::linkat(directory, target_name, parent, name, AtFlags::empty())?)
    }
}

/// What the layers below have at a path that this layer lacks.
fn describe(lower: &[RootDir], path: &Path) -> Option<NewEntry> {
    for root in lower {
        let Ok(stat) = root.stat(path) else { continue };
        return match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Some(NewEntry::Directory { mode: stat.st_mode, uid: stat.st_uid, gid: stat.st_gid }),
            FileType::Symlink => {
                let link = root.open_at(path, OFlags::PATH | OFlags::NOFOLLOW).ok()?;
                let target = rustix::fs::readlinkat(link, "", Vec::new()).ok()?;
                Some(NewEntry::Link(PathBuf::from(OsString::from_vec(target.into_bytes()))))
            }
            // A whiteout, or a file that becomes a directory.
            _ => None,
        };
    }
    None
}

/// The path of an entry without `.` and leading `/`. One that leads upwards is refused rather than
/// clamped, because no tool writes such entries in good faith.
fn safe_path(bytes: &[u8]) -> Result<PathBuf, Error> {
    let path = Path::new(OsStr::from_bytes(bytes));
    if bytes.contains(&0) || path.components().any(|component| component == Component::ParentDir) {
        return Err(Error::Malformed(format!("entry {:?} leads out of the layer", String::from_utf8_lossy(bytes))));
    }
    crate::rootdir::clean(path).context("read a layer")
}

fn link_target(entry: &tar::Entry<'_, impl Read>) -> Result<Vec<u8>, Error> {
    let target = entry.link_name_bytes().filter(|target| !target.is_empty());
    Ok(target.ok_or_else(|| Error::Malformed("a link without target".into()))?.into_owned())
}

fn whiteout(parent: &OwnedFd, name: &OsStr, hidden: &OsStr) -> io::Result<()> {
    if name.as_bytes() == WHITEOUT_OPAQUE {
        return Ok(rustix::fs::fsetxattr(parent, OPAQUE, b"y", XattrFlags::empty())?);
    }
    if name.as_bytes().starts_with(WHITEOUT_META) || hidden.is_empty() || hidden == "." || hidden == ".." {
        return Ok(());
    }
    match rustix::fs::mknodat(parent, hidden, FileType::CharacterDevice, Mode::empty(), 0) {
        // It is removed and comes back in the same layer; a directory then hides the one below.
        Err(Errno::EXIST) => match open_no_follow(parent, hidden, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(directory) => Ok(rustix::fs::fsetxattr(directory, OPAQUE, b"y", XattrFlags::empty())?),
            Err(_) => Ok(()),
        },
        result => Ok(result?),
    }
}

/// Makes room for an entry that comes a second time.
fn replace(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    remove_entry(parent, name)
}

fn directory(parent: &OwnedFd, name: &OsStr, metadata: &Metadata) -> io::Result<()> {
    let existing = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(FileType::from_raw_mode(stat.st_mode)),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(error.into()),
    };
    if existing != Some(FileType::Directory) {
        replace(parent, name)?;
        rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700))?;
    }
    let made = open_no_follow(parent, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
    if existing == Some(FileType::CharacterDevice) {
        rustix::fs::fsetxattr(&made, OPAQUE, b"y", XattrFlags::empty())?;
    }
    apply(&made, metadata)
}

fn file(parent: &OwnedFd, name: &OsStr, metadata: &Metadata, entry: &mut tar::Entry<'_, impl Read>) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o600))?);
    io::copy(entry, &mut file)?;
    apply(&file, metadata)?;
    if let Some(extensions) = entry.pax_extensions()? {
        for extension in extensions {
            let extension = extension?;
            let Some(name) = extension.key_bytes().strip_prefix(b"SCHILY.xattr.") else { continue };
            // Others belong to the file system or to security modules of another machine.
            if name == b"security.capability" || name.starts_with(b"user.") {
                match rustix::fs::fsetxattr(
                    &file,
                    OsStr::from_bytes(name),
                    extension.value_bytes(),
                    XattrFlags::empty(),
                ) {
                    Ok(()) | Err(Errno::OPNOTSUPP) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    let time = Timespec { tv_sec: metadata.modified, tv_nsec: 0 };
    Ok(rustix::fs::futimens(&file, &Timestamps { last_access: time, last_modification: time })?)
}

fn apply(file: impl std::os::fd::AsFd, metadata: &Metadata) -> io::Result<()> {
    rustix::fs::fchown(&file, Some(Uid::from_raw(metadata.uid)), Some(Gid::from_raw(metadata.gid)))?;
    Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(metadata.mode))?)
}

fn own(parent: &OwnedFd, name: &OsStr, metadata: &Metadata) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(metadata.uid), Gid::from_raw(metadata.gid));
    Ok(rustix::fs::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
}
