//! Tables for the kinds' rules as the generic path runs them: defaults, preparation, validation.

use super::*;
use crate::definition::ResourceDefinition;
use serde_json::{Value, json};

const UID: &str = "00000000-0000-4000-8000-000000000000";

fn definition(kind: &str) -> &'static ResourceDefinition {
    all().iter().find(|definition| definition.gvk.kind == kind).unwrap()
}

/// What is stored when `object` is written over `old`, and the violations as texts.
fn write(kind: &str, mut object: Value, old: Option<&Value>) -> (Value, Vec<String>) {
    let definition = definition(kind);
    object["apiVersion"] = definition.gvk.api_version().into();
    object["kind"] = kind.into();
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.insert("uid".into(), UID.into());
    metadata.entry("namespace").or_insert("n".into());
    definition.schema.apply_defaults(&mut object);
    if let Some(default) = definition.rules.default {
        default(&mut object);
    }
    if let Some(prepare) = definition.rules.prepare {
        prepare(&mut object, old);
    }
    let mut errors = definition.schema.validate(&object);
    if let Some(validate) = definition.rules.validate {
        errors.extend(validate(&object, old));
    }
    (object, errors.iter().map(ToString::to_string).collect())
}

fn good(kind: &str, object: Value, old: Option<&Value>) -> Value {
    let (stored, errors) = write(kind, object, old);
    assert!(errors.is_empty(), "{kind}: {errors:?}");
    stored
}

fn wrong(kind: &str, object: Value, old: Option<&Value>) -> Vec<String> {
    write(kind, object, old).1
}

fn template(restart: Option<&str>) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    if let Some(policy) = restart {
        spec["restartPolicy"] = policy.into();
    }
    json!({"metadata": {"labels": {"app": "a"}}, "spec": spec})
}

fn workload() -> Value {
    json!({
        "metadata": {"name": "w"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template(None)},
    })
}

/// With one field of the spec changed.
fn with(mut object: Value, key: &str, value: Value) -> Value {
    object["spec"][key] = value;
    object
}

#[test]
fn workloads_get_defaults_and_keep_their_selector() {
    for (kind, status) in [
        ("Deployment", json!({})),
        ("ReplicaSet", json!({"replicas": 0})),
        (
            "DaemonSet",
            json!({
                "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
            }),
        ),
    ] {
        let mut written = workload();
        written["status"] = json!({"observedGeneration": 7});
        let stored = good(kind, written, None);
        assert_eq!(stored["status"], status, "{kind}: a creator writes no status");
        assert_eq!(stored["spec"]["template"]["spec"]["restartPolicy"], "Always");
        assert!(stored["spec"]["template"]["spec"].get("tolerations").is_none(), "{kind}: those are a Pod's own");
        assert_eq!(good(kind, stored.clone(), Some(&stored)), stored, "{kind}: writing it again changes nothing");
        let mut other = workload();
        other["spec"]["selector"] = json!({"matchLabels": {"app": "b"}});
        other["spec"]["template"]["metadata"]["labels"]["app"] = "b".into();
        assert!(wrong(kind, other, Some(&stored))[0].ends_with("field is immutable"), "{kind}");
    }
    let deployment = good("Deployment", workload(), None);
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    assert_eq!(deployment["spec"]["strategy"], rolling);
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["spec"]["revisionHistoryLimit"], 10);
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    assert_eq!(good("DaemonSet", workload(), None)["spec"]["updateStrategy"], rolling);
}

#[test]
fn wrong_workloads_are_refused_in_upstreams_words() {
    let stands_still = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}});
    for (kind, object, expected) in [
        (
            "Deployment",
            with(workload(), "selector", json!({"matchLabels": {"app": "b"}})),
            "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`",
        ),
        (
            "ReplicaSet",
            with(workload(), "selector", json!({})),
            "spec.selector: Invalid value: {}: empty selector is invalid for replicaset",
        ),
        (
            "Deployment",
            with(workload(), "replicas", json!(-1)),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "DaemonSet",
            with(workload(), "template", template(Some("Never"))),
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ),
        (
            "Deployment",
            with(workload(), "strategy", stands_still),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
        ),
    ] {
        assert_eq!(wrong(kind, object, None), [expected], "{kind}");
    }
}

#[test]
fn jobs_find_their_pods_by_generated_labels() {
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": template(Some("Never"))}});
    let stored = good("Job", job, None);
    let spec = &stored["spec"];
    assert_eq!(spec["selector"], json!({"matchLabels": {CONTROLLER_UID_LABEL: UID}}));
    let labels = json!({
        "app": "a", "controller-uid": UID, "job-name": "j", CONTROLLER_UID_LABEL: UID, JOB_NAME_LABEL: "j",
    });
    assert_eq!(spec["template"]["metadata"]["labels"], labels);
    assert_eq!((&spec["completions"], &spec["parallelism"], &spec["backoffLimit"]), (&json!(1), &json!(1), &json!(6)));
    assert_eq!(good("Job", stored.clone(), Some(&stored)), stored);

    let bare = json!({
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    });
    let stored = good("Job", bare, None);
    assert_eq!(stored["metadata"]["labels"][JOB_NAME_LABEL], "j", "a Job without labels takes its template's");
    let mut image = stored.clone();
    image["spec"]["template"]["spec"]["containers"][0]["image"] = "other".into();
    assert!(wrong("Job", image, Some(&stored))[0].ends_with("field is immutable"));
    let errors = wrong("Job", with(stored.clone(), "completions", json!(2)), Some(&stored));
    assert_eq!(errors, ["spec.completions: Invalid value: 2: field is immutable"]);
    good("Job", with(stored.clone(), "parallelism", json!(2)), Some(&stored));
    good("Job", with(stored.clone(), "suspend", json!(true)), Some(&stored));
}

#[test]
fn jobs_do_not_restart_always() {
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": template(None)}});
    let expected =
        "spec.template.spec.restartPolicy: Unsupported value: \"Always\": supported values: \"OnFailure\", \"Never\"";
    assert_eq!(wrong("Job", job, None), [expected]);
}

fn service(spec: Value) -> Value {
    json!({"metadata": {"name": "s"}, "spec": spec})
}

#[test]
fn services_get_defaults() {
    let stored = good("Service", service(json!({"ports": [{"port": 80}], "selector": {"app": "a"}})), None);
    let expected = json!({
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "selector": {"app": "a"}, "type": "ClusterIP",
        "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ipFamilyPolicy": "SingleStack",
        "ipFamilies": ["IPv4"],
    });
    assert_eq!(stored["spec"], expected);
    assert_eq!(stored["status"], json!({"loadBalancer": {}}));
    let headless = good("Service", service(json!({"clusterIP": "None"})), None);
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
}

#[test]
fn services_keep_their_addresses() {
    let address = "10.96.0.7";
    let node_port = service(json!({
        "type": "NodePort", "clusterIP": address, "ports": [{"port": 80, "nodePort": 30080}],
    }));
    let stored = good("Service", node_port, None);
    assert_eq!(stored["spec"]["externalTrafficPolicy"], "Cluster");
    // A user who writes what they know of it does not lose what was allocated.
    let short = good("Service", service(json!({"type": "NodePort", "ports": [{"port": 80}]})), Some(&stored));
    assert_eq!(short["spec"], stored["spec"]);
    let moved = service(json!({"type": "NodePort", "clusterIP": "10.96.0.8", "ports": [{"port": 80}]}));
    assert_eq!(
        wrong("Service", moved, Some(&stored)),
        ["spec.clusterIPs[0]: Invalid value: \"10.96.0.8\": field is immutable"]
    );
    // The type takes with it what only it has a use for.
    let internal = good("Service", with(stored.clone(), "type", json!("ClusterIP")), Some(&stored));
    assert!(internal["spec"].get("externalTrafficPolicy").is_none());
    assert!(internal["spec"]["ports"][0].get("nodePort").is_none());
    assert_eq!(internal["spec"]["clusterIP"], address);
    let mut external = with(internal.clone(), "type", json!("ExternalName"));
    external["spec"]["externalName"] = "example.com".into();
    let external = good("Service", external, Some(&internal));
    assert!(external["spec"].get("clusterIP").is_none() && external["spec"].get("clusterIPs").is_none());
    let back = good("Service", with(external.clone(), "type", json!("ClusterIP")), Some(&external));
    assert!(back["spec"].get("externalName").is_none());
}

#[test]
fn wrong_services_are_refused_in_upstreams_words() {
    for (spec, expected) in [
        (json!({}), "spec.ports: Required value"),
        (
            json!({"ports": [{"port": 0}]}),
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (json!({"type": "ExternalName"}), "spec.externalName: Required value"),
        (
            json!({"ports": [{"port": 1, "nodePort": 30000}]}),
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
        (
            json!({"clusterIP": "x", "ports": [{"port": 1}]}),
            "spec.clusterIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
    ] {
        assert_eq!(wrong("Service", service(spec), None).first().map(String::as_str), Some(expected));
    }
}

#[test]
fn namespaces_have_their_label_and_finalizer() {
    let stored = good("Namespace", json!({"metadata": {"name": "n"}, "status": {"phase": "Terminating"}}), None);
    assert_eq!(stored["metadata"]["labels"], json!({NAMESPACE_NAME_LABEL: "n"}));
    assert_eq!(stored["spec"]["finalizers"], json!([NAMESPACE_FINALIZER]));
    assert_eq!(stored["status"], json!({"phase": "Active"}));
    // An update without a spec does not let go of it.
    let updated = good("Namespace", json!({"metadata": {"name": "n"}}), Some(&stored));
    assert_eq!(updated["spec"], stored["spec"]);
}

#[test]
fn nodes_register_whole_and_keep_their_range() {
    let node = json!({
        "metadata": {"name": "n"}, "spec": {"podCIDR": "10.244.1.0/24"},
        "status": {"capacity": {"cpu": "1", "memory": "524288Ki"}},
    });
    let stored = good("Node", node, None);
    assert_eq!(stored["spec"]["podCIDRs"], json!(["10.244.1.0/24"]));
    assert_eq!(stored["status"]["allocatable"], json!({"cpu": "1", "memory": "512Mi"}));
    let mut moved = stored.clone();
    moved["spec"] = json!({"podCIDR": "10.244.2.0/24"});
    assert!(wrong("Node", moved, Some(&stored))[0].starts_with("spec.podCIDRs: Forbidden"));
    let twice = json!([{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "NoSchedule"}]);
    assert!(wrong("Node", with(stored.clone(), "taints", twice), Some(&stored))[0].contains("Duplicate value"));
    let unknown = json!([{"key": "k", "effect": "Sometimes"}]);
    assert!(wrong("Node", with(stored.clone(), "taints", unknown), Some(&stored))[0].contains("Unsupported value"));
}

#[test]
fn config_is_checked() {
    for (kind, object, expected) in [
        ("ConfigMap", json!({"data": {"a b": ""}}), "data[a b]: Invalid value: \"a b\""),
        ("ConfigMap", json!({"data": {"a": ""}, "binaryData": {"a": ""}}), "data[a]: Invalid value: \"a\": duplicate"),
        (
            "ConfigMap",
            json!({"data": {"a": "x".repeat(1024 * 1024 + 1)}}),
            "[]: Too long: may not be more than 1048576",
        ),
        ("Secret", json!({"type": "kubernetes.io/tls", "data": {}}), "data[tls.crt]: Required value"),
    ] {
        let mut object = object;
        object["metadata"] = json!({"name": "c"});
        let errors = wrong(kind, object, None);
        assert!(errors[0].starts_with(expected), "{errors:?}");
    }
    let secret = good("Secret", json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}}), None);
    assert_eq!((&secret["type"], &secret["data"]), (&json!("Opaque"), &json!({"a": "Yg=="})));
    assert!(secret.get("stringData").is_none());
}
