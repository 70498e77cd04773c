use super::*;

#[test]
fn the_account_and_the_bundle_are_named_in_their_namespace() {
    let metadata = named("team", ACCOUNT);
    assert_eq!((metadata.namespace.as_deref(), metadata.name.as_deref()), (Some("team"), Some("default")));
}
