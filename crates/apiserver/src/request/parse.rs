//! Reads a `RequestInfo` from a method and a URI, by the rules of a Kubernetes API server.

use super::{ClusterScope, RequestInfo, ResourceRequest};
use apimachinery::status::ApiError;
use http::{Method, Uri};

/// A parsed request whose logical cluster may still have to come from its credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// The scope that the path names.
    pub(crate) cluster: Option<ClusterScope>,
    /// A path of the server itself below `/clusters/<name>/nodes/<node>/`.
    pub(crate) node: Option<NodePath>,
    verb: String,
    path: String,
    resource: Option<ResourceRequest>,
    query: Vec<(String, String)>,
}

/// `/clusters/<cluster>/nodes/<node>/<endpoint>`: what nodes use besides the Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodePath {
    pub(crate) node: String,
    pub(crate) endpoint: String,
}

impl Parsed {
    /// The request, in `cluster` where the path names none.
    pub(crate) fn resolve(self, cluster: &str) -> RequestInfo {
        RequestInfo {
            cluster: self.cluster.unwrap_or_else(|| ClusterScope::One(cluster.to_owned())),
            verb: self.verb,
            path: self.path,
            resource: self.resource,
            query: self.query,
        }
    }
}

/// Parses a request line.
pub(crate) fn parse(method: &Method, uri: &Uri) -> Result<Parsed, ApiError> {
    let segments: Vec<String> = segments(uri.path())?;
    let query = parse_query(uri.query().unwrap_or_default());
    let (cluster, rest) = match segments.split_first() {
        Some((first, rest)) if first == "clusters" => match rest.split_first() {
            Some((name, rest)) if name == "*" => (Some(ClusterScope::Every), rest),
            Some((name, rest)) => (Some(ClusterScope::One(name.clone())), rest),
            None => return Err(ApiError::no_such_path()),
        },
        _ => (None, &segments[..]),
    };
    let node = match (&cluster, rest) {
        (Some(ClusterScope::One(_)), [nodes, node, endpoint]) if nodes == "nodes" => {
            Some(NodePath { node: node.clone(), endpoint: endpoint.clone() })
        }
        _ => None,
    };
    let path = format!("/{}", rest.join("/"));
    let (verb, resource) = match resource(method, rest, &query)? {
        Some((verb, resource)) => (verb, Some(resource)),
        None => (method.as_str().to_lowercase(), None),
    };
    Ok(Parsed { cluster, node, verb, path, resource, query })
}

/// The decoded segments; a trailing slash adds none.
fn segments(path: &str) -> Result<Vec<String>, ApiError> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(Vec::new());
    }
    path.split('/')
        .map(|segment| match percent_decode(segment, false) {
            Some(decoded) if !decoded.is_empty() && !decoded.contains('/') && decoded != ".." && decoded != "." => {
                Ok(decoded)
            }
            _ => Err(ApiError::no_such_path()),
        })
        .collect()
}

fn resource(
    method: &Method,
    segments: &[String],
    query: &[(String, String)],
) -> Result<Option<(String, ResourceRequest)>, ApiError> {
    let (group, version, mut rest) = match segments {
        [api, version, rest @ ..] if api == "api" && !rest.is_empty() => ("", version, rest),
        [apis, group, version, rest @ ..] if apis == "apis" && !rest.is_empty() => (group.as_str(), version, rest),
        _ => return Ok(None),
    };
    let mut verb = match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => {
            return Err(ApiError::new(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            ));
        }
    };
    // The old form `/api/v1/watch/pods`.
    let mut watch = query.iter().find(|(k, _)| k == "watch").is_some_and(|(_, v)| truthy(v));
    if let [first, after @ ..] = rest
        && first == "watch"
        && !after.is_empty()
    {
        rest = after;
        watch = true;
    }
    let mut namespace = None;
    if let [namespaces, name, after @ ..] = rest
        && namespaces == "namespaces"
        && after.first().is_some_and(|next| next != "status" && next != "finalize")
    {
        namespace = Some(name.clone());
        rest = after;
    }
    let (resource, name, subresource) = match rest {
        [resource] => (resource, None, None),
        [resource, name] => (resource, Some(name.clone()), None),
        [resource, name, subresource] => (resource, Some(name.clone()), Some(subresource.clone())),
        [resource, name, proxy, ..] if proxy == "proxy" => (resource, Some(name.clone()), Some(proxy.clone())),
        _ => return Err(ApiError::no_such_path()),
    };
    if name.is_none() {
        verb = match verb {
            "get" if watch => "watch",
            "get" => "list",
            "delete" => "deletecollection",
            other => other,
        };
    }
    Ok(Some((
        verb.to_owned(),
        ResourceRequest {
            group: group.to_owned(),
            version: version.clone(),
            resource: resource.clone(),
            namespace,
            name,
            subresource,
        },
    )))
}

/// Whether a query parameter says yes, as Kubernetes reads booleans: anything but `false` and `0`.
pub(crate) fn truthy(value: &str) -> bool {
    !value.eq_ignore_ascii_case("false") && value != "0"
}

fn parse_query(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((percent_decode(name, true)?, percent_decode(value, true)?))
        })
        .collect()
}

/// Decodes `%XX`, and `+` as a space in queries; `None` when it is malformed or not UTF-8.
fn percent_decode(text: &str, plus: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if plus => b' ',
            other => other,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests;
