//! Tests of `selector`.
#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn matches_the_whole_grammar() {
    let have = labels(&[("app", "web"), ("tier", "front"), ("n", "7"), ("empty", "")]);
    for (text, want) in [
        ("", true),
        ("app", true),
        ("!app", false),
        ("!gone", true),
        ("app=web", true),
        ("app==web", true),
        ("app = web , tier", true),
        ("app!=web", false),
        ("gone!=x", true),
        ("app in (web,api)", true),
        ("app in (api)", false),
        ("app notin (web)", false),
        ("gone notin (web)", true),
        ("n gt 6", true),
        ("n>7", false),
        ("n lt 8", true),
        ("n<7", false),
        ("app>1", false),
        ("empty=", true),
        ("empty=,app=web", true),
        ("app in (,web)", true),
        ("empty in ()", true),
        ("app=in", false),
        ("app,tier=front,n in (7)", true),
        ("example.com/x notin (a,b)", true),
    ] {
        assert_eq!(LabelSelector::parse(text).unwrap().matches(&have), want, "{text}");
    }
    assert!(LabelSelector::parse("in=in").unwrap().matches(&labels(&[("in", "in")])));
    assert!(LabelSelector::parse("a=b").unwrap().matches(&json!({"a": "b"})));
    assert!(!LabelSelector::parse("a=b").unwrap().matches(&Value::Null));
    assert!(LabelSelector::parse("a=b").unwrap().matches(&[("a", "b")][..]));
}

#[test]
fn refuses_in_upstreams_words() {
    for (text, want) in [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a,", "found '', expected: identifier after ','"),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        (
            "n gt x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ] {
        let error = LabelSelector::parse(text).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (400, want), "{text}");
    }
    let error = LabelSelector::parse("_x=1").unwrap_err().message;
    assert!(
        error.starts_with("unable to parse requirement: <nil>: Invalid value: \"_x\": name part must consist of"),
        "{error}"
    );
    let error = LabelSelector::parse("x=-").unwrap_err().message;
    assert!(
        error.starts_with("unable to parse requirement: values[0][x]: Invalid value: \"-\": a valid label must be"),
        "{error}"
    );
}

#[test]
fn reads_the_object_form() {
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "gone", "operator": "DoesNotExist"}]});
    let selector = LabelSelector::from_object(&selector).unwrap();
    assert_eq!(selector.to_string(), "app=web,!gone,tier in (a,b)");
    assert!(selector.matches(&labels(&[("app", "web"), ("tier", "b")])));
    assert!(!selector.matches(&labels(&[("app", "web"), ("tier", "c")])));
    assert!(LabelSelector::from_object(&json!({})).unwrap().matches(&labels(&[])));
    assert!(!LabelSelector::from_object(&Value::Null).unwrap().matches(&labels(&[])));
    let bad = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    assert_eq!(
        LabelSelector::from_object(&bad).unwrap_err().message,
        "\"Near\" is not a valid label selector operator"
    );
    let bad = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
    assert!(LabelSelector::from_object(&bad).unwrap_err().message.contains("values set can't be empty"));
    assert!(!LabelSelector::from_labels(&json!({})).matches(&labels(&[])));
    assert!(LabelSelector::from_labels(&json!({"app": "web"})).matches(&labels(&[("app", "web")])));
}

#[test]
fn selects_by_field() {
    let selector = FieldSelector::parse(r"metadata.name=a\,b\=c\\,spec.nodeName!=n,status.phase==Running").unwrap();
    assert_eq!(selector.fields().collect::<Vec<_>>(), ["metadata.name", "spec.nodeName", "status.phase"]);
    assert_eq!(selector.exact("metadata.name"), Some(r"a,b=c\"));
    let object = |path: &str| match path {
        "metadata.name" => Some(r"a,b=c\".to_owned()),
        "status.phase" => Some("Running".to_owned()),
        _ => None,
    };
    assert!(selector.matches(object));
    assert!(!selector.matches(|path| if path == "spec.nodeName" { Some("n".into()) } else { object(path) }));
    assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
    assert!(FieldSelector::parse("").unwrap().is_everything());
    assert!(FieldSelector::parse("spec.nodeName=").unwrap().matches(|_| None));
}

#[test]
fn refuses_bad_field_selectors() {
    assert_eq!(FieldSelector::parse("foo").unwrap_err().message, "invalid selector: 'foo'; can't understand 'foo'");
    assert!(FieldSelector::parse("a=b=c").unwrap_err().message.contains("unescaped character in value: ="));
    assert!(FieldSelector::parse(r"a=\x").unwrap_err().message.contains(r"invalid escape sequence: \x"));
    let selector = FieldSelector::parse("metadata.name=a,spec.foo=b").unwrap();
    assert_eq!(selector.check(&[]).unwrap_err().message, "field label not supported: spec.foo");
    assert!(selector.check(&["spec.foo".into()]).is_ok());
}

proptest! {
    #[test]
    fn never_panics(text in "[a-z0-9 ,=!()<>\\\\.é-]{0,40}") {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }

    #[test]
    fn printing_and_parsing_agree(text in "!?[a-z]{1,3}((=|!=| in \\(|>)[0-9]{0,3})?(,[a-z]{1,3} notin \\([a-z]{0,2},[a-z]{0,2}\\)){0,2}") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
        }
    }

    #[test]
    fn not_in_is_the_opposite_of_in(value in "[ab]{0,2}", set in proptest::collection::vec("[ab]{0,2}", 1..4)) {
        let have = labels(&[("k", &value)]);
        let inside = LabelSelector::parse(&format!("k in ({})", set.join(","))).unwrap();
        let outside = LabelSelector::parse(&format!("k notin ({})", set.join(","))).unwrap();
        prop_assert_eq!(inside.matches(&have), set.contains(&value));
        prop_assert_ne!(inside.matches(&have), outside.matches(&have));
    }
}
