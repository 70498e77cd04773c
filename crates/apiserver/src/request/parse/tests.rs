//! Request lines and what they mean.

use super::*;

fn info(method: &str, uri: &str) -> RequestInfo {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    parse(&method, &uri.parse().unwrap()).unwrap().resolve("home")
}

/// Method, URI, verb, group, namespace, resource, name, subresource.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
    &'static str,
    Option<&'static str>,
    Option<&'static str>,
);

#[test]
fn resources() {
    let table: &[Row] = &[
        ("GET", "/api/v1/pods", "list", "", None, "pods", None, None),
        ("GET", "/api/v1/pods?watch=true", "watch", "", None, "pods", None, None),
        ("GET", "/api/v1/pods?watch=0", "list", "", None, "pods", None, None),
        ("GET", "/api/v1/watch/pods", "watch", "", None, "pods", None, None),
        ("GET", "/api/v1/namespaces/a/pods/b", "get", "", Some("a"), "pods", Some("b"), None),
        ("HEAD", "/api/v1/namespaces/a/pods/b", "get", "", Some("a"), "pods", Some("b"), None),
        ("GET", "/api/v1/namespaces/a/pods/b/log", "get", "", Some("a"), "pods", Some("b"), Some("log")),
        ("POST", "/api/v1/namespaces/a/pods/b/exec", "create", "", Some("a"), "pods", Some("b"), Some("exec")),
        ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection", "", Some("a"), "pods", None, None),
        ("GET", "/api/v1/namespaces/a", "get", "", None, "namespaces", Some("a"), None),
        ("PUT", "/api/v1/namespaces/a/finalize", "update", "", None, "namespaces", Some("a"), Some("finalize")),
        ("PATCH", "/api/v1/namespaces/a/status", "patch", "", None, "namespaces", Some("a"), Some("status")),
        ("GET", "/api/v1/namespaces/a/secrets/", "list", "", Some("a"), "secrets", None, None),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/b/scale",
            "patch",
            "apps",
            Some("a"),
            "deployments",
            Some("b"),
            Some("scale"),
        ),
        (
            "GET",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            "get",
            "rbac.authorization.k8s.io",
            None,
            "clusterroles",
            Some("system:node"),
            None,
        ),
    ];
    for (method, uri, verb, group, namespace, resource, name, subresource) in table {
        let info = info(method, uri);
        assert_eq!(info.verb, *verb, "{uri}");
        let found = info.resource.unwrap();
        assert_eq!(
            (
                &*found.group,
                found.namespace.as_deref(),
                &*found.resource,
                found.name.as_deref(),
                found.subresource.as_deref()
            ),
            (*group, *namespace, *resource, *name, *subresource),
            "{uri}"
        );
    }
}

#[test]
fn clusters() {
    assert_eq!(info("GET", "/api/v1/pods").cluster, ClusterScope::One("home".into()));
    let one = info("GET", "/clusters/c1/api/v1/pods?limit=5&labelSelector=a%3Db+c");
    assert_eq!(one.cluster, ClusterScope::One("c1".into()));
    assert_eq!(one.path, "/api/v1/pods");
    assert_eq!((one.query("limit"), one.query("labelSelector")), (Some("5"), Some("a=b c")));
    assert_eq!(info("GET", "/clusters/*/api/v1/pods").cluster, ClusterScope::Every);
    assert_eq!(info("GET", "/clusters/c1").path, "/");
}

#[test]
fn other_paths() {
    for path in ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/openapi/v3/apis/apps/v1"]
    {
        let info = info("GET", path);
        assert!(info.resource.is_none(), "{path}");
        assert_eq!((info.verb.as_str(), info.path.as_str()), ("get", path));
    }
    let node = parse(&Method::POST, &"/clusters/c/nodes/n/join".parse().unwrap()).unwrap();
    assert_eq!(node.node, Some(NodePath { node: "n".into(), endpoint: "join".into() }));
    assert_eq!(parse(&Method::POST, &"/nodes/n/join".parse().unwrap()).unwrap().node, None);
}

#[test]
fn refused_paths() {
    for (method, path, code) in [
        ("GET", "//api/v1/pods", 404),
        ("GET", "/api/v1/%2e%2e/pods", 404),
        ("GET", "/api/v1/namespaces/a%2Fb/pods", 404),
        ("GET", "/api/v1/%zz", 404),
        ("GET", "/clusters", 404),
        ("GET", "/api/v1/namespaces/a/pods/b/log/more", 404),
        ("OPTIONS", "/api/v1/pods", 405),
    ] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(parse(&method, &path.parse().unwrap()).unwrap_err().code, code, "{path}");
    }
}
