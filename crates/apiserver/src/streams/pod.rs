//! Which container of which Pod on which node a stream is for.

use crate::request::{ClusterScope, RequestContext};
use apimachinery::status::ApiError;
use serde::Serialize;
use serde_json::Value;

const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// A Pod as the streams need it.
pub(super) struct Target<'a> {
    pub(super) cluster: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
    /// `None` while no node has been chosen.
    pub(super) node: Option<&'a str>,
    pod: &'a Value,
}

impl<'a> Target<'a> {
    pub(super) fn of(context: &'a RequestContext, pod: &'a Value) -> Result<Self, ApiError> {
        let ClusterScope::One(cluster) = &context.info.cluster else {
            return Err(ApiError::bad_request("a stream belongs to one cluster"));
        };
        let text = |value: &'a Value| value.as_str().unwrap_or_default();
        let metadata = &pod["metadata"];
        Ok(Self {
            cluster,
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
            node: pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()),
            pod,
        })
    }

    /// The node, or Kubernetes' words when none has been chosen.
    pub(super) fn node(&self) -> Result<&'a str, ApiError> {
        self.node.ok_or_else(|| ApiError::bad_request(format!("pod {} does not have a host assigned", self.name)))
    }

    /// The container that was asked for, or the Pod's only or default one.
    pub(super) fn container(&self, asked: Option<&str>) -> Result<String, ApiError> {
        let names = |list: &str| -> Vec<&str> {
            let containers = self.pod["spec"][list].as_array().map(Vec::as_slice).unwrap_or_default();
            containers.iter().filter_map(|container| container["name"].as_str()).collect()
        };
        let containers = names("containers");
        let inits = names("initContainers");
        if let Some(asked) = asked.filter(|asked| !asked.is_empty()) {
            let known = containers.iter().chain(&inits).chain(&names("ephemeralContainers")).any(|name| *name == asked);
            return if known {
                Ok(asked.to_owned())
            } else {
                Err(ApiError::bad_request(format!("container {asked} is not valid for pod {}", self.name)))
            };
        }
        let default = self.pod["metadata"]["annotations"][DEFAULT_CONTAINER].as_str();
        if let Some(default) = default.filter(|default| containers.contains(default)) {
            return Ok(default.to_owned());
        }
        match (containers.as_slice(), inits.as_slice()) {
            ([only], _) => Ok((*only).to_owned()),
            ([], _) => Err(ApiError::bad_request(format!("a container name must be specified for pod {}", self.name))),
            (several, []) => Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {}, choose one of: [{}]",
                self.name,
                several.join(" ")
            ))),
            (several, inits) => Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {}, choose one of: [{}] or one of the init containers: [{}]",
                self.name,
                several.join(" "),
                inits.join(" ")
            ))),
        }
    }

    /// The path of a tunnel request for this Pod.
    pub(super) fn path(&self, verb: &str, container: Option<&str>, options: &impl Serialize) -> String {
        let json = serde_json::to_string(options).expect("options are plain data");
        let mut path = format!("/{verb}/{}/{}/{}", self.namespace, self.name, self.uid);
        if let Some(container) = container {
            path.push('/');
            path.push_str(container);
        }
        format!("{path}?options={}", percent_encode(&json))
    }
}

/// Percent-encodes everything but unreserved characters (RFC 3986).
fn percent_encode(text: &str) -> String {
    use std::fmt::Write;
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Reads a boolean query parameter as Kubernetes does: absent is false, present without value true.
pub(super) fn flag(context: &RequestContext, name: &str) -> bool {
    context.info.query(name).is_some_and(|value| !matches!(value, "false" | "0" | "f" | "F" | "False" | "FALSE"))
}

#[cfg(test)]
mod tests;
