//! Tests of `schema`.
#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::json;

fn leaf(type_: &str) -> Arc<Schema> {
    Arc::new(Schema { type_: type_.into(), ..Schema::default() })
}

fn object(fields: Vec<(&str, Arc<Schema>)>) -> Schema {
    let properties = fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    Schema { type_: "object".into(), properties, ..Schema::default() }
}

fn list(items: Schema) -> Schema {
    Schema { type_: "array".into(), items: Some(Arc::new(items)), ..Schema::default() }
}

fn map(values: &Arc<Schema>) -> Schema {
    Schema { type_: "object".into(), additional_properties: Some(values.clone()), ..Schema::default() }
}

/// A schema in the manner of a Deployment.
fn deployment() -> Schema {
    let int32 = Arc::new(Schema {
        type_: "integer".into(),
        format: "int32".into(),
        default: Some(json!(1)),
        ..Schema::default()
    });
    let mut container = object(vec![("name", leaf("string")), ("tty", leaf("boolean"))]);
    container.component = Some("io.k8s.api.core.v1.Container".into());
    container.required = vec!["name".into()];
    let mut containers = list(container);
    containers.list_type = Some(ListType::Map);
    containers.list_map_keys = vec!["name".into()];
    let mut set = list((*leaf("string")).clone());
    set.list_type = Some(ListType::Set);
    let policy = Schema { type_: "string".into(), enum_: vec![json!("Always"), json!("Never")], ..Schema::default() };
    let quantity = Arc::new(Schema { type_: "string".into(), component: Some(QUANTITY.into()), ..Schema::default() });
    let mut spec = object(vec![
        ("replicas", int32),
        ("containers", Arc::new(containers)),
        ("set", Arc::new(set)),
        ("policy", Arc::new(policy)),
        ("limits", Arc::new(map(&quantity))),
        ("nodeSelector", Arc::new(map(&leaf("string")))),
        ("port", Arc::new(Schema { int_or_string: true, ..Schema::default() })),
        ("data", Arc::new(Schema { type_: "string".into(), format: "byte".into(), ..Schema::default() })),
        ("free", Arc::new(Schema { type_: "object".into(), preserve_unknown_fields: true, ..Schema::default() })),
        ("when", Arc::new(Schema { type_: "string".into(), format: "date-time".into(), ..Schema::default() })),
        (
            "maybe",
            Arc::new(Schema { type_: "string".into(), nullable: true, default: Some(json!("x")), ..Schema::default() }),
        ),
    ]);
    spec.component = Some("io.k8s.api.apps.v1.DeploymentSpec".into());
    object(vec![
        ("metadata", Arc::new(object(vec![("name", leaf("string")), ("labels", Arc::new(map(&leaf("string"))))]))),
        ("spec", Arc::new(spec)),
    ])
}

#[test]
fn names_and_prunes_unknown_fields() {
    let mut value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "extra": 1,
        "metadata": {"name": "a", "labels": {"any": "thing"}, "foo": 1},
        "spec": {"containers": [{"name": "a"}, {"name": "b", "foo": 1}], "free": {"any": {"thing": null}}, "nodeSelector": {"x": "y"}}
    });
    assert_eq!(deployment().unknown_fields(&value), ["extra", "metadata.foo", "spec.containers[1].foo"]);
    deployment().prune(&mut value);
    assert_eq!(deployment().unknown_fields(&value), Vec::<String>::new());
    assert_eq!(value["spec"]["free"], json!({"any": {"thing": null}}));
    assert_eq!(value["kind"], "Deployment");
    assert_eq!(value["metadata"]["labels"]["any"], "thing");
    assert!(value["spec"]["containers"][1].get("foo").is_none());
}

#[test]
fn drops_nulls_but_not_the_users_own() {
    let mut value = json!({"metadata": null, "spec": {"replicas": null, "containers": [{"name": "a", "tty": null}],
        "nodeSelector": {"x": null}, "free": {"any": null}}});
    deployment().drop_nulls(&mut value);
    assert_eq!(
        value,
        json!({"spec": {"containers": [{"name": "a"}], "nodeSelector": {"x": ""}, "free": {"any": null}}})
    );
}

#[test]
fn sets_defaults() {
    let mut value = json!({"spec": {"replicas": null, "maybe": null}});
    deployment().apply_defaults(&mut value);
    assert_eq!(value, json!({"spec": {"replicas": 1, "maybe": null}}));
    let mut value = json!({"spec": {}});
    deployment().apply_defaults(&mut value);
    assert_eq!(value, json!({"spec": {"replicas": 1, "maybe": "x"}}));
    let mut value = json!({});
    deployment().apply_defaults(&mut value);
    assert_eq!(value, json!({}));
}

#[test]
fn validates_in_upstreams_words() {
    let said = |spec: Value| -> Vec<String> {
        deployment().validate(&json!({ "spec": spec })).iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        said(
            json!({"replicas": 1.0, "containers": [{"name": "a"}], "limits": {"cpu": 1, "memory": "1Gi"}, "port": "http", "maybe": null})
        ),
        Vec::<String>::new()
    );
    assert_eq!(
        said(json!({"replicas": "3"})),
        [r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#]
    );
    assert_eq!(
        said(json!({"replicas": 3_000_000_000_u64})),
        ["spec.replicas: Invalid value: 3000000000: spec.replicas in body must be of type int32: 3000000000"]
    );
    assert_eq!(
        said(json!({"replicas": null})),
        [r#"spec.replicas: Invalid value: "null": spec.replicas in body must be of type integer: "null""#]
    );
    assert_eq!(said(json!({"containers": [{}]})), ["spec.containers[0].name: Required value"]);
    assert_eq!(
        said(json!({"containers": [{"name": "a"}, {"name": "a"}]})),
        [r#"spec.containers[1]: Duplicate value: {"name":"a"}"#]
    );
    assert_eq!(said(json!({"set": ["a", "b", "a"]})), [r#"spec.set[2]: Duplicate value: "a""#]);
    assert_eq!(
        said(json!({"policy": "Often"})),
        [r#"spec.policy: Unsupported value: "Often": supported values: "Always", "Never""#]
    );
    assert_eq!(
        said(json!({"when": "noon"})),
        [r#"spec.when: Invalid value: "noon": spec.when in body must be of type date-time: "noon""#]
    );
    assert_eq!(said(json!({"limits": {"cpu": "x"}})).len(), 1);
    assert_eq!(said(json!({"port": true})).len(), 1);
}

#[test]
fn decoding_fails_in_gos_words() {
    let said = |spec: Value| deployment().decode_error(&json!({ "spec": spec }), "Deployment", "v1");
    let because = |why: &str| Some(format!("Deployment in version \"v1\" cannot be handled as a Deployment: {why}"));
    assert_eq!(
        said(
            json!({"replicas": 3, "containers": [{"name": "a"}], "limits": {"cpu": 1}, "port": 1, "data": "YQ==", "maybe": null})
        ),
        None
    );
    assert_eq!(
        said(json!({"replicas": "3"})),
        because("json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32")
    );
    assert_eq!(
        said(json!({"replicas": 1.5})),
        because("json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32")
    );
    assert_eq!(
        said(json!({"containers": "a"})),
        because(
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.containers of type []v1.Container"
        )
    );
    assert_eq!(
        said(json!({"containers": [{"tty": "yes"}]})),
        because("json: cannot unmarshal string into Go struct field Container.spec.containers.tty of type bool")
    );
    assert_eq!(
        said(json!({"nodeSelector": {"a": true}})),
        because("json: cannot unmarshal bool into Go struct field DeploymentSpec.spec.nodeSelector of type string")
    );
    assert_eq!(
        said(json!([])),
        because("json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec")
    );
    assert_eq!(said(json!({"data": "!"})), because("illegal base64 data at input byte 0"));
    assert!(said(json!({"limits": {"cpu": "x"}})).unwrap().contains("quantities must match the regular expression"));
}

#[test]
fn finds_where_base64_ends() {
    for good in ["", "YQ==", "YWI=", "YWJj", "YW\nJj", "YWJjYQ=="] {
        assert_eq!(decode::base64_error(good), None, "{good}");
    }
    for (bad, at) in
        [("YQ", 0), ("Y", 0), ("YWJjYQ", 4), ("YQ=", 1), ("=", 0), ("Y===", 1), ("YQ==YQ==", 4), ("a b", 1)]
    {
        assert_eq!(decode::base64_error(bad), Some(at), "{bad}");
    }
}
