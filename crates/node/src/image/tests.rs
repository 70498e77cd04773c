//! Layers, archives and names, on real directories.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::digest::Digest;
use super::error::Error;
use super::layer::unpack;
use super::reference::Reference;
use super::{ImageOptions, Images, PullPolicy};

/// Writes tar archives, also malformed ones.
pub(super) struct Tar(tar::Builder<Vec<u8>>);

impl Tar {
    pub(super) fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn header(kind: tar::EntryType, path: &str, mode: u32, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        header.set_mtime(1_700_000_000);
        let (uid, gid) = Self::owner();
        header.set_uid(uid);
        header.set_gid(gid);
        // Not `set_path`, which refuses what an attacker would write.
        let name = &mut header.as_gnu_mut().expect("made as such").name;
        name[..path.len()].copy_from_slice(path.as_bytes());
        header
    }

    /// Whoever runs the test; only root may give files away.
    fn owner() -> (u64, u64) {
        let metadata = fs::metadata("/proc/self").unwrap();
        (metadata.uid().into(), metadata.gid().into())
    }

    pub(super) fn file(mut self, path: &str, content: &[u8]) -> Self {
        let mut header = Self::header(tar::EntryType::Regular, path, 0o644, content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    pub(super) fn directory(mut self, path: &str, mode: u32) -> Self {
        let mut header = Self::header(tar::EntryType::Directory, path, mode, 0);
        header.set_cksum();
        self.0.append(&header, &[][..]).unwrap();
        self
    }

    pub(super) fn link(mut self, kind: tar::EntryType, path: &str, target: &str) -> Self {
        let mut header = Self::header(kind, path, 0o777, 0);
        header.as_gnu_mut().expect("made as such").linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        self.0.append(&header, &[][..]).unwrap();
        self
    }

    pub(super) fn done(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

struct Layers {
    root: tempfile::TempDir,
    paths: Vec<PathBuf>,
}

impl Layers {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), paths: Vec::new() }
    }

    fn add(&mut self, archive: &[u8]) -> Result<PathBuf, Error> {
        let path = self.root.path().join(self.paths.len().to_string());
        fs::create_dir(&path).unwrap();
        unpack(archive, &path, &self.paths, &ImageOptions::default())?;
        self.paths.push(path.clone());
        Ok(path)
    }
}

fn is_root() -> bool {
    Tar::owner().0 == 0
}

#[test]
fn files_links_and_modes_are_unpacked_and_digests_told() {
    let archive = Tar::new()
        .directory("etc/", 0o711)
        .file("./etc/motd", b"hello")
        .link(tar::EntryType::Link, "etc/again", "etc/motd")
        .link(tar::EntryType::Symlink, "etc/link", "/etc/motd")
        .file("deep/down/file", b"x")
        .file("etc/motd2", b"first")
        .file("etc/motd2", b"second")
        .done();
    for packed in [archive.clone(), gzip(&archive)] {
        let directory = tempfile::tempdir().unwrap();
        let unpacked = unpack(&packed[..], directory.path(), &[], &ImageOptions::default()).unwrap();
        assert_eq!(unpacked.blob, Digest::of(&packed));
        assert_eq!(unpacked.diff_id, Digest::of(&archive));
        assert_eq!(unpacked.size, 5 + 1 + 5 + 6);
        let at = |path: &str| directory.path().join(path);
        assert_eq!(fs::read(at("etc/motd")).unwrap(), b"hello");
        assert_eq!(fs::read(at("etc/motd2")).unwrap(), b"second");
        assert_eq!(fs::metadata(at("etc/motd")).unwrap().ino(), fs::metadata(at("etc/again")).unwrap().ino());
        assert_eq!(fs::metadata(at("etc/motd")).unwrap().mtime(), 1_700_000_000);
        assert_eq!(fs::metadata(at("etc")).unwrap().mode() & 0o7777, 0o711);
        assert_eq!(fs::read_link(at("etc/link")).unwrap(), Path::new("/etc/motd"));
        assert_eq!(fs::metadata(at("deep/down")).unwrap().mode() & 0o7777, 0o755);
    }
}

#[test]
fn nothing_is_written_outside_of_the_layer() {
    let outside = tempfile::tempdir().unwrap();
    let outside_path = outside.path().to_str().unwrap();
    let up = Tar::new().file("../escaped", b"x").done();
    let up_link = Tar::new().link(tar::EntryType::Link, "passwd", "../../etc/passwd").done();
    for archive in [up, up_link] {
        let error = Layers::new().add(&archive).unwrap_err();
        assert!(matches!(error, Error::Malformed(_)), "{error:?}");
    }
    // Absolute paths and links are taken within the layer.
    let mut layers = Layers::new();
    let archive = Tar::new()
        .file("/absolute", b"x")
        .link(tar::EntryType::Symlink, "out", outside_path)
        .file("out/file", b"x")
        .link(tar::EntryType::Symlink, "dots", "../../../../..")
        .file("dots/under", b"x")
        .done();
    let path = layers.add(&archive).unwrap();
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    assert!(path.join("absolute").exists());
    assert!(path.join("under").exists());
    assert!(path.join(outside_path.trim_start_matches('/')).join("file").exists());
    // A hard link to a link does not follow it either.
    fs::write(outside.path().join("secret"), b"s").unwrap();
    let archive = Tar::new()
        .link(tar::EntryType::Symlink, "way", &format!("{outside_path}/secret"))
        .link(tar::EntryType::Link, "stolen", "way")
        .done();
    let path = layers.add(&archive).unwrap();
    assert!(fs::symlink_metadata(path.join("stolen")).unwrap().is_symlink());
    // Links that lead in a circle end.
    let circle = Tar::new()
        .link(tar::EntryType::Symlink, "a", "b")
        .link(tar::EntryType::Symlink, "b", "a")
        .file("a/file", b"x")
        .done();
    assert!(layers.add(&circle).is_err());
}

#[test]
fn directories_left_out_are_those_of_the_layers_below() {
    let mut layers = Layers::new();
    let below = Tar::new()
        .directory("tmp/", 0o1777)
        .directory("usr/", 0o755)
        .directory("usr/lib/", 0o750)
        .link(tar::EntryType::Symlink, "lib", "usr/lib")
        .done();
    layers.add(&below).unwrap();
    let path = layers.add(&Tar::new().file("tmp/file", b"x").file("lib/file", b"x").done()).unwrap();
    assert_eq!(fs::metadata(path.join("tmp")).unwrap().mode() & 0o7777, 0o1777);
    assert_eq!(fs::read_link(path.join("lib")).unwrap(), Path::new("usr/lib"));
    assert!(path.join("usr/lib/file").exists());
    assert_eq!(fs::metadata(path.join("usr/lib")).unwrap().mode() & 0o7777, 0o750);
}

#[test]
fn removals_become_the_kernels() {
    if !is_root() {
        return; // making them takes root, as on a node
    }
    let mut layers = Layers::new();
    layers.add(&Tar::new().file("a", b"1").file("dir/old", b"1").file("gone/file", b"1").done()).unwrap();
    let archive = Tar::new()
        .file(".wh.a", b"")
        .file("dir/.wh..wh..opq", b"")
        .file("dir/new", b"2")
        .file(".wh.gone", b"")
        .directory("gone/", 0o755)
        .file("gone/other", b"2")
        .file(".wh..wh.plnk", b"")
        .done();
    let path = layers.add(&archive).unwrap();
    let whiteout = fs::symlink_metadata(path.join("a")).unwrap();
    assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
    for opaque in ["dir", "gone"] {
        let mut value = [0; 8];
        let count = rustix::fs::getxattr(path.join(opaque), "trusted.overlay.opaque", &mut value).unwrap();
        assert_eq!(&value[..count], b"y", "{opaque}");
    }
    assert!(!path.join(".wh..wh.plnk").exists());
    // As the kernel sees it, with one more layer that brings a file back.
    layers.add(&Tar::new().file("a", b"3").done()).unwrap();
    let view = View::mount(&layers);
    assert_eq!(fs::read(view.path().join("a")).unwrap(), b"3");
    let names = |directory: &str| {
        let entries = fs::read_dir(view.path().join(directory)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names("dir"), ["new"]);
    assert_eq!(names("gone"), ["other"]);
}

struct View(tempfile::TempDir);

impl View {
    fn mount(layers: &Layers) -> Self {
        let view = tempfile::tempdir().unwrap();
        let lower: Vec<_> = layers.paths.iter().rev().map(|path| path.to_str().unwrap()).collect();
        let options = std::ffi::CString::new(format!("lowerdir={}", lower.join(":"))).unwrap();
        let flags = rustix::mount::MountFlags::RDONLY;
        rustix::mount::mount("overlay", view.path(), "overlay", flags, options.as_c_str()).unwrap();
        Self(view)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn sizes_and_counts_are_bounded() {
    let archive = Tar::new().file("a", &[0; 5000]).file("b", b"x").done();
    let try_with = |options: &ImageOptions, packed: &[u8]| {
        let directory = tempfile::tempdir().unwrap();
        unpack(packed, directory.path(), &[], options).err()
    };
    let bounded = |change: fn(&mut ImageOptions)| {
        let mut options = ImageOptions::default();
        change(&mut options);
        options
    };
    assert!(matches!(try_with(&bounded(|o| o.max_unpacked_bytes = 4000), &archive), Some(Error::TooLarge(_))));
    assert!(matches!(try_with(&bounded(|o| o.max_layer_entries = 1), &archive), Some(Error::TooLarge(_))));
    assert!(matches!(try_with(&bounded(|o| o.max_layer_bytes = 4000), &archive), Some(Error::Io { .. })));
    // A small layer that unpacks to much, here of a name alone.
    let mut long = tar::Header::new_gnu();
    long.set_entry_type(tar::EntryType::GNULongName);
    long.set_size(64 << 20);
    long.set_mode(0);
    long.set_cksum();
    let mut bomb = long.as_bytes().to_vec();
    bomb.resize(bomb.len() + (64 << 20), b'a');
    assert!(try_with(&bounded(|o| o.max_unpacked_bytes = 1 << 20), &gzip(&bomb)).is_some());
    assert!(matches!(try_with(&ImageOptions::default(), &[0x28, 0xb5, 0x2f, 0xfd]), Some(Error::Malformed(_))));
    let packed = gzip(&archive);
    assert!(try_with(&ImageOptions::default(), &packed[..packed.len() / 2]).is_some());
}

#[test]
fn names_are_completed_and_checked() {
    let full = |text: &str| Reference::parse(text, "docker.io").map(|name| name.to_string()).ok();
    let digest = format!("sha256:{}", "a".repeat(64));
    assert_eq!(full("busybox").as_deref(), Some("docker.io/library/busybox:latest"));
    assert_eq!(full("team/app:1.2").as_deref(), Some("docker.io/team/app:1.2"));
    assert_eq!(full("localhost:5000/app").as_deref(), Some("localhost:5000/app:latest"));
    assert_eq!(full("registry.k8s.io/pause:3.9").as_deref(), Some("registry.k8s.io/pause:3.9"));
    let with_digest = format!("app:1@{digest}");
    assert_eq!(full(&with_digest), Some(format!("docker.io/library/app@{digest}")));
    let long = "a".repeat(300);
    let bad = ["", "UPPER", "a//b", "../etc", "a:", "a:b c", "a@sha256:12", "h:99999/a", "a/../b", ".a", &long];
    for text in bad {
        assert_eq!(full(text), None, "{text:?}");
    }
}

#[test]
fn digests_are_exactly_of_one_form() {
    let good = Digest::of(b"");
    assert_eq!(good.as_str(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    for bad in ["", "sha256:", "md5:00", "sha256:../../../x", &good.as_str().to_uppercase()] {
        assert!(Digest::try_from(bad.to_owned()).is_err(), "{bad}");
    }
}

/// Documents of an image with these layers, uncompressed: configuration and manifest.
pub(super) fn documents(layers: &[Vec<u8>], blobs: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
    let diff_ids: Vec<_> = layers.iter().map(|layer| Digest::of(layer)).collect();
    let config = json!({
        "architecture": super::model::ARCHITECTURE, "os": "linux",
        "config": { "Entrypoint": ["/bin/app"], "Cmd": null, "Env": ["A=b"], "User": "web" },
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
    });
    let config = config.to_string().into_bytes();
    let descriptor = |bytes: &[u8]| json!({ "digest": Digest::of(bytes), "size": bytes.len() });
    let layers: Vec<_> = blobs.iter().map(|blob| descriptor(blob)).collect();
    let manifest = json!({ "schemaVersion": 2, "config": descriptor(&config), "layers": layers });
    (config, manifest.to_string().into_bytes())
}

fn archive_file(archive: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(archive).unwrap();
    // A device is longer than what was written to it.
    file.write_all(&[0; 8192]).unwrap();
    file
}

fn blob(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

#[tokio::test]
async fn an_oci_layout_is_imported_with_its_names() {
    let layers = vec![Tar::new().file("a", b"1").done(), Tar::new().file("b", b"2").done()];
    let blobs = vec![gzip(&layers[0]), layers[1].clone()];
    let (config, manifest) = documents(&layers, &blobs);
    let entry = |name: &str| {
        json!({ "digest": Digest::of(&manifest), "size": manifest.len(),
            "annotations": { "org.opencontainers.image.ref.name": name } })
    };
    let index = json!({ "schemaVersion": 2, "manifests": [entry("example.org/app:1"), entry("example.org/app:2")] });
    // The index is last, after what it names.
    let mut archive = Tar::new().file("oci-layout", b"{}");
    for content in blobs.iter().chain([&config, &manifest]) {
        archive = archive.file(&blob(&Digest::of(content)), content);
    }
    let archive = archive.file("index.json", index.to_string().as_bytes()).done();
    let directory = tempfile::tempdir().unwrap();
    let images = Images::open(directory.path(), ImageOptions::default()).unwrap();
    let imported = images.import_archive(archive_file(&archive)).await.unwrap();
    assert_eq!(imported.len(), 1);
    assert_eq!(imported, images.images());
    let manifest_name = format!("example.org/app@{}", Digest::of(&manifest));
    assert_eq!(imported[0].names, ["example.org/app:1", "example.org/app:2", &manifest_name]);
    let image = images.ensure("example.org/app:2", PullPolicy::Never, None).await.unwrap();
    assert_eq!(image.id, Digest::of(&config).to_string());
    assert_eq!(image.repo_digest.as_deref(), Some(manifest_name.as_str()));
    assert_eq!((image.config.entrypoint.len(), image.config.cmd.len(), image.config.user.as_str()), (1, 0, "web"));
    assert_eq!(fs::read(image.layers[0].join("a")).unwrap(), b"1");
    assert_eq!(fs::read(image.layers[1].join("b")).unwrap(), b"2");
    assert!(images.find(&image.id).is_some() && images.find(&manifest_name).is_some());
    let missing = images.ensure("example.org/app:3", PullPolicy::Never, None).await;
    assert!(matches!(missing, Err(Error::NotPresent(_))));
    // Once more changes nothing, and removal takes the layers along.
    images.import_archive(archive_file(&archive)).await.unwrap();
    assert_eq!(fs::read_dir(directory.path().join("layers")).unwrap().count(), 2);
    images.remove(&image.id).await.unwrap();
    assert!(images.images().is_empty());
    assert_eq!(fs::read_dir(directory.path().join("layers")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_saved_archive_is_imported_and_shares_layers() {
    let layer = Tar::new().file("a", b"1").done();
    let (config, _) = documents(std::slice::from_ref(&layer), &[]);
    let config_name = format!("{}.json", Digest::of(&config).hex());
    let saved = json!([
        { "Config": config_name, "RepoTags": ["app:1"], "Layers": ["one/layer.tar"] },
        { "Config": config_name, "RepoTags": null, "Layers": ["two/layer.tar"] },
    ]);
    let archive = Tar::new()
        .file("one/layer.tar", &layer)
        .link(tar::EntryType::Symlink, "two/layer.tar", "../one/layer.tar")
        .file(&config_name, &config)
        .file("manifest.json", saved.to_string().as_bytes())
        .done();
    let directory = tempfile::tempdir().unwrap();
    let images = Images::open(directory.path(), ImageOptions::default()).unwrap();
    images.import_archive(archive_file(&archive)).await.unwrap();
    let image = images.ensure("app:1", PullPolicy::IfNotPresent, None).await.unwrap();
    assert_eq!(fs::read(image.layers[0].join("a")).unwrap(), b"1");
    assert_eq!(fs::read_dir(directory.path().join("layers")).unwrap().count(), 1);
}

#[tokio::test]
async fn an_archive_with_changed_content_is_refused_and_leaves_nothing() {
    let layer = Tar::new().file("a", b"1").done();
    let other = Tar::new().file("a", b"2").done();
    let (config, _) = documents(std::slice::from_ref(&layer), &[]);
    let saved =
        |config: &str| json!([{ "Config": config, "RepoTags": ["app:1"], "Layers": ["layer.tar"] }]).to_string();
    let right = format!("{}.json", Digest::of(&config).hex());
    let wrong = format!("{}.json", Digest::of(b"other").hex());
    let changed_layer =
        Tar::new().file("layer.tar", &other).file(&right, &config).file("manifest.json", saved(&right).as_bytes());
    let changed_config =
        Tar::new().file("layer.tar", &layer).file(&wrong, &config).file("manifest.json", saved(&wrong).as_bytes());
    for archive in [changed_layer.done(), changed_config.done()] {
        let directory = tempfile::tempdir().unwrap();
        let images = Images::open(directory.path(), ImageOptions::default()).unwrap();
        let error = images.import_archive(archive_file(&archive)).await.unwrap_err();
        assert!(matches!(error, Error::Digest { .. }), "{error:?}");
        assert!(images.images().is_empty());
        assert_eq!(fs::read_dir(directory.path().join("layers")).unwrap().count(), 0);
    }
    let directory = tempfile::tempdir().unwrap();
    let images = Images::open(directory.path(), ImageOptions::default()).unwrap();
    let missing = Tar::new().file(&right, &config).file("manifest.json", saved(&right).as_bytes()).done();
    for archive in [missing, Tar::new().file("x", b"").done(), b"no archive at all".repeat(100)] {
        assert!(images.import_archive(archive_file(&archive)).await.is_err());
    }
}

#[test]
fn a_root_directory_is_never_left() {
    let directory = tempfile::tempdir().unwrap();
    symlink("/etc", directory.path().join("out")).unwrap();
    fs::create_dir(directory.path().join("etc")).unwrap();
    fs::write(directory.path().join("etc/passwd"), b"inside").unwrap();
    let root = crate::rootdir::RootDir::open(directory.path()).unwrap();
    for path in ["/etc/passwd", "out/passwd", "../../etc/passwd", "/out/../etc/passwd"] {
        assert_eq!(root.read(Path::new(path), 3).unwrap().as_deref(), Some(&b"ins"[..]), "{path}");
    }
    assert_eq!(root.read(Path::new("/etc"), 3).unwrap(), None);
    assert_eq!(root.read(Path::new("/none"), 3).unwrap(), None);
}
