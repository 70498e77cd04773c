//! Kernel modules: where they are in a package, what they depend on, and the order to load them.

use crate::{Error, HostOptions, files, program};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a node loads, by set: drives and network at boot, the rest when first needed.
pub(super) const SETS: &[(&str, &[&str])] = &[
    ("base", &["virtio_pci", "virtio_blk", "virtio_net", "overlay"]),
    ("pod", &["veth", "bridge"]),
    (
        "nft",
        &["crc32c_generic", "nf_tables", "nft_chain_nat", "nft_nat", "nft_masq", "nft_redir", "nft_ct", "nft_numgen"],
    ),
    ("nft-filter", &["crc32c_generic", "nf_tables", "nft_ct", "nft_limit", "nft_reject_inet"]),
    ("iso", &["isofs"]),
];

/// A deeper chain of dependencies is a cycle.
const MAX_DEPTH: usize = 32;

/// A module with its file's bytes, uncompressed.
#[derive(Debug)]
pub(super) struct Module {
    /// Name, with underscores.
    pub name: String,
    /// The ELF file.
    pub bytes: Vec<u8>,
}

/// The modules of an unpacked package.
#[derive(Debug)]
pub(super) struct Tree {
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

impl Tree {
    /// Finds the modules below an unpacked package.
    pub(super) fn read(tree: &Path) -> Result<Self, Error> {
        let mut found = Self { files: BTreeMap::new(), builtin: BTreeSet::new() };
        let mut rest: Vec<PathBuf> =
            ["lib/modules", "usr/lib/modules"].iter().map(|dir| tree.join(dir)).filter(|dir| dir.is_dir()).collect();
        while let Some(dir) = rest.pop() {
            for entry in fs::read_dir(&dir).map_err(Error::file("read", &dir))? {
                let path = entry.map_err(Error::file("read", &dir))?.path();
                if path.is_symlink() {
                    continue;
                }
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if path.is_dir() {
                    rest.push(path);
                } else if name == "modules.builtin" {
                    let list = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
                    found.builtin.extend(list.lines().filter_map(module_name));
                } else if let Some(name) = module_name(name) {
                    found.files.insert(name, path);
                }
            }
        }
        Ok(found)
    }

    /// The named modules and all that they need, each once, dependencies first.
    pub(super) fn closure(&self, names: &[&str], work: &Path, options: &HostOptions) -> Result<Vec<Module>, Error> {
        let mut order = Vec::new();
        for name in names {
            self.visit(name, 0, &mut order, work, options)?;
        }
        Ok(order)
    }

    fn visit(
        &self,
        name: &str,
        depth: usize,
        order: &mut Vec<Module>,
        work: &Path,
        options: &HostOptions,
    ) -> Result<(), Error> {
        if self.builtin.contains(name) || order.iter().any(|module| module.name == name) {
            return Ok(());
        }
        let path = self.files.get(name).ok_or_else(|| Error::Kernel(format!("the package lacks the module {name}")))?;
        if depth > MAX_DEPTH {
            return Err(Error::Kernel(format!("the module {name} depends on itself")));
        }
        let bytes = read(path, work, options)?;
        let info = modinfo(&bytes).ok_or_else(|| Error::Kernel(format!("{name} is not a kernel module")))?;
        for needed in depends(info) {
            self.visit(&needed, depth + 1, order, work, options)?;
        }
        order.push(Module { name: name.to_owned(), bytes });
        Ok(())
    }
}

/// `virtio-net.ko.xz` and `virtio_net.ko` are both `virtio_net`.
fn module_name(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    let (name, rest) = file.split_once(".ko")?;
    matches!(rest, "" | ".xz" | ".zst" | ".gz").then(|| name.replace('-', "_"))
}

fn read(path: &Path, work: &Path, options: &HostOptions) -> Result<Vec<u8>, Error> {
    let tool = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return fs::read(path).map_err(Error::file("read", path)),
    };
    // The tools write beside their input and drop the suffix.
    let mut unpack = Command::new(tool);
    unpack.args(["-d", "-k", "-f"]).arg(path);
    program::run(&mut unpack, work, options.fetch_timeout)?;
    let plain = path.with_extension("");
    let bytes = fs::read(&plain).map_err(Error::file("read", &plain))?;
    files::remove_file(&plain)?;
    Ok(bytes)
}

/// The `.modinfo` section: strings `key=value`, each ended by a zero.
fn modinfo(elf: &[u8]) -> Option<&[u8]> {
    if elf.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = usize::try_from(le(elf, 0x28, 8)?).ok()?;
    let (size, count, names) = (le(elf, 0x3a, 2)? as usize, le(elf, 0x3c, 2)? as usize, le(elf, 0x3e, 2)? as usize);
    let section = |index: usize| {
        let header = elf.get(table.checked_add(index.checked_mul(size)?)?..)?;
        let (name, start, length) = (le(header, 0, 4)?, le(header, 0x18, 8)?, le(header, 0x20, 8)?);
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        Some((usize::try_from(name).ok()?, start, end))
    };
    let (_, start, end) = section(names)?;
    let strings = elf.get(start..end)?;
    (0..count).filter_map(section).find_map(|(name, start, end)| {
        let name = strings.get(name..)?;
        if name.starts_with(b".modinfo\0") { elf.get(start..end) } else { None }
    })
}

fn depends(info: &[u8]) -> Vec<String> {
    info.split(|byte| *byte == 0)
        .filter_map(|entry| std::str::from_utf8(entry).ok()?.strip_prefix("depends="))
        .flat_map(|list| list.split(','))
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

fn le(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// An ELF file with a name table and a `.modinfo` section.
    fn module(depends: &str) -> Vec<u8> {
        let (names, info) = (b"\0.modinfo\0".to_vec(), format!("license=GPL\0depends={depends}\0name=x\0"));
        let mut elf = vec![0; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let places = [(0, 0, 0), (0, 64, names.len()), (1, 64 + names.len(), info.len())];
        elf.extend(&names);
        elf.extend(info.bytes());
        let table = elf.len() as u64;
        elf[0x28..0x30].copy_from_slice(&table.to_le_bytes());
        elf[0x3a] = 64;
        elf[0x3c] = 3;
        elf[0x3e] = 1;
        for (name, start, length) in places {
            let mut header = [0u8; 64];
            header[0] = name;
            header[0x18..0x20].copy_from_slice(&(start as u64).to_le_bytes());
            header[0x20..0x28].copy_from_slice(&(length as u64).to_le_bytes());
            elf.extend(header);
        }
        elf
    }

    fn tree(modules: &[(&str, &str)], builtin: &str) -> (tempfile::TempDir, Tree) {
        let dir = tempfile::tempdir().unwrap();
        let kernel = dir.path().join("lib/modules/6/kernel");
        fs::create_dir_all(&kernel).unwrap();
        for (name, depends) in modules {
            fs::write(kernel.join(name), module(depends)).unwrap();
        }
        fs::write(dir.path().join("lib/modules/6/modules.builtin"), builtin).unwrap();
        let tree = Tree::read(dir.path()).unwrap();
        (dir, tree)
    }

    fn names(tree: &Tree, wanted: &[&str]) -> Result<Vec<String>, Error> {
        let options = HostOptions::new("s", "c", "a");
        Ok(tree.closure(wanted, Path::new("."), &options)?.into_iter().map(|module| module.name).collect())
    }

    #[test]
    fn dependencies_come_first_and_once() {
        let modules = [("a.ko", "b-x,c"), ("b-x.ko", "c,core"), ("c.ko", ""), ("d.ko", "c")];
        let (_dir, tree) = tree(&modules, "kernel/core.ko\nkernel/veth.ko\n");
        assert_eq!(names(&tree, &["a", "veth", "d"]).unwrap(), ["c", "b_x", "a", "d"]);
    }

    #[test]
    fn what_is_missing_or_circular_is_named() {
        let (_dir, tree) = tree(&[("a.ko", "nowhere"), ("b.ko", "c"), ("c.ko", "b")], "");
        assert!(names(&tree, &["a"]).unwrap_err().to_string().contains("nowhere"));
        assert!(names(&tree, &["b"]).unwrap_err().to_string().contains("depends on itself"));
    }

    #[test]
    fn truncated_files_are_not_modules() {
        let whole = module("a");
        assert!(modinfo(&whole).is_some());
        for length in 0..whole.len() - 64 {
            assert!(modinfo(&whole[..length]).is_none(), "cut at {length}");
        }
    }
}
