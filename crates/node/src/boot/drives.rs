//! The machine's drives by serial number, and what is read from them.

use super::iso;
use node_api::{BootConfig, JoinSecret, USER_DATA_HEADER};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Largest boot configuration or join secret, bytes.
const MAX_DOCUMENT: usize = 256 * 1024;

/// Block devices by serial number.
pub(crate) fn by_serial(sys_block: &Path, dev: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut drives = BTreeMap::new();
    for entry in fs::read_dir(sys_block)? {
        let entry = entry?;
        if let Ok(serial) = fs::read_to_string(entry.path().join("serial")) {
            let serial = serial.trim();
            if !serial.is_empty() {
                drives.insert(serial.to_owned(), dev.join(entry.file_name()));
            }
        }
    }
    Ok(drives)
}

/// Waits until the seed drive is there, then returns every drive.
pub(crate) fn wait(limit: Duration) -> io::Result<BTreeMap<String, PathBuf>> {
    let deadline = Instant::now() + limit;
    loop {
        let drives = by_serial(Path::new("/sys/block"), Path::new("/dev"))?;
        if drives.contains_key("cidata") || Instant::now() >= deadline {
            return Ok(drives);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The boot configuration on a NoCloud seed.
pub(crate) fn boot_config(seed: &Path) -> io::Result<BootConfig> {
    let mut image = File::open(seed)?;
    let data = iso::read_root_file(&mut image, "user-data", MAX_DOCUMENT)?;
    parse_user_data(&data)
}

/// The boot configuration in the text of `user-data`.
pub(crate) fn parse_user_data(data: &[u8]) -> io::Result<BootConfig> {
    let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, format!("user-data: {why}"));
    let text = std::str::from_utf8(data).map_err(|error| bad(error.to_string()))?;
    let body = text
        .split_once('\n')
        .filter(|(first, _)| first.trim_end() == USER_DATA_HEADER)
        .map(|(_, body)| body)
        .ok_or_else(|| bad(format!("the first line is not {USER_DATA_HEADER}")))?;
    serde_json::from_str(body).map_err(|error| bad(error.to_string()))
}

/// The join secret on its drive: JSON and then zeros.
pub(crate) fn join_secret(drive: &Path) -> io::Result<JoinSecret> {
    let mut data = Vec::new();
    File::open(drive)?.take(MAX_DOCUMENT as u64).read_to_end(&mut data)?;
    parse_join_secret(&data)
}

/// The join secret in zero-padded JSON. The error does not show the text.
pub(crate) fn parse_join_secret(data: &[u8]) -> io::Result<JoinSecret> {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    serde_json::from_slice(&data[..end])
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the join drive holds no join secret"))
}

/// Preloaded image archives, in order.
pub(crate) fn images(drives: &BTreeMap<String, PathBuf>) -> Vec<PathBuf> {
    let mut images: Vec<(u32, PathBuf)> = drives
        .iter()
        .filter_map(|(serial, path)| Some((serial.strip_prefix("image")?.parse().ok()?, path.clone())))
        .collect();
    images.sort();
    images.into_iter().map(|(_, path)| path).collect()
}
