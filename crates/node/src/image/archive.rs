//! Reads images out of an archive, a tar of an OCI layout or what `docker save` writes. It is read
//! in place, from a file or a raw device with zeros behind, so that no second copy is made.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use serde::de::DeserializeOwned;

use super::digest::Digest;
use super::error::{Error, IoContext};
use super::model::{Descriptor, Document, ManifestOrIndex, SavedImage, select};
use super::options::ImageOptions;
use super::reference::Reference;

/// An archive and where its files are.
pub(super) struct Archive {
    file: File,
    entries: HashMap<PathBuf, Location>,
    max_document: u64,
}

#[derive(Clone)]
enum Location {
    Content { offset: u64, size: u64 },
    Link(PathBuf),
}

/// An image of an archive.
#[derive(Debug)]
pub(super) struct ArchivedImage {
    pub(super) names: Vec<String>,
    pub(super) manifest: Option<Digest>,
    pub(super) id: Digest,
    pub(super) document: Document,
    /// For each layer its file, and the digest of the file if it is known.
    pub(super) layers: Vec<(PathBuf, Option<Digest>)>,
}

impl Archive {
    /// Finds the files; their content stays where it is.
    pub(super) fn open(mut file: File, options: &ImageOptions) -> Result<Self, Error> {
        file.seek(SeekFrom::Start(0)).context("read the archive")?;
        let mut entries = HashMap::new();
        let mut archive = tar::Archive::new(file);
        for entry in archive.entries_with_seek().context("read the archive")? {
            let entry = entry.context("read the archive")?;
            if entries.len() >= options.max_archive_entries {
                return Err(Error::TooLarge("the number of the archive's files"));
            }
            let path = normal(&entry.path().context("read the archive")?);
            let kind = entry.header().entry_type();
            if kind.is_file() {
                entries.insert(path, Location::Content { offset: entry.raw_file_position(), size: entry.size() });
            } else if let (true, Some(target)) =
                (kind.is_symlink() || kind.is_hard_link(), entry.link_name().context("read the archive")?)
            {
                // `docker save` links equal layers: symbolic links relative to their directory.
                let base = if kind.is_symlink() { path.parent().unwrap_or(Path::new("")) } else { Path::new("") };
                entries.insert(path.clone(), Location::Link(normal(&base.join(target))));
            }
        }
        Ok(Self { file: archive.into_inner(), entries, max_document: options.max_document_bytes })
    }

    /// The images of the archive, whose layers are not yet looked at.
    pub(super) fn images(&self, options: &ImageOptions) -> Result<Vec<ArchivedImage>, Error> {
        let images = if self.entries.contains_key(Path::new("manifest.json")) {
            self.saved(options)?
        } else if self.entries.contains_key(Path::new("index.json")) {
            self.layout(options)?
        } else {
            return Err(Error::Malformed("the archive has neither index.json nor manifest.json".into()));
        };
        match images.iter().all(|image| image.layers.len() == image.document.rootfs.diff_ids.len()) {
            true => Ok(images),
            false => Err(Error::Malformed("an image has not as many layers as its configuration says".into())),
        }
    }

    /// The content of a file.
    pub(super) fn content(&self, path: &Path) -> Result<impl Read + use<>, Error> {
        let (offset, size) = self.locate(path)?;
        let file = self.file.try_clone().context("read the archive")?;
        Ok(At { file, offset }.take(size))
    }

    fn locate(&self, path: &Path) -> Result<(u64, u64), Error> {
        let missing = || Error::Malformed(format!("the archive has no {}", path.display()));
        match self.entries.get(path).ok_or_else(missing)? {
            Location::Content { offset, size } => Ok((*offset, *size)),
            Location::Link(target) => match self.entries.get(target).ok_or_else(missing)? {
                Location::Content { offset, size } => Ok((*offset, *size)),
                Location::Link(_) => Err(missing()),
            },
        }
    }

    fn bytes(&self, path: &Path) -> Result<Vec<u8>, Error> {
        if self.locate(path)?.1 > self.max_document {
            return Err(Error::TooLarge("a document of the archive"));
        }
        let mut bytes = Vec::new();
        self.content(path)?.read_to_end(&mut bytes).context("read the archive")?;
        Ok(bytes)
    }

    fn json<T: DeserializeOwned>(&self, path: &Path) -> Result<T, Error> {
        serde_json::from_slice(&self.bytes(path)?).map_err(Error::malformed)
    }

    fn blob(&self, digest: &Digest) -> Result<Vec<u8>, Error> {
        let bytes = self.bytes(&blob_path(digest))?;
        verify(digest, &bytes)?;
        Ok(bytes)
    }

    fn saved(&self, options: &ImageOptions) -> Result<Vec<ArchivedImage>, Error> {
        let saved: Vec<SavedImage> = self.json(Path::new("manifest.json"))?;
        if saved.len() > options.max_images {
            return Err(Error::TooLarge("the number of the archive's images"));
        }
        let image = |saved: SavedImage| {
            let path = normal(Path::new(&saved.config));
            let config = self.bytes(&path)?;
            let id = Digest::of(&config);
            // The file is called after its digest, in one of two ways.
            if let Some(expected) = path.file_stem().and_then(|stem| Digest::from_hex(stem.to_str()?).ok()) {
                verify(&expected, &config)?;
            }
            Ok(ArchivedImage {
                names: names(saved.repo_tags, options),
                manifest: None,
                id,
                document: serde_json::from_slice(&config).map_err(Error::malformed)?,
                layers: saved.layers.iter().map(|layer| (normal(Path::new(layer)), None)).collect(),
            })
        };
        saved.into_iter().map(image).collect()
    }

    fn layout(&self, options: &ImageOptions) -> Result<Vec<ArchivedImage>, Error> {
        let index: ManifestOrIndex = self.json(Path::new("index.json"))?;
        let descriptors = index.manifests.unwrap_or_default();
        if descriptors.len() > options.max_images {
            return Err(Error::TooLarge("the number of the archive's images"));
        }
        // One image may have several names, each with its own descriptor.
        let mut images: BTreeMap<Digest, ArchivedImage> = BTreeMap::new();
        for descriptor in descriptors {
            let names = names(layout_names(&descriptor), options);
            match images.get_mut(&descriptor.digest) {
                Some(image) => image.names.extend(names),
                None => {
                    let image = self.layout_image(&descriptor, names)?;
                    images.insert(descriptor.digest, image);
                }
            }
        }
        Ok(images.into_values().collect())
    }

    fn layout_image(&self, descriptor: &Descriptor, names: Vec<String>) -> Result<ArchivedImage, Error> {
        let mut digest = descriptor.digest.clone();
        let mut manifest: ManifestOrIndex = serde_json::from_slice(&self.blob(&digest)?).map_err(Error::malformed)?;
        if let Some(manifests) = &manifest.manifests {
            let chosen = select(manifests).ok_or_else(|| Error::Malformed("no image for this machine".into()))?;
            digest = chosen.digest.clone();
            manifest = serde_json::from_slice(&self.blob(&digest)?).map_err(Error::malformed)?;
        }
        let config = manifest.config.ok_or_else(|| Error::Malformed("a manifest without configuration".into()))?;
        let layers = manifest.layers.unwrap_or_default();
        Ok(ArchivedImage {
            names,
            manifest: Some(digest),
            document: serde_json::from_slice(&self.blob(&config.digest)?).map_err(Error::malformed)?,
            id: config.digest,
            layers: layers.into_iter().map(|layer| (blob_path(&layer.digest), Some(layer.digest))).collect(),
        })
    }
}

/// Fails if the bytes have another digest.
pub(super) fn verify(expected: &Digest, bytes: &[u8]) -> Result<(), Error> {
    match Digest::of(bytes) {
        found if found == *expected => Ok(()),
        found => Err(Error::Digest { expected: expected.clone(), found }),
    }
}

/// Full names, of an index' annotations; one that is only a tag is not a name.
fn layout_names(descriptor: &Descriptor) -> Vec<String> {
    let annotation = |name: &str| descriptor.annotations.get(name).cloned();
    annotation("io.containerd.image.name")
        .or_else(|| annotation("org.opencontainers.image.ref.name").filter(|name| name.contains(['/', ':'])))
        .into_iter()
        .collect()
}

fn names(names: Vec<String>, options: &ImageOptions) -> Vec<String> {
    let full = |name: String| Reference::parse(&name, &options.default_registry).ok().map(|name| name.to_string());
    names.into_iter().filter_map(full).collect()
}

fn blob_path(digest: &Digest) -> PathBuf {
    Path::new("blobs").join("sha256").join(digest.hex())
}

/// The path with `.` and `..` resolved; it is only a key, never a path on this machine.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            _ => {}
        }
    }
    normal
}

/// Reads from an offset, without moving the file's own.
struct At {
    file: File,
    offset: u64,
}

impl Read for At {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = std::os::unix::fs::FileExt::read_at(&self.file, buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}
