use super::*;
use crate::definition::ResourceDefinition;
use std::collections::HashSet;

fn params() -> BaseParams {
    BaseParams {
        root_ca_pem: "pem".into(),
        kubernetes_ip: Ipv4Addr::new(10, 96, 0, 1),
        dns_ip: Ipv4Addr::new(10, 96, 0, 10),
        api_server_port: 6443,
    }
}

fn definition(object: &Value) -> &'static ResourceDefinition {
    super::super::all()
        .iter()
        .find(|definition| {
            object["apiVersion"] == definition.gvk.api_version().as_str() && object["kind"] == definition.gvk.kind
        })
        .unwrap()
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name).unwrap()
}

#[test]
fn every_object_is_as_if_it_had_been_created() {
    for object in objects(&params()) {
        let definition = definition(&object);
        let name = format!("{} {}", definition.gvk.kind, object["metadata"]["name"]);
        assert!(definition.schema.validate(&object).is_empty(), "{name}: {:?}", definition.schema.validate(&object));
        let mut created = object.clone();
        definition.schema.apply_defaults(&mut created);
        if let Some(default) = definition.rules.default {
            default(&mut created);
        }
        if let Some(prepare) = definition.rules.prepare {
            prepare(&mut created, None);
        }
        assert_eq!(created, object, "{name} lacks defaults");
        let errors = definition.rules.validate.map(|validate| validate(&object, None)).unwrap_or_default();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        let namespace = object["metadata"].get("namespace").and_then(Value::as_str);
        assert_eq!(namespace.is_some(), definition.scope == crate::definition::Scope::Namespaced, "{name}");
        assert!(namespace.is_none_or(|namespace| NAMESPACES.contains(&namespace)), "{name}");
    }
}

#[test]
fn every_object_is_there_once() {
    let objects = objects(&params());
    let keys: HashSet<_> = objects
        .iter()
        .map(|o| format!("{} {} {}", o["kind"], o["metadata"]["namespace"], o["metadata"]["name"]))
        .collect();
    assert_eq!(keys.len(), objects.len());
    for namespace in NAMESPACES {
        find(&objects, "Namespace", namespace);
        assert!(keys.contains(&format!("\"ServiceAccount\" \"{namespace}\" \"default\"")));
        assert!(keys.contains(&format!("\"ConfigMap\" \"{namespace}\" \"kube-root-ca.crt\"")));
    }
}

#[test]
fn every_binding_has_its_role() {
    let objects = objects(&params());
    let bindings = objects.iter().filter(|object| object.get("roleRef").is_some());
    for binding in bindings {
        let role = &binding["roleRef"];
        find(&objects, role["kind"].as_str().unwrap(), role["name"].as_str().unwrap());
    }
}

/// Whether a ClusterRole allows `verb` on a resource.
fn allows(objects: &[Value], role: &str, verb: &str, group: &str, resource: &str) -> bool {
    let has = |rule: &Value, key: &str, wanted: &str| {
        let items = rule[key].as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().any(|item| item == wanted || item == "*")
    };
    let rules = find(objects, "ClusterRole", role)["rules"].as_array().unwrap();
    rules.iter().any(|rule| {
        rule.get("resourceNames").is_none()
            && has(rule, "verbs", verb)
            && has(rule, "apiGroups", group)
            && has(rule, "resources", resource)
    })
}

#[test]
fn roles_allow_what_their_names_say() {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let objects = objects(&params());
    // (verb, group, resource, view, edit, admin, cluster-admin)
    let table = [
        ("get", "", "pods", [true, true, true, true]),
        ("get", "", "pods/log", [true, true, true, true]),
        ("get", "", "secrets", [false, true, true, true]),
        ("create", "", "pods/exec", [false, true, true, true]),
        ("create", "", "pods", [false, true, true, true]),
        ("patch", "apps", "deployments/scale", [false, true, true, true]),
        ("watch", "batch", "jobs", [true, true, true, true]),
        ("create", "", "serviceaccounts/token", [false, true, true, true]),
        ("create", RBAC, "rolebindings", [false, false, true, true]),
        ("create", RBAC, "clusterrolebindings", [false, false, false, true]),
        ("delete", "", "namespaces", [false, false, false, true]),
        ("delete", "", "nodes", [false, false, false, true]),
        ("create", "example.com", "things", [false, false, false, true]),
    ];
    for (verb, group, resource, expected) in table {
        let roles = ["view", "edit", "admin", "cluster-admin"];
        let actual = roles.map(|role| allows(&objects, role, verb, group, resource));
        assert_eq!(actual, expected, "{verb} {group}/{resource}");
    }
}

#[test]
fn aggregates_are_the_sum_of_their_parts() {
    let objects = objects(&params());
    for name in ["admin", "edit", "view"] {
        let role = find(&objects, "ClusterRole", name);
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{name}");
        assert_eq!(role["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"][&label], "true");
        let mut parts: Vec<_> = objects.iter().filter(|o| o["metadata"]["labels"].get(&label).is_some()).collect();
        parts.sort_by_key(|part| part["metadata"]["name"].as_str().unwrap().to_owned());
        let sum: HashSet<_> =
            parts.iter().flat_map(|part| part["rules"].as_array().unwrap()).map(Value::to_string).collect();
        let have: HashSet<_> = role["rules"].as_array().unwrap().iter().map(Value::to_string).collect();
        assert_eq!(sum, have, "{name}");
    }
}

#[test]
fn strangers_see_health_and_version_only() {
    let objects = objects(&params());
    let for_strangers: Vec<_> = objects
        .iter()
        .filter(|o| o["subjects"].as_array().is_some_and(|s| s.iter().any(|s| s["name"] == "system:unauthenticated")))
        .map(|o| o["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(for_strangers, ["system:public-info-viewer"]);
}

#[test]
fn services_are_where_the_server_says() {
    let objects = objects(&params());
    let kubernetes = find(&objects, "Service", "kubernetes");
    assert_eq!(kubernetes["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(kubernetes["spec"]["ports"][0]["targetPort"], 6443);
    assert_eq!(find(&objects, "Service", "kube-dns")["spec"]["clusterIPs"], json!(["10.96.0.10"]));
    assert_eq!(find(&objects, "ConfigMap", ROOT_CA_CONFIG_MAP)["data"]["ca.crt"], "pem");
}
