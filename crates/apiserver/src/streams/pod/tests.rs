//! Choosing the container, in Kubernetes' words.

use super::Target;
use crate::request::{ClusterScope, RequestContext, RequestInfo};
use apimachinery::auth::UserInfo;
use serde_json::{Value, json};

fn context() -> RequestContext {
    RequestContext {
        info: RequestInfo {
            cluster: ClusterScope::One("c".into()),
            verb: "get".into(),
            path: String::new(),
            resource: None,
            query: Vec::new(),
        },
        user: UserInfo::anonymous(),
    }
}

fn choose(spec: Value, asked: Option<&str>) -> Result<String, String> {
    let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec});
    let context = context();
    Target::of(&context, &pod).and_then(|target| target.container(asked)).map_err(|error| error.message)
}

#[test]
fn the_container_is_the_asked_the_only_or_must_be_said() {
    let two = json!({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]});
    assert_eq!(choose(json!({"containers": [{"name": "a"}]}), None).as_deref(), Ok("a"));
    assert_eq!(choose(two.clone(), Some("i")).as_deref(), Ok("i"));
    assert_eq!(choose(two.clone(), Some("x")).unwrap_err(), "container x is not valid for pod p");
    assert_eq!(
        choose(two, None).unwrap_err(),
        "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]"
    );
}

#[test]
fn a_pod_without_a_node_is_refused_in_kubernetes_words() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {}});
    let context = context();
    let error = Target::of(&context, &pod).and_then(|target| target.node().map(str::to_owned)).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (400, "pod p does not have a host assigned"));
}
