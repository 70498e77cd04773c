//! The guests' kernel: Debian's cloud kernel package, reduced to an uncompressed kernel and the few
//! modules that a node needs, and kept in the cache directory.

mod archive;
mod bzimage;
mod modules;

use crate::{Error, HostOptions, files};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use archive::available;

/// Changes when [`modules::SETS`] or the layout of the directory does.
const LAYOUT: u32 = 1;

const MANIFEST: &str = "kernel.json";
const IMAGE: &str = "vmlinux";

/// A kernel in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// What QEMU boots.
    pub image: PathBuf,
    /// Where the modules are.
    pub modules_dir: PathBuf,
    /// What it is.
    pub manifest: Manifest,
}

/// What the cache says about a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    layout: u32,
    /// The package it comes from.
    pub package: String,
    /// That package's version.
    pub version: String,
    /// SHA-256 of the image.
    pub image_sha256: String,
    /// SHA-256 of each module by file name.
    pub modules: BTreeMap<String, String>,
    /// For each set, file names in load order.
    pub sets: BTreeMap<String, Vec<String>>,
}

/// The cached kernel, or a newly fetched one. The caller holds the cache's lock.
pub(crate) fn ensure(options: &HostOptions) -> Result<Kernel, Error> {
    if let Some(kernel) = cached(options)? {
        return Ok(kernel);
    }
    let kernels = kernels_dir(options);
    files::make_dir(&kernels)?;
    files::require_free(&kernels, options.min_free_cache_mib)?;
    let work = files::unfinished(&kernels);
    let made = make(options, &work);
    files::remove_dir(&work)?;
    let name = made?;
    files::write_atomically(&kernels.join("current"), &[name.as_bytes()])?;
    cached(options)?.ok_or_else(|| Error::Kernel("the kernel that was just stored does not verify".to_owned()))
}

/// What the cache holds now, verified; `None` when that is nothing or is damaged.
pub(crate) fn cached(options: &HostOptions) -> Result<Option<Kernel>, Error> {
    let kernels = kernels_dir(options);
    let current = kernels.join("current");
    let name = match fs::read_to_string(&current) {
        Ok(name) => name,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read", &current)(error)),
    };
    let dir = kernels.join(name.trim());
    let Some(manifest) =
        fs::read(dir.join(MANIFEST)).ok().and_then(|json| serde_json::from_slice::<Manifest>(&json).ok())
    else {
        return Ok(None);
    };
    let kernel = Kernel { image: dir.join(IMAGE), modules_dir: dir.join("modules"), manifest };
    let same = |path: &Path, hash: &String| files::sha256_file(path).is_ok_and(|found| found == *hash);
    let whole = kernel.manifest.layout == LAYOUT
        && same(&kernel.image, &kernel.manifest.image_sha256)
        && kernel.manifest.modules.iter().all(|(name, hash)| same(&kernel.modules_dir.join(name), hash));
    Ok(whole.then_some(kernel))
}

fn kernels_dir(options: &HostOptions) -> PathBuf {
    options.cache_dir.join("kernels")
}

/// Fetches and reduces a kernel within `work`, moves the result beside it, and returns its name.
fn make(options: &HostOptions, work: &Path) -> Result<String, Error> {
    files::make_dir(work)?;
    let package = archive::fetch(options, work)?;
    tracing::info!(package = package.name, version = package.version, "unpacking the guests' kernel");
    let tree = work.join("tree");
    archive::unpack(&package.file, &tree, work, options)?;
    files::remove_file(&package.file)?;

    let boot = tree.join("boot");
    let compressed = find_kernel(&boot)?;
    let bytes = fs::read(&compressed).map_err(Error::file("read", &compressed))?;
    // A kernel that is packed another way boots as it is, only slower.
    let image = bzimage::uncompressed(&bytes).unwrap_or(bytes);

    let result = work.join("result");
    let modules_dir = result.join("modules");
    files::make_dir(&modules_dir)?;
    let image_path = result.join(IMAGE);
    files::write_atomically(&image_path, &[&image])?;
    let tree = modules::Tree::read(&tree)?;
    let mut manifest = Manifest {
        layout: LAYOUT,
        package: package.name,
        version: package.version,
        image_sha256: files::sha256(&image),
        modules: BTreeMap::new(),
        sets: BTreeMap::new(),
    };
    for (set, names) in modules::SETS {
        let mut list = Vec::new();
        for module in tree.closure(names, work, options)? {
            let file = format!("{}.ko", module.name);
            if !manifest.modules.contains_key(&file) {
                files::write_atomically(&modules_dir.join(&file), &[&module.bytes])?;
                manifest.modules.insert(file.clone(), files::sha256(&module.bytes));
            }
            list.push(file);
        }
        manifest.sets.insert((*set).to_owned(), list);
    }
    let json = serde_json::to_vec_pretty(&manifest).map_err(|error| Error::Kernel(error.to_string()))?;
    files::write_atomically(&result.join(MANIFEST), &[&json])?;

    let name = directory_name(&manifest);
    let place = kernels_dir(options).join(&name);
    files::remove_dir(&place)?;
    fs::rename(&result, &place).map_err(Error::file("move into place", &place))?;
    files::sync_dir(&kernels_dir(options))?;
    Ok(name)
}

fn directory_name(manifest: &Manifest) -> String {
    let plain = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() || ".+-".contains(c) { c } else { '_' }).collect()
    };
    format!("{}_{}_{LAYOUT}", plain(&manifest.package), plain(&manifest.version))
}

fn find_kernel(boot: &Path) -> Result<PathBuf, Error> {
    let missing = || Error::Kernel("the package holds no boot/vmlinuz-*".to_owned());
    for entry in fs::read_dir(boot).map_err(|_| missing())? {
        let entry = entry.map_err(Error::file("read", boot))?;
        if entry.file_name().to_string_lossy().starts_with("vmlinuz-") {
            return Ok(entry.path());
        }
    }
    Err(missing())
}
