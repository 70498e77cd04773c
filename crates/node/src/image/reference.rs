//! Names of images, as users write them: `[registry/]repository[:tag][@digest]`.

use std::fmt;

use super::digest::Digest;
use super::error::Error;
use super::options::DEFAULT_REGISTRY;

/// A full name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// `host` or `host:port`.
    pub registry: String,
    /// `library/busybox`.
    pub repository: String,
    /// `latest` if neither tag nor digest was given.
    pub tag: Option<String>,
    /// Wins over the tag.
    pub digest: Option<Digest>,
}

const MAX_NAME: usize = 255;
const MAX_TAG: usize = 128;

impl Reference {
    /// Reads a name and fills in what it leaves out.
    pub fn parse(text: &str, default_registry: &str) -> Result<Self, Error> {
        let invalid = || Error::Reference(text.chars().take(MAX_NAME).collect());
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(Digest::try_from(digest.to_owned()).map_err(|_| invalid())?)),
            None => (text, None),
        };
        let (name, tag) = match name.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag.to_owned())),
            _ => (name, None),
        };
        let (registry, repository) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest.to_owned()),
            _ => (default_registry, name.to_owned()),
        };
        // The default registry keeps its own images under this name.
        let repository = match registry == DEFAULT_REGISTRY && !repository.contains('/') {
            true => format!("library/{repository}"),
            false => repository,
        };
        let tag = if tag.is_none() && digest.is_none() { Some("latest".to_owned()) } else { tag };
        let valid = name.len() <= MAX_NAME
            && is_host(registry)
            && repository.split('/').all(is_component)
            && tag.as_deref().is_none_or(is_tag);
        if valid { Ok(Self { registry: registry.to_owned(), repository, tag, digest }) } else { Err(invalid()) }
    }

    /// What stands for it in a request to the registry.
    pub fn selector(&self) -> &str {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.as_str(),
            (None, Some(tag)) => tag,
            (None, None) => "latest",
        }
    }

    /// Registry and repository.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }
}

/// The name that the store knows the image by: with the digest alone if there is one.
impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.digest.is_some() { '@' } else { ':' };
        write!(formatter, "{}/{}{separator}{}", self.registry, self.repository, self.selector())
    }
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(plain);
    let name_is_valid = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => name.split('.').all(is_label),
    };
    name_is_valid && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

fn is_component(component: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = component.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
        && !component.contains("..")
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= MAX_TAG
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}
