//! Discovery documents against their definitions.

use super::*;
use serde_json::Value;

fn catalog() -> Catalog {
    let pods = GroupResource { group: String::new(), resource: "pods".into() };
    Catalog::new(apimachinery::builtin::all(), &HashSet::from([(pods, "log".to_owned())]))
}

fn at(catalog: &Catalog, path: &str) -> Value {
    serde_json::from_slice(&catalog.served(true).documents.at(path).unwrap().json).unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list["resources"].as_array().unwrap().iter().filter_map(|r| r["name"].as_str()).collect()
}

#[test]
fn lists_only_what_is_handled() {
    let catalog = catalog();
    let core = at(&catalog, "/api/v1");
    let names = names(&core);
    for present in ["pods", "pods/log", "pods/binding", "pods/eviction", "pods/status", "namespaces/finalize"] {
        assert!(names.contains(&present), "{present}");
    }
    for absent in ["pods/exec", "pods/proxy", "services/proxy", "serviceaccounts/token"] {
        assert!(!names.contains(&absent), "{absent}");
    }
    assert_eq!(core["groupVersion"], "v1");
}

#[test]
fn forms_agree() {
    let catalog = catalog();
    let groups = at(&catalog, "/apis");
    let aggregated: Value =
        serde_json::from_slice(&catalog.served(true).documents.aggregated("/apis").unwrap().json).unwrap();
    let plain: Vec<&Value> = groups["groups"].as_array().unwrap().iter().map(|g| &g["name"]).collect();
    let combined: Vec<&Value> =
        aggregated["items"].as_array().unwrap().iter().map(|g| &g["metadata"]["name"]).collect();
    assert_eq!(plain, combined);
    let apps = at(&catalog, "/apis/apps/v1");
    let scale = apps["resources"].as_array().unwrap().iter().find(|r| r["name"] == "deployments/scale").unwrap();
    assert_eq!(
        (&scale["group"], &scale["version"], &scale["kind"]),
        (&"autoscaling".into(), &"v1".into(), &"Scale".into())
    );
    assert_eq!(at(&catalog, "/apis/apps")["preferredVersion"]["groupVersion"], "apps/v1");
    assert!(catalog.served(true).definition("apps", "v1", "deployments").is_some());
    assert!(catalog.served(true).definition("apps", "v2", "deployments").is_none());
}
