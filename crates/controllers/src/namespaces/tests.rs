use super::*;

#[test]
fn every_namespaced_kind_goes_once() {
    let kinds = deletable(apimachinery::builtin::all());
    let has = |plural: &str, group: &str| {
        kinds.iter().filter(|kind| kind.kind.plural == plural && kind.kind.group == group).count()
    };
    assert_eq!(has("pods", ""), 1);
    assert_eq!(has("deployments", "apps"), 1);
    assert_eq!(has("configmaps", ""), 1);
    assert_eq!(has("nodes", ""), 0, "not in a namespace");
    assert_eq!(has("namespaces", ""), 0);
}

#[test]
fn conditions_tell_what_stays() {
    let mut remaining = Remaining::default();
    assert!(remaining.is_empty());
    let kind = ApiKind::of::<k8s_openapi::api::core::v1::Pod>();
    remaining.note(&kind, &[serde_json::json!({"metadata": {"finalizers": ["example.com/hold"]}})]);
    assert!(!remaining.is_empty());
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    let status = remaining.status(NamespaceStatus::default(), at(1));
    let conditions = status.conditions.clone().unwrap();
    let of = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    assert_eq!(of("NamespaceDeletionContentFailure").status, "False");
    assert_eq!(
        of("NamespaceContentRemaining").message.as_deref(),
        Some("Some resources are remaining: pods. has 1 resource instances")
    );
    assert!(of("NamespaceFinalizersRemaining").message.as_deref().unwrap().contains("example.com/hold in 1"));
    assert_eq!(remaining.status(status.clone(), at(9)), status, "nothing is news");
}
