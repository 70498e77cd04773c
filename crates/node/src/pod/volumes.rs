//! The contents of a Pod's volumes, and how they get onto the disk in one step.

use super::env::{Facts, References, field_value, resource_value};
use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, ServiceAccountTokenProjection, Volume,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

/// One file of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Relative, without `..`.
    pub(crate) path: String,
    pub(crate) data: Vec<u8>,
    pub(crate) mode: u32,
}

/// Where a volume's contents come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// An empty directory that containers write to.
    Empty,
    /// A path of the node.
    Host(PathBuf),
    /// Files that the node writes.
    Files(Vec<File>),
}

/// Tokens by volume and path.
pub(crate) type Tokens = BTreeMap<(String, String), String>;

/// A token that a volume needs: its volume and what it is.
pub(crate) fn tokens(pod: &Pod) -> Vec<(String, ServiceAccountTokenProjection)> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .flat_map(|volume| {
            let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
            sources.filter_map(|source| Some((volume.name.clone(), source.service_account_token.clone()?)))
        })
        .collect()
}

/// The ConfigMaps (`false`) and Secrets (`true`) that volumes need.
pub(crate) fn needs(pod: &Pod) -> Vec<(bool, String)> {
    let mut names = Vec::new();
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        names.extend(volume.config_map.iter().map(|source| (false, source.name.clone())));
        names.extend(volume.secret.iter().filter_map(|source| Some((true, source.secret_name.clone()?))));
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            names.extend(source.config_map.iter().map(|source| (false, source.name.clone())));
            names.extend(source.secret.iter().map(|source| (true, source.name.clone())));
        }
    }
    names
}

/// Whether a volume's files may change while the Pod runs.
pub(crate) fn changes(pod: &Pod) -> bool {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).any(|volume| {
        volume.config_map.is_some()
            || volume.secret.is_some()
            || volume.projected.is_some()
            || volume.downward_api.is_some()
    })
}

/// What a volume holds, or why that cannot be said.
pub(crate) fn content(
    pod: &Pod,
    volume: &Volume,
    references: &References,
    tokens: &Tokens,
    facts: &Facts,
) -> Result<Content, String> {
    const DEFAULT_MODE: i32 = 0o644;
    if let Some(source) = &volume.config_map {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let found = references.config_maps.get(&source.name).and_then(Option::as_ref);
        return config_map_files(found, &source.name, source.items.as_deref(), source.optional, mode)
            .map(Content::Files);
    }
    if let Some(source) = &volume.secret {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let name = source.secret_name.as_deref().unwrap_or_default();
        let found = references.secrets.get(name).and_then(Option::as_ref);
        return secret_files(found, name, source.items.as_deref(), source.optional, mode).map(Content::Files);
    }
    if let Some(source) = &volume.downward_api {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        return downward_files(pod, source.items.as_deref().unwrap_or_default(), mode, facts).map(Content::Files);
    }
    if let Some(projected) = &volume.projected {
        let mode = projected.default_mode.unwrap_or(DEFAULT_MODE);
        let mut files = Vec::new();
        for source in projected.sources.iter().flatten() {
            if let Some(source) = &source.config_map {
                let found = references.config_maps.get(&source.name).and_then(Option::as_ref);
                files.extend(config_map_files(found, &source.name, source.items.as_deref(), source.optional, mode)?);
            }
            if let Some(source) = &source.secret {
                let found = references.secrets.get(&source.name).and_then(Option::as_ref);
                files.extend(secret_files(found, &source.name, source.items.as_deref(), source.optional, mode)?);
            }
            if let Some(source) = &source.downward_api {
                files.extend(downward_files(pod, source.items.as_deref().unwrap_or_default(), mode, facts)?);
            }
            if let Some(source) = &source.service_account_token {
                let token = tokens
                    .get(&(volume.name.clone(), source.path.clone()))
                    .ok_or_else(|| "failed to fetch token".to_owned())?;
                files.push(file(&source.path, token.clone().into_bytes(), mode)?);
            }
        }
        return Ok(Content::Files(files));
    }
    if let Some(host) = &volume.host_path {
        return Ok(Content::Host(host.path.clone().into()));
    }
    if volume.empty_dir.is_some() {
        return Ok(Content::Empty);
    }
    Err(format!("volume {:?} is of a kind that this node does not support", volume.name))
}

fn file(path: &str, data: Vec<u8>, mode: i32) -> Result<File, String> {
    if !is_inner(Path::new(path)) {
        return Err(format!("{path:?} is not a path inside a volume"));
    }
    Ok(File { path: path.to_owned(), data, mode: u32::try_from(mode).unwrap_or(0o644) & 0o777 })
}

/// Whether a path leads down only.
pub(crate) fn is_inner(path: &Path) -> bool {
    path.components().next().is_some() && path.components().all(|part| matches!(part, Component::Normal(_)))
}

fn keys(
    all: BTreeMap<String, Vec<u8>>,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
    mode: i32,
) -> Result<Vec<File>, String> {
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return all.into_iter().map(|(key, data)| file(&key, data, mode)).collect();
    };
    let mut files = Vec::new();
    for item in items {
        match all.get(&item.key) {
            Some(data) => files.push(file(&item.path, data.clone(), item.mode.unwrap_or(mode))?),
            None if optional == Some(true) => {}
            None => return Err(format!("references non-existent config key: {}", item.key)),
        }
    }
    Ok(files)
}

fn config_map_files(
    map: Option<&ConfigMap>,
    name: &str,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
    mode: i32,
) -> Result<Vec<File>, String> {
    let Some(map) = map else {
        return if optional == Some(true) { Ok(Vec::new()) } else { Err(format!("configmap {name:?} not found")) };
    };
    let text = map.data.iter().flatten().map(|(key, value)| (key.clone(), value.clone().into_bytes()));
    let binary = map.binary_data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone()));
    keys(text.chain(binary).collect(), items, optional, mode)
}

fn secret_files(
    secret: Option<&Secret>,
    name: &str,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
    mode: i32,
) -> Result<Vec<File>, String> {
    let Some(secret) = secret else {
        return if optional == Some(true) { Ok(Vec::new()) } else { Err(format!("secret {name:?} not found")) };
    };
    let all = secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect();
    keys(all, items, optional, mode)
}

fn downward_files(pod: &Pod, items: &[DownwardAPIVolumeFile], mode: i32, facts: &Facts) -> Result<Vec<File>, String> {
    items
        .iter()
        .map(|item| {
            let value = match (&item.field_ref, &item.resource_field_ref) {
                (Some(field), _) => field_value(pod, field, facts)?,
                (None, Some(field)) => resource_value(pod, None, field, facts)?,
                (None, None) => String::new(),
            };
            file(&item.path, value.into_bytes(), item.mode.unwrap_or(mode))
        })
        .collect()
}

/// Makes a volume's directory what its content says. Files change all at once: they are links into
/// a directory that is replaced by one rename. Blocking.
pub(crate) fn write(dir: &Path, content: &Content, group: Option<u32>) -> io::Result<()> {
    match content {
        Content::Host(path) => {
            if !path.exists() {
                fs::create_dir_all(path)?;
            }
            Ok(())
        }
        Content::Empty => {
            fs::create_dir_all(dir)?;
            // A volume is everybody's, and files in it belong to the Pod's group.
            chown(dir, None, group)?;
            fs::set_permissions(dir, fs::Permissions::from_mode(if group.is_some() { 0o2777 } else { 0o777 }))
        }
        Content::Files(files) => write_files(dir, files, group),
    }
}

fn write_files(dir: &Path, files: &[File], group: Option<u32>) -> io::Result<()> {
    const CURRENT: &str = "..data";
    fs::create_dir_all(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
    let current = fs::read_link(dir.join(CURRENT)).ok();
    if current.is_some()
        && files.iter().all(|file| fs::read(dir.join(CURRENT).join(&file.path)).ok().as_ref() == Some(&file.data))
        && count(&dir.join(CURRENT))? == files.len()
    {
        return Ok(());
    }
    let number: u64 =
        current.as_deref().and_then(Path::to_str).and_then(|name| name.strip_prefix("..")?.parse().ok()).unwrap_or(0);
    let next = format!("..{}", number.wrapping_add(1));
    let fresh = dir.join(&next);
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    fs::create_dir(&fresh)?;
    let mut roots = BTreeSet::new();
    for file in files {
        let path = fresh.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.data)?;
        let mode = if group.is_some() { file.mode | 0o440 } else { file.mode };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        chown(&path, None, group)?;
        if let Some(Component::Normal(root)) = Path::new(&file.path).components().next() {
            roots.insert(root.to_owned());
        }
    }
    let temporary = dir.join("..data_tmp");
    let _ = fs::remove_file(&temporary);
    symlink(&next, &temporary)?;
    fs::rename(&temporary, dir.join(CURRENT))?;
    for root in &roots {
        let link = dir.join(root);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(CURRENT).join(root), &link)?;
        }
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with("..") && !roots.contains(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    if let Some(old) = current {
        fs::remove_dir_all(dir.join(old))?;
    }
    Ok(())
}

fn count(dir: &Path) -> io::Result<usize> {
    let mut total = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        total += if entry.file_type()?.is_dir() { count(&entry.path())? } else { 1 };
    }
    Ok(total)
}

/// The part of a volume that a mount asks for; it is made if it is not there, and is never outside
/// the volume. Blocking.
pub(crate) fn sub_path(volume: &Path, sub: &str) -> Result<PathBuf, String> {
    if sub.is_empty() {
        return Ok(volume.to_owned());
    }
    if !is_inner(Path::new(sub)) {
        return Err(format!("{sub:?} is not a path inside a volume"));
    }
    let failed = |error: io::Error| format!("cannot use subPath {sub:?}: {error}");
    let path = volume.join(sub);
    if fs::symlink_metadata(&path).is_err() {
        fs::create_dir_all(&path).map_err(failed)?;
    }
    let real = path.canonicalize().map_err(failed)?;
    if !real.starts_with(volume.canonicalize().map_err(failed)?) {
        return Err(format!("subPath {sub:?} leads out of its volume"));
    }
    Ok(real)
}
