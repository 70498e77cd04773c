use super::*;
use serde_json::json;

#[test]
fn string_data_becomes_data() {
    let mut secret = json!({"data": {"a": "b2xk"}, "stringData": {"a": "x", "b": "xy", "c": "xyz", "d": ""}});
    prepare_secret(&mut secret, None);
    assert_eq!(secret, json!({"data": {"a": "eA==", "b": "eHk=", "c": "eHl6", "d": ""}}));
}

fn details(errors: Vec<FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_immutable_stays() {
    let old = json!({"data": {"a": "b"}, "immutable": true});
    assert!(validate_config_map(&old, Some(&old)).is_empty());
    let new = json!({"data": {"a": "c"}});
    assert_eq!(
        details(validate_config_map(&new, Some(&old))),
        [
            "immutable: Forbidden: field is immutable when `immutable` is set",
            "data: Forbidden: field is immutable when `immutable` is set"
        ]
    );
}

#[test]
fn size_and_encoding_are_checked() {
    let big = json!({"data": {"a": "x".repeat(LIMIT + 1)}});
    assert_eq!(details(validate_config_map(&big, None)).len(), 1);
    assert_eq!(details(validate_secret(&json!({"type": "Opaque", "data": {"a": "no!"}}), None)).len(), 1);
    assert!(validate_secret(&json!({"type": "Opaque", "data": {"a": "eA=="}}), None).is_empty());
}

#[test]
fn typed_secrets_have_their_keys() {
    let errors = validate_secret(&json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}), None);
    assert_eq!(details(errors), ["data[tls.key]: Required value"]);
    let old = json!({"type": "Opaque"});
    let errors = validate_secret(&json!({"type": "kubernetes.io/x"}), Some(&old));
    assert_eq!(details(errors), ["type: Invalid value: \"kubernetes.io/x\": field is immutable"]);
}
