//! Tests of `parse`.
#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

#[test]
fn names_duplicate_keys() {
    let (value, duplicates) = strict(br#"{"a":1,"b":{"c":1,"c":2},"l":[{"x":1},{"x":1,"x":3,"x":4}],"a":9}"#).unwrap();
    assert_eq!(value["a"], 9);
    assert_eq!(value["l"][1]["x"], 4);
    assert_eq!(duplicates, ["b.c", "l[1].x", "a"]);
}

#[test]
fn says_what_go_says() {
    for (body, want) in [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("{\"a\":", "unexpected end of JSON input"),
        ("xyz", "invalid character 'x' looking for beginning of value"),
        ("{\"a\":xyz}", "invalid character 'x' looking for beginning of value"),
        ("{\"a\":1}\n x", "invalid character 'x' after top-level value"),
        ("{\"a\":1 \"b\":2}", "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
    ] {
        let want = format!("couldn't get version/kind; json parse error: {want}");
        assert_eq!(strict(body.as_bytes()).unwrap_err(), want, "{body}");
    }
}

#[test]
fn bounds_nesting() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(strict(deep.as_bytes()).unwrap_err().ends_with("exceeded max depth"));
    let (value, _) = strict(b"[[{}]]").unwrap();
    assert!(depth_within(&value, 3));
    assert!(!depth_within(&value, 2));
}

#[test]
fn complains_as_upstream() {
    assert_eq!(strict_decoding_error(&[], &[]), None);
    assert_eq!(
        strict_decoding_error(&["spec.foo".into()], &["a".into()]).unwrap(),
        r#"strict decoding error: unknown field "spec.foo", duplicate field "a""#
    );
}

proptest! {
    #[test]
    fn never_panics_and_agrees_with_serde(text in "[\\[\\]{}\",:0-9a-e \\\\n\u{e9}-]{0,60}") {
        prop_assert_eq!(value(text.as_bytes()).is_ok(), serde_json::from_str::<Value>(&text).is_ok());
    }
}
