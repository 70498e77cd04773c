use super::*;

const UID: &str = "00010203-04aa-4bbb-8ccc-dddddddddddd";

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "n", "uid": UID}, "spec": spec})
}

fn containers() -> Value {
    json!({"initContainers": [{"name": "i"}], "containers": [{"name": "a"}, {"name": "b"}]})
}

#[test]
fn every_container_gets_the_token() {
    let mut admitted = pod(containers());
    assert_eq!(pod_needs(&admitted), PodNeeds { service_account: Some("default"), priority_class: None });
    admit_pod(&mut admitted, None, None).unwrap();
    let spec = &admitted["spec"];
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["serviceAccount"], "default");
    let volume = "kube-api-access-bcdfg";
    let mount = json!([{"name": volume, "mountPath": TOKEN_PATH, "readOnly": true}]);
    assert_eq!(spec["initContainers"][0]["volumeMounts"], mount);
    assert_eq!(spec["containers"][1]["volumeMounts"], mount);
    assert_eq!(spec["volumes"][0]["name"], volume);
    assert_eq!(spec["volumes"][0]["projected"]["sources"].as_array().unwrap().len(), 3);
    let before = admitted.clone();
    admit_pod(&mut admitted, None, None).unwrap();
    assert_eq!(before, admitted, "a second time changes nothing");
}

#[test]
fn who_says_no_gets_no_token() {
    let (yes, no) = (json!({"automountServiceAccountToken": true}), json!({"automountServiceAccountToken": false}));
    // (the Pod, its account, token)
    let table = [
        (Value::Null, json!({}), true),
        (Value::Null, no.clone(), false),
        (json!(true), no, true),
        (json!(false), yes, false),
    ];
    for (wish, account, expected) in table {
        let mut admitted = pod(containers());
        if wish.is_boolean() {
            admitted["spec"]["automountServiceAccountToken"] = wish.clone();
        }
        admit_pod(&mut admitted, Some(&account), None).unwrap();
        assert_eq!(admitted["spec"].get("volumes").is_some(), expected, "{wish} {account}");
    }
}

#[test]
fn a_mount_of_the_users_own_stays() {
    let own = json!({"containers": [{"name": "a", "volumeMounts": [{"name": "v", "mountPath": TOKEN_PATH}]}]});
    let mut admitted = pod(own.clone());
    admit_pod(&mut admitted, None, None).unwrap();
    assert_eq!(admitted["spec"]["containers"], own["containers"]);
    assert!(admitted["spec"].get("volumes").is_none());
}

#[test]
fn accounts_give_their_pull_secrets() {
    let account = json!({"imagePullSecrets": [{"name": "s"}]});
    let mut admitted = pod(containers());
    admit_pod(&mut admitted, Some(&account), None).unwrap();
    assert_eq!(admitted["spec"]["imagePullSecrets"], account["imagePullSecrets"]);
    let mut own = pod(containers());
    own["spec"]["imagePullSecrets"] = json!([{"name": "mine"}]);
    admit_pod(&mut own, Some(&account), None).unwrap();
    assert_eq!(own["spec"]["imagePullSecrets"][0]["name"], "mine");
}

#[test]
fn unknown_accounts_and_classes_forbid() {
    let mut unknown = pod(json!({"serviceAccountName": "a"}));
    let why = admit_pod(&mut unknown, None, None).unwrap_err();
    assert_eq!(why, "error looking up service account n/a: serviceaccount \"a\" not found");
    let mut unknown = pod(json!({"priorityClassName": "c"}));
    assert_eq!(pod_needs(&unknown).priority_class, Some("c"));
    assert_eq!(admit_pod(&mut unknown, None, None).unwrap_err(), "no PriorityClass with name c was found");
}

#[test]
fn a_class_gives_its_number() {
    let class = json!({"value": 7, "preemptionPolicy": "Never"});
    let mut admitted = pod(json!({"priorityClassName": "c"}));
    admit_pod(&mut admitted, None, Some(&class)).unwrap();
    assert_eq!(admitted["spec"]["priority"], 7);
    assert_eq!(admitted["spec"]["preemptionPolicy"], "Never");
    let mut other = pod(json!({"priorityClassName": "c", "priority": 8}));
    assert!(admit_pod(&mut other, None, Some(&class)).unwrap_err().contains("computed 7"));
}

#[test]
fn mirrors_are_left_alone() {
    let mut mirror = pod(containers());
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let before = mirror.clone();
    assert_eq!(pod_needs(&mirror).service_account, None);
    admit_pod(&mut mirror, None, None).unwrap();
    assert_eq!(mirror, before);
}

#[test]
fn pods_leave_lost_nodes_after_a_while() {
    let mut plain = pod(json!({}));
    prepare(&mut plain);
    let keys: Vec<_> = list(&plain["spec"], "tolerations").iter().map(|t| text(t, "key")).collect();
    assert_eq!(keys, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
    assert_eq!(plain["spec"]["tolerations"][0]["tolerationSeconds"], 300);
    assert_eq!(plain["spec"]["priority"], 0);
    for own in [
        json!([{"operator": "Exists"}]),
        json!([
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
        ]),
    ] {
        let mut tolerant = pod(json!({"tolerations": own}));
        prepare(&mut tolerant);
        assert_eq!(tolerant["spec"]["tolerations"], own);
    }
}
