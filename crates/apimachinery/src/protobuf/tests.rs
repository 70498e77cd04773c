//! Bodies as clients write them, and bodies that are broken.

use super::*;

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let byte = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        if number == 0 {
            out.push(byte);
            return out;
        }
        out.push(byte | 0x80);
    }
}

fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value.cast_unsigned())].concat()
}

fn bytes(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [bytes(1, api_version), bytes(2, kind)].concat();
    [MAGIC.to_vec(), bytes(1, type_meta), bytes(2, raw), bytes(3, ""), bytes(4, "")].concat()
}

#[test]
fn the_table_is_whole() {
    for (name, fields) in table() {
        for field in fields.values() {
            if let Type::Message(inner) = field.type_ {
                assert!(table().contains_key(inner), "{name}.{}: {inner}", field.name);
            }
        }
    }
    for definition in crate::builtin::all() {
        let name = message_name(&definition.gvk.api_version(), &definition.gvk.kind);
        let fields = table().get(name.as_str()).unwrap_or_else(|| panic!("{name}"));
        for property in definition.schema.properties.keys().filter(|p| !matches!(p.as_str(), "apiVersion" | "kind")) {
            assert!(fields.values().any(|field| field.name == property), "{name}.{property}");
        }
    }
}

#[test]
fn a_deployment() {
    // metadata: a name; everything else as a client writes what is not set.
    let meta = [
        bytes(1, "web"),
        bytes(2, ""),
        number(7, 0),
        bytes(8, ""),
        bytes(11, [bytes(1, "app"), bytes(2, "web")].concat()),
    ];
    let probe =
        bytes(1, bytes(2, [bytes(1, ""), bytes(2, [number(1, 1), number(2, 0), bytes(3, "http")].concat())].concat()));
    let volume = [bytes(1, "tmp"), bytes(2, bytes(2, bytes(1, "")))].concat();
    let limit = [bytes(1, "cpu"), bytes(2, bytes(1, "100m"))].concat();
    let port = [bytes(1, ""), number(2, 0), number(3, 80)].concat();
    let container =
        [bytes(1, "c"), bytes(2, "nginx"), bytes(5, ""), bytes(6, port), bytes(8, bytes(1, limit)), bytes(10, probe)];
    let pod = [bytes(1, volume), bytes(2, container.concat()), number(4, 0), number(11, 0), bytes(10, "")].concat();
    let rolling = bytes(1, [number(1, 0), number(2, 0), bytes(3, "")].concat());
    let spec = [number(1, 0), bytes(3, bytes(2, pod)), bytes(4, bytes(2, rolling)), number(5, 0)].concat();
    let raw = [bytes(1, meta.concat()), bytes(2, spec), bytes(3, "")].concat();
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 0,
            "strategy": {"rollingUpdate": {"maxUnavailable": 0}},
            "template": {"spec": {
                "terminationGracePeriodSeconds": 0,
                "volumes": [{"name": "tmp", "emptyDir": {}}],
                "containers": [{
                    "name": "c", "image": "nginx", "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "100m"}},
                    "livenessProbe": {"httpGet": {"port": "http"}},
                }],
            }},
        },
        "status": {},
    });
    assert_eq!(decode(&body("apps/v1", "Deployment", &raw)).unwrap(), expected);
}

#[test]
fn special_types() {
    let data = [bytes(1, "k"), bytes(2, [0xff, 0x00])].concat();
    let secret = decode(&body("v1", "Secret", &[bytes(2, data), bytes(3, "Opaque"), number(5, 0)].concat())).unwrap();
    assert_eq!((&secret["data"], &secret["immutable"]), (&json!({"k": "/wA="}), &json!(false)));
    let times = [bytes(8, [number(1, 1_700_000_000), number(2, 5)].concat())].concat();
    let event = decode(&body("v1", "Event", &bytes(1, times))).unwrap();
    assert_eq!(event["metadata"]["creationTimestamp"], "2023-11-14T22:13:20Z");
    let micro = bytes(4, [number(1, 1_700_000_000), number(2, 1_234_000)].concat());
    let lease = decode(&body("coordination.k8s.io/v1", "Lease", &bytes(2, micro))).unwrap();
    assert_eq!(
        lease["spec"]["acquireTime"].as_str().or(lease["spec"]["renewTime"].as_str()),
        Some("2023-11-14T22:13:20.001234Z")
    );
    let job = decode(&body("batch/v1", "Job", &bytes(2, number(3, -1)))).unwrap();
    assert_eq!(job["spec"]["activeDeadlineSeconds"], -1);
    let options = decode(&body("apps/v1", "DeleteOptions", &number(1, 0))).unwrap();
    assert_eq!(options["gracePeriodSeconds"], 0);
}

#[test]
fn broken_bodies() {
    assert_eq!(decode(&body("v1", "Nothing", b"")), Err(Error::UnknownType("v1 Nothing".into())));
    let pod = body("v1", "Pod", &bytes(1, bytes(1, "p")));
    for length in 0..pod.len() {
        // Whatever a prefix says, it is read or refused, not crashed on.
        let _ = decode(&pod[..length]);
    }
    assert!(decode(b"{}").is_err());
    for raw in [number(1, 5), bytes(99, ""), bytes(1, bytes(1, [0xff])), vec![0xff; 20], vec![0x0a, 0xff, 0xff, 0x7f]] {
        assert!(matches!(decode(&body("v1", "Pod", &raw)), Err(Error::Malformed(_))), "{raw:?}");
    }
}
