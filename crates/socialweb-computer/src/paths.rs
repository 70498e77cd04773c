//! Where state and caches are, by the XDG base directory specification.

use anyhow::{Context, Result};
use clap::Args;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[derive(Args, Clone)]
pub(crate) struct Paths {
    /// State directory [default: socialweb-computer in the user's state directory]
    #[arg(long, global = true, value_name = "DIR", env = "SOCIALWEB_STATE")]
    state: Option<PathBuf>,
    /// Cache directory: kernels and guest images [default: socialweb-computer in the user's cache]
    #[arg(long, global = true, value_name = "DIR", env = "SOCIALWEB_CACHE")]
    cache: Option<PathBuf>,
}

impl Paths {
    /// The state directory.
    pub(crate) fn state(&self) -> Result<PathBuf> {
        resolve(self.state.as_deref(), "XDG_STATE_HOME", ".local/state", "--state")
    }

    /// The cache directory.
    pub(crate) fn cache(&self) -> Result<PathBuf> {
        resolve(self.cache.as_deref(), "XDG_CACHE_HOME", ".cache", "--cache")
    }

    /// The file with the address of the running server.
    pub(crate) fn address(&self) -> Result<PathBuf> {
        Ok(self.state()?.join("address"))
    }

    /// The administrator's kubeconfig.
    pub(crate) fn admin_kubeconfig(&self) -> Result<PathBuf> {
        Ok(self.state()?.join("admin.kubeconfig"))
    }
}

fn resolve(given: Option<&Path>, variable: &str, below_home: &str, flag: &str) -> Result<PathBuf> {
    if let Some(given) = given {
        return std::path::absolute(given).with_context(|| format!("{}", given.display()));
    }
    let base = std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(below_home)))
        .with_context(|| format!("neither {variable} nor HOME is set; say {flag}"))?;
    Ok(base.join("socialweb-computer"))
}

/// Makes a directory that only its owner can enter.
pub(crate) fn private_directory(path: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make the directory {}", path.display()))
}

/// Replaces a file, whole, readable by its owner only.
pub(crate) fn write_private(path: &Path, content: &str) -> Result<()> {
    let fail = || format!("cannot write {}", path.display());
    let mut name = path.file_name().with_context(fail)?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let partial = path.with_file_name(name);
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial).with_context(fail)?;
    file.write_all(content.as_bytes()).and_then(|()| file.sync_all()).with_context(fail)?;
    fs::rename(&partial, path).with_context(fail)
}
