//! The Debian archive, through the host's own package tools and configured sources. The downloaded
//! package is checked against the hash in the (signed) package index.

use crate::{Error, HostOptions, files, program};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A downloaded package.
#[derive(Debug)]
pub(crate) struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The file.
    pub file: PathBuf,
}

/// Package lists to work with: the host's own, or fresh ones in the cache when the host's are
/// missing or out of date. The host's are never changed.
struct Lists(Vec<String>);

impl Lists {
    fn host() -> Self {
        Self(Vec::new())
    }

    fn fresh(options: &HostOptions, work: &Path) -> Result<Self, Error> {
        let root = work.join("apt");
        for dir in ["lists/partial", "cache/archives/partial"] {
            files::make_dir(&root.join(dir))?;
        }
        let lists = Self(vec![
            "-o".to_owned(),
            format!("Dir::State::lists={}", root.join("lists").display()),
            "-o".to_owned(),
            format!("Dir::Cache={}", root.join("cache").display()),
        ]);
        tracing::info!("fetching package lists, the host's own do not have the kernel");
        program::run(lists.command("apt-get").arg("update"), work, options.fetch_timeout)?;
        Ok(lists)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(&self.0);
        command
    }
}

/// Downloads the newest kernel package into `work`.
pub(crate) fn fetch(options: &HostOptions, work: &Path) -> Result<Package, Error> {
    match fetch_with(&Lists::host(), options, work) {
        Ok(package) => Ok(package),
        Err(error @ Error::Program { .. }) => Err(error),
        Err(first) => {
            tracing::debug!(error = %first, "the host's package lists did not do");
            fetch_with(&Lists::fresh(options, work)?, options, work)
        }
    }
}

/// Whether the host's package lists have the kernel; for a check without downloading.
pub(crate) fn available(options: &HostOptions, work: &Path) -> Result<String, Error> {
    Ok(resolve(&Lists::host(), options, work)?.name)
}

fn fetch_with(lists: &Lists, options: &HostOptions, work: &Path) -> Result<Package, Error> {
    let index = resolve(lists, options, work)?;
    let dir = work.join("download");
    files::make_dir(&dir)?;
    let wanted = format!("{}={}", index.name, index.version);
    let mut download = lists.command("apt-get");
    download.args(["download", "--quiet", &wanted]).current_dir(&dir);
    program::run(&mut download, work, options.fetch_timeout)?;
    let file = std::fs::read_dir(&dir)
        .map_err(Error::file("read", &dir))?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| Error::Kernel(format!("apt-get downloaded no file for {wanted}")))?;
    let hash = files::sha256_file(&file)?;
    if hash != index.sha256 {
        return Err(Error::Kernel(format!("{wanted} has SHA-256 {hash}, and its index says {}", index.sha256)));
    }
    Ok(Package { name: index.name, version: index.version, file })
}

/// Unpacks a package's files below `tree`.
pub(crate) fn unpack(package: &Path, tree: &Path, work: &Path, options: &HostOptions) -> Result<(), Error> {
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(package).arg(tree);
    program::run(&mut unpack, work, options.fetch_timeout).map(drop)
}

/// One package as an index describes it.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    version: String,
    sha256: String,
    depends: Vec<String>,
}

/// Follows a meta package to the one that holds the kernel.
fn resolve(lists: &Lists, options: &HostOptions, work: &Path) -> Result<Entry, Error> {
    let entry = show(lists, &options.kernel_package, options, work)?;
    match entry.depends.iter().find(|name| name.starts_with("linux-image-")) {
        Some(real) => show(lists, real, options, work),
        None => Ok(entry),
    }
}

fn show(lists: &Lists, name: &str, options: &HostOptions, work: &Path) -> Result<Entry, Error> {
    let mut show = lists.command("apt-cache");
    show.args(["show", "--no-all-versions", name]);
    let text = program::run(&mut show, work, options.fetch_timeout)?;
    parse(&text).ok_or_else(|| Error::Kernel(format!("the package lists do not describe {name}")))
}

/// The first stanza of a package index.
fn parse(text: &str) -> Option<Entry> {
    let stanza = text.split("\n\n").next()?;
    let field = |name: &str| {
        stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(|value| value.trim().to_owned())
    };
    let depends = field("Depends").unwrap_or_default();
    Some(Entry {
        name: field("Package")?,
        version: field("Version")?,
        sha256: field("SHA256")?,
        depends: depends.split(',').filter_map(|one| one.split_whitespace().next()).map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meta_package_names_its_kernel() {
        let text =
            "Package: meta\nVersion: 1\nDepends: linux-image-6 (= 1), kmod | other\nSHA256: ab\n\nPackage: old\n";
        let entry = parse(text).expect("a stanza");
        assert_eq!(entry.depends, ["linux-image-6", "kmod"]);
        assert_eq!((entry.name.as_str(), entry.version.as_str(), entry.sha256.as_str()), ("meta", "1", "ab"));
        assert_eq!(parse("Package: x\nVersion: 1\n"), None, "without a hash there is nothing to check");
        assert_eq!(parse(""), None);
    }
}
