//! Kubeconfig files: writing one for a cluster, and reading our own to reach the server.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use controller_runtime::{Client, ClientCredential, HttpOptions, HttpTransport};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// A kubeconfig for one cluster and one user. `name` names all its parts.
pub(crate) fn render(name: &str, url: &str, authority: &str, user: &str, credential: &ClientCredential) -> String {
    let encode = |bytes: &[u8]| STANDARD.encode(bytes);
    let value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {
            "server": url, "certificate-authority-data": encode(authority.as_bytes()),
        }}],
        "users": [{"name": format!("{user}@{name}"), "user": {
            "client-certificate-data": encode(credential.certificate.as_bytes()),
            "client-key-data": encode(credential.key.as_bytes()),
        }}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": format!("{user}@{name}")}}],
        "current-context": name,
    });
    serde_yaml_ng::to_string(&value).expect("a JSON value is valid YAML")
}

/// A client for the workspace that a kubeconfig file of ours names.
///
/// # Errors
/// When there is no such file, or it is not of the form that [`render`] writes.
pub(crate) fn client(path: &Path) -> Result<Client> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {}. Is `socialweb-computer serve` running?", path.display()))?;
    let parse = || -> Option<Client> {
        let config: Value = serde_yaml_ng::from_str(&text).ok()?;
        let decode = |value: &Value| String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok();
        let cluster = &config["clusters"][0]["cluster"];
        let user = &config["users"][0]["user"];
        let (server, workspace) = cluster["server"].as_str()?.split_once("/clusters/")?;
        let mut options = HttpOptions::new(server, decode(&cluster["certificate-authority-data"])?);
        options.client_certificate =
            Some((decode(&user["client-certificate-data"])?, decode(&user["client-key-data"])?));
        Some(Client::new(Arc::new(HttpTransport::new(options).ok()?), workspace))
    };
    parse().with_context(|| format!("{} is not a kubeconfig of this server", path.display()))
}
