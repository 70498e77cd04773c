//! The images of this node.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::archive::{Archive, ArchivedImage};
use super::digest::Digest;
use super::error::{Error, IoContext};
use super::layer;
use super::model::{Document, ImageSummary, PreparedImage, PullPolicy, RegistryAuth};
use super::options::ImageOptions;
use super::reference::Reference;
use super::registry::Registry;

/// The store. Cheap to clone; all clones are one store.
#[derive(Clone)]
pub struct Images {
    inner: Arc<Inner>,
}

struct Inner {
    directory: PathBuf,
    options: ImageOptions,
    registry: Registry,
    index: Mutex<Index>,
    /// Held while images are added or removed, so that a layer is unpacked once.
    changes: tokio::sync::Mutex<()>,
    temporary: AtomicU64,
}

#[derive(Default)]
struct Index {
    images: BTreeMap<Digest, Stored>,
    /// From every name, with tag or digest, to the image.
    names: BTreeMap<String, Digest>,
    layers: HashMap<Digest, Layer>,
}

struct Stored {
    document: Document,
    repo_digest: Option<String>,
    /// Each layer together with those below it.
    chain: Vec<Digest>,
}

#[derive(Clone)]
struct Layer {
    path: PathBuf,
    size: u64,
}

impl Images {
    /// Opens an empty store. What an earlier one left in the directory is removed: a node's images
    /// last as long as its machine.
    pub fn open(directory: &Path, options: ImageOptions) -> Result<Self, Error> {
        let layers = directory.join("layers");
        match fs::remove_dir_all(&layers) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).context("clear the image store")?,
            _ => {}
        }
        fs::create_dir_all(&layers).context("make the image store")?;
        fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .context("make the image store")?;
        let registry = Registry::new(options.clone())?;
        let inner = Inner {
            directory: layers,
            options,
            registry,
            index: Mutex::default(),
            changes: tokio::sync::Mutex::default(),
            temporary: AtomicU64::new(0),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Adds every image of an archive: a tar of an OCI layout or what `docker save` writes, in a file
    /// or on a device that may be longer.
    pub async fn import_archive(&self, file: File) -> Result<Vec<ImageSummary>, Error> {
        let _changes = self.inner.changes.lock().await;
        let images = self.clone();
        blocking(move || {
            let archive = Archive::open(file, &images.inner.options)?;
            let mut imported = BTreeSet::new();
            for image in archive.images(&images.inner.options)? {
                imported.insert(image.id.clone());
                images.import(&archive, image)?;
            }
            let index = images.index();
            Ok(imported.iter().filter_map(|id| index.summary(id)).collect())
        })
        .await
    }

    /// The image of this name, pulled if the policy says so.
    pub async fn ensure(
        &self,
        reference: &str,
        policy: PullPolicy,
        auth: Option<&RegistryAuth>,
    ) -> Result<PreparedImage, Error> {
        if policy != PullPolicy::Always
            && let Some(image) = self.find(reference)
        {
            return Ok(image);
        }
        if policy == PullPolicy::Never {
            return Err(Error::NotPresent(reference.to_owned()));
        }
        let name = Reference::parse(reference, &self.inner.options.default_registry)?;
        let _changes = self.inner.changes.lock().await;
        // Another Pod may have pulled it meanwhile.
        if policy != PullPolicy::Always
            && let Some(image) = self.find(reference)
        {
            return Ok(image);
        }
        self.pull(&name, auth).await
    }

    /// The image of this name or id, if it is in the store.
    pub fn find(&self, reference: &str) -> Option<PreparedImage> {
        let index = self.index();
        let id = match Digest::try_from(reference.to_owned()) {
            Ok(id) => id,
            Err(_) => {
                let name = Reference::parse(reference, &self.inner.options.default_registry).ok()?;
                index.names.get(&name.to_string())?.clone()
            }
        };
        index.prepared(&id)
    }

    /// Every image of the store.
    pub fn images(&self) -> Vec<ImageSummary> {
        let index = self.index();
        index.images.keys().filter_map(|id| index.summary(id)).collect()
    }

    /// Removes an image and the layers that no other has. No container may use it.
    pub async fn remove(&self, id: &str) -> Result<(), Error> {
        let _changes = self.inner.changes.lock().await;
        let id = Digest::try_from(id.to_owned())?;
        let unused: Vec<Layer> = {
            let mut index = self.index();
            index.images.remove(&id);
            index.names.retain(|_, image| *image != id);
            let used: BTreeSet<Digest> = index.images.values().flat_map(|image| image.chain.clone()).collect();
            index.layers.extract_if(|layer, _| !used.contains(layer)).map(|(_, layer)| layer).collect()
        };
        blocking(move || unused.iter().try_for_each(|layer| fs::remove_dir_all(&layer.path)).context("remove a layer"))
            .await
    }

    async fn pull(&self, name: &Reference, auth: Option<&RegistryAuth>) -> Result<PreparedImage, Error> {
        let mut source = self.inner.registry.resolve(name, auth).await?;
        let config = source.config().await?;
        let document: Document = serde_json::from_slice(&config).map_err(Error::malformed)?;
        let id = source.manifest.config.clone();
        let layers = source.manifest.layers.clone();
        if layers.len() != document.rootfs.diff_ids.len() {
            return Err(Error::Malformed("the image has not as many layers as its configuration says".into()));
        }
        let mut chain: Vec<Digest> = Vec::new();
        for (blob, diff_id) in layers.iter().zip(document.rootfs.diff_ids.clone()) {
            let below = chain.clone();
            chain.push(chain_id(chain.last(), &diff_id));
            if self.index().layers.contains_key(&chain[chain.len() - 1]) {
                continue;
            }
            let mut attempt = 0;
            loop {
                let reader = source.blob(blob).await?;
                let (images, below, blob, diff_id) = (self.clone(), below.clone(), blob.clone(), diff_id.clone());
                match blocking(move || images.unpack(reader, &below, &diff_id, Some(&blob))).await {
                    Err(error) if error.is_retryable() && attempt < self.inner.options.retries => {
                        tracing::info!(error = %runtime::error_chain(&error), "transfer of a layer failed, again");
                        attempt += 1;
                    }
                    result => break result?,
                }
            }
        }
        let repo_digest = format!("{}@{}", name.name(), source.manifest.digest);
        let names = vec![name.to_string(), repo_digest.clone()];
        self.add(id.clone(), Stored { document, repo_digest: Some(repo_digest), chain }, names)?;
        self.index().prepared(&id).ok_or_else(|| Error::NotFound { reference: name.to_string() })
    }

    fn import(&self, archive: &Archive, image: ArchivedImage) -> Result<(), Error> {
        let mut chain: Vec<Digest> = Vec::new();
        for ((path, blob), diff_id) in image.layers.iter().zip(&image.document.rootfs.diff_ids) {
            let next = chain_id(chain.last(), diff_id);
            if !self.index().layers.contains_key(&next) {
                self.unpack(archive.content(path)?, &chain, diff_id, blob.as_ref())?;
            }
            chain.push(next);
        }
        let mut names = image.names;
        let repo_digest = image.manifest.and_then(|digest| {
            let name = Reference::parse(names.first()?, &self.inner.options.default_registry).ok()?;
            Some(format!("{}@{digest}", name.name()))
        });
        names.extend(repo_digest.clone());
        self.add(image.id, Stored { document: image.document, repo_digest, chain }, names)
    }

    fn add(&self, id: Digest, image: Stored, names: Vec<String>) -> Result<(), Error> {
        let mut index = self.index();
        if !index.images.contains_key(&id) && index.images.len() >= self.inner.options.max_images {
            return Err(Error::TooLarge("the number of images"));
        }
        index.names.extend(names.into_iter().map(|name| (name, id.clone())));
        index.images.insert(id, image);
        Ok(())
    }

    /// Unpacks a layer above others, checks that it is what it should be, and adds it.
    fn unpack(
        &self,
        blob: impl Read,
        below: &[Digest],
        diff_id: &Digest,
        digest: Option<&Digest>,
    ) -> Result<(), Error> {
        if below.len() >= self.inner.options.max_layers {
            return Err(Error::TooLarge("the number of layers"));
        }
        let missing = || Error::Malformed("a layer below is missing".into());
        let lower: Vec<PathBuf> = {
            let index = self.index();
            let path = |layer| index.layers.get(layer).map(|layer| layer.path.clone()).ok_or_else(missing);
            below.iter().map(path).collect::<Result<_, _>>()?
        };
        let chain = chain_id(below.last(), diff_id);
        let number = self.inner.temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = Temporary(self.inner.directory.join(format!("new-{number}")));
        fs::create_dir(&temporary.0).context("make a layer's directory")?;
        fs::set_permissions(&temporary.0, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .context("make a layer's directory")?;
        let unpacked = layer::unpack(blob, &temporary.0, &lower, &self.inner.options)?;
        for (expected, found) in [(Some(diff_id), unpacked.diff_id), (digest, unpacked.blob)] {
            if let Some(expected) = expected
                && *expected != found
            {
                return Err(Error::Digest { expected: expected.clone(), found });
            }
        }
        let path = self.inner.directory.join(&chain.hex()[..NAME_DIGITS]);
        fs::rename(&temporary.0, &path).context("add a layer")?;
        self.index().layers.insert(chain, Layer { path, size: unpacked.size });
        Ok(())
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        // Changes are made in an order that leaves it whole after each.
        self.inner.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Digits of a layer's name. The names of all layers of an image go to the kernel in one page.
const NAME_DIGITS: usize = 24;

impl Index {
    fn layers(&self, image: &Stored) -> Option<Vec<&Layer>> {
        image.chain.iter().map(|layer| self.layers.get(layer)).collect()
    }

    fn prepared(&self, id: &Digest) -> Option<PreparedImage> {
        let image = self.images.get(id)?;
        let layers = self.layers(image)?;
        Some(PreparedImage {
            id: id.to_string(),
            repo_digest: image.repo_digest.clone(),
            config: image.document.config.clone(),
            size: layers.iter().map(|layer| layer.size).sum(),
            layers: layers.into_iter().map(|layer| layer.path.clone()).collect(),
        })
    }

    fn summary(&self, id: &Digest) -> Option<ImageSummary> {
        let size = self.layers(self.images.get(id)?)?.iter().map(|layer| layer.size).sum();
        let names = self.names.iter().filter(|(_, image)| *image == id).map(|(name, _)| name.clone()).collect();
        Some(ImageSummary { id: id.to_string(), names, size })
    }
}

/// The identity of a layer together with everything below, as the image specification defines it.
fn chain_id(below: Option<&Digest>, diff_id: &Digest) -> Digest {
    match below {
        None => diff_id.clone(),
        Some(below) => Digest::of(format!("{below} {diff_id}").as_bytes()),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other).context("unpack an image")?
}

/// Removed unless it was renamed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
