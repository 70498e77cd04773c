//! What a machine is told: the NoCloud seed from its boot configuration, and the join secret's
//! drive.

#[cfg(test)]
mod tests;

use crate::iso9660::{self, File};
use crate::{Error, HostOptions};
use compute_api::NodeRequest;
use node_api::{BootConfig, JoinSecret, USER_DATA_HEADER};

/// The host's loopback as a guest reaches it.
const HOST_FROM_GUEST: &str = "10.0.2.2";

/// A drive has whole sectors.
const SECTOR: usize = 512;

/// The most bytes of boot configuration or join secret; the agent reads no more.
const MAX_DOCUMENT: usize = 256 * 1024;

/// The boot configuration as the machine gets it: the cluster's, and what the host knows of
/// registries.
pub(crate) fn boot_config(request: &NodeRequest, options: &HostOptions) -> Result<BootConfig, Error> {
    let mut config: BootConfig = serde_json::from_str(&request.boot_config)
        .map_err(|error| Error::Request(format!("the boot configuration cannot be read: {error}")))?;
    for registry in &options.insecure_registries {
        add_once(&mut config.insecure_registries, registry);
        let Some((host, port)) = registry.rsplit_once(':') else { continue };
        if matches!(host, "localhost" | "127.0.0.1" | "[::1]") {
            let reached = format!("{HOST_FROM_GUEST}:{port}");
            add_once(&mut config.insecure_registries, &reached);
            config.registry_mirrors.entry(registry.clone()).or_insert(reached);
        }
    }
    Ok(config)
}

fn add_once(list: &mut Vec<String>, item: &str) {
    if !list.iter().any(|other| other == item) {
        list.push(item.to_owned());
    }
}

/// The seed image.
pub(crate) fn image(request: &NodeRequest, config: &BootConfig) -> Result<Vec<u8>, Error> {
    let json = serde_json::to_string(config)
        .map_err(|error| Error::Request(format!("the boot configuration cannot be written: {error}")))?;
    let user_data = format!("{USER_DATA_HEADER}\n{json}");
    if user_data.len() > MAX_DOCUMENT {
        return Err(Error::Request(format!("the boot configuration is over {MAX_DOCUMENT} bytes")));
    }
    let meta_data = format!("instance-id: {}\nlocal-hostname: {}\n", request.id, config.node_name);
    let files = [
        File { name: "user-data", content: user_data.as_bytes() },
        File { name: "meta-data", content: meta_data.as_bytes() },
    ];
    iso9660::image("cidata", &files).ok_or_else(|| Error::Request("the seed image cannot hold it".to_owned()))
}

/// The join secret's drive. The error does not show the secret.
pub(crate) fn join_drive(request: &NodeRequest) -> Result<Vec<u8>, Error> {
    let secret = request.join_secret.expose();
    if secret.len() > MAX_DOCUMENT || serde_json::from_str::<JoinSecret>(secret).is_err() {
        return Err(Error::Request("the join secret is not a join secret".to_owned()));
    }
    let mut drive = secret.as_bytes().to_vec();
    drive.resize((secret.len() + 1).next_multiple_of(SECTOR), 0);
    Ok(drive)
}
