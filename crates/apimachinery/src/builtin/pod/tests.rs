use super::*;
use crate::builtin::all;

/// Runs what the generic path runs on a create; the violations as texts.
fn create(spec: Value) -> (Value, Vec<String>) {
    let definition = all().iter().find(|definition| definition.gvk.kind == "Pod").unwrap();
    let metadata = json!({"name": "p", "namespace": "n", "uid": "00000000-0000-4000-8000-000000000000"});
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    default(&mut pod);
    prepare(&mut pod, None);
    definition.schema.apply_defaults(&mut pod);
    let mut errors = definition.schema.validate(&pod);
    errors.extend(validate(&pod, None));
    (pod, errors.iter().map(ToString::to_string).collect())
}

fn one(container: Value) -> Value {
    let mut container = container;
    for (key, value) in [("name", "c"), ("image", "i:1")] {
        if container.get(key).is_none() {
            container[key] = value.into();
        }
    }
    json!({"containers": [container]})
}

#[test]
fn a_plain_pod_gets_upstreams_defaults() {
    let (pod, errors) = create(one(json!({"ports": [{"containerPort": 80}]})));
    assert!(errors.is_empty(), "{errors:?}");
    let spec = &pod["spec"];
    for (key, expected) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("securityContext", json!({})),
        ("enableServiceLinks", json!(true)),
        ("priority", json!(0)),
        ("preemptionPolicy", json!("PreemptLowerPriority")),
    ] {
        assert_eq!(spec[key], expected, "{key}");
    }
    let container = &spec["containers"][0];
    assert_eq!(container["ports"][0]["protocol"], "TCP");
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    assert_eq!(container["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(container["resources"], json!({}));
    assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
}

#[test]
fn pull_policy_follows_from_the_tag() {
    for (image, policy) in [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("a:1", "IfNotPresent"),
        ("host:5000/a", "Always"),
        ("host:5000/a:1", "IfNotPresent"),
        ("a@sha256:0123", "IfNotPresent"),
        ("a:latest@sha256:0123", "Always"),
    ] {
        let (pod, _) = create(one(json!({"image": image})));
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], policy, "{image}");
    }
}

#[test]
fn quality_of_service_follows_from_resources() {
    for (resources, class) in [
        (json!({}), "BestEffort"),
        (json!({"requests": {"cpu": "0"}}), "BestEffort"),
        (json!({"requests": {"cpu": "100m"}}), "Burstable"),
        (json!({"limits": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed"),
        (
            json!({"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}),
            "Guaranteed",
        ),
        (json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}), "Burstable"),
    ] {
        let (pod, errors) = create(one(json!({"resources": resources})));
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(pod["status"]["qosClass"], class, "{resources}");
    }
}

#[test]
fn limits_are_requests_and_quantities_are_canonical() {
    let (pod, _) = create(one(json!({"resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}}})));
    let resources = &pod["spec"]["containers"][0]["resources"];
    assert_eq!(resources["limits"], json!({"cpu": "500m", "memory": "1Gi"}));
    assert_eq!(resources["requests"], resources["limits"]);
}

#[test]
fn wrong_pods_are_refused_in_upstreams_words() {
    let table = [
        (json!({"containers": []}), "spec.containers: Required value"),
        (json!({"containers": [{"name": "c"}]}), "spec.containers[0].image: Required value"),
        (one(json!({"name": ""})), "spec.containers[0].name: Required value"),
        (
            one(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ),
        (
            one(json!({"ports": [{"containerPort": 70000}]})),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            one(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        (
            one(json!({"livenessProbe": {"periodSeconds": 1}})),
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        ),
    ];
    for (spec, expected) in table {
        let (_, errors) = create(spec);
        assert_eq!(errors, [expected]);
    }
    let twice = json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]});
    assert!(create(twice).1.contains(&"spec.containers[1].name: Duplicate value: \"c\"".to_owned()));
}

#[test]
fn a_running_pod_hardly_changes() {
    let (pod, _) = create(one(json!({})));
    let changed = |change: fn(&mut Value)| {
        let mut new = pod.clone();
        change(&mut new);
        prepare(&mut new, Some(&pod));
        validate(&new, Some(&pod)).iter().map(|error| error.field.clone()).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(changed(|_| {}), none);
    assert_eq!(changed(|pod| pod["spec"]["containers"][0]["image"] = "i:2".into()), none);
    assert_eq!(changed(|pod| pod["spec"]["activeDeadlineSeconds"] = 5.into()), none);
    assert_eq!(changed(|pod| pod["spec"]["nodeName"] = "n".into()), none);
    assert_eq!(changed(|pod| pod["spec"]["hostNetwork"] = true.into()), ["spec"]);
    assert_eq!(changed(|pod| pod["spec"]["containers"][0]["command"] = json!(["x"])), ["spec"]);
    assert_eq!(changed(|pod| pod["spec"]["tolerations"] = json!([])), ["spec.tolerations"]);
    let grow = |pod: &mut Value| pod["spec"]["containers"] = json!([pod["spec"]["containers"][0], {"name": "d"}]);
    assert!(changed(grow).contains(&"spec.containers".to_owned()));
}

#[test]
fn a_creator_writes_no_status_and_no_ephemeral_containers() {
    let mut pod = json!({"spec": {"ephemeralContainers": [{"name": "e"}]}, "status": {"phase": "Running"}});
    prepare(&mut pod, None);
    assert_eq!(pod["status"]["phase"], "Pending");
    assert!(pod["spec"].get("ephemeralContainers").is_none());
}
