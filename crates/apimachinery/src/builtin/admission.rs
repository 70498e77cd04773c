//! What a new Pod gets from its surroundings: the ServiceAccount it runs as and that account's token,
//! and the number of its PriorityClass.
//!
//! These decisions need two other objects, which is why they are no [`crate::definition::Rules`]:
//! the registry asks [`pod_needs`] what to read and gives what it found to [`admit_pod`], after the
//! Pod was prepared and before it is validated.

use super::base::{DEFAULT_SERVICE_ACCOUNT, ROOT_CA_CONFIG_MAP};
use super::value::{default_text, each, existing, is_empty, is_set, list, set, text};
use serde_json::{Value, json};

/// Where containers find the token of their ServiceAccount.
pub const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Annotation of a Pod that only mirrors what a node runs by itself.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Lifetime of a token in seconds: an hour, told apart from an hour that somebody asked for.
const TOKEN_LIFETIME: i64 = 3607;
/// Letters and digits that are hard to mistake and spell no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Names of the objects that decide about a new Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodNeeds<'a> {
    /// ServiceAccount in the Pod's namespace.
    pub service_account: Option<&'a str>,
    /// PriorityClass of the cluster.
    pub priority_class: Option<&'a str>,
}

/// What must be read before a new Pod is admitted.
#[must_use]
pub fn pod_needs(pod: &Value) -> PodNeeds<'_> {
    let class = text(&pod["spec"], "priorityClassName");
    PodNeeds {
        service_account: (!is_mirror(pod)).then(|| service_account_name(pod)),
        priority_class: (!class.is_empty()).then_some(class),
    }
}

/// Completes a new Pod, which has its final uid, with what its ServiceAccount and its PriorityClass
/// say.
///
/// The account `default` may be missing: its controller may not have come to a new namespace yet,
/// and it says nothing.
///
/// # Errors
/// Why the Pod is forbidden.
pub fn admit_pod(
    pod: &mut Value,
    service_account: Option<&Value>,
    priority_class: Option<&Value>,
) -> Result<(), String> {
    let class = text(&pod["spec"], "priorityClassName").to_owned();
    match priority_class {
        None if !class.is_empty() => return Err(format!("no PriorityClass with name {class} was found")),
        None => {}
        Some(class) => prioritize(pod, class)?,
    }
    if is_mirror(pod) {
        return Ok(());
    }
    let name = service_account_name(pod).to_owned();
    if service_account.is_none() && name != DEFAULT_SERVICE_ACCOUNT {
        let namespace = text(&pod["metadata"], "namespace");
        return Err(format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"));
    }
    let suffix = suffix(text(&pod["metadata"], "uid"));
    let Some(spec) = existing(pod, "spec") else {
        return Ok(());
    };
    set(spec, "serviceAccountName", name.as_str());
    set(spec, "serviceAccount", name.as_str());
    if let Some(secrets) = service_account.map(|account| list(account, "imagePullSecrets"))
        && !secrets.is_empty()
        && is_empty(spec, "imagePullSecrets")
    {
        set(spec, "imagePullSecrets", secrets.to_vec());
    }
    if wants_token(spec, service_account) {
        mount_token(spec, &format!("kube-api-access-{suffix}"));
    }
    Ok(())
}

fn is_mirror(pod: &Value) -> bool {
    is_set(&pod["metadata"]["annotations"], MIRROR)
}

fn service_account_name(pod: &Value) -> &str {
    let name = text(&pod["spec"], "serviceAccountName");
    if name.is_empty() { DEFAULT_SERVICE_ACCOUNT } else { name }
}

/// A Pod's own word counts before its account's; a token is wanted unless one of them says no.
fn wants_token(spec: &Value, service_account: Option<&Value>) -> bool {
    let says = |of: &Value| of.get("automountServiceAccountToken").and_then(Value::as_bool);
    says(spec).or_else(|| service_account.and_then(says)).unwrap_or(true)
}

fn mount_token(spec: &mut Value, volume: &str) {
    let mut mounted = false;
    for containers in ["initContainers", "containers"] {
        for container in each(spec, containers) {
            if list(container, "volumeMounts").iter().any(|mount| text(mount, "mountPath") == TOKEN_PATH) {
                continue;
            }
            mounted = true;
            append(container, "volumeMounts", json!({"name": volume, "mountPath": TOKEN_PATH, "readOnly": true}));
        }
    }
    if mounted && !list(spec, "volumes").iter().any(|existing| text(existing, "name") == volume) {
        append(spec, "volumes", token_volume(volume));
    }
}

fn token_volume(name: &str) -> Value {
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    json!({
        "name": name,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_LIFETIME, "path": "token"}},
                {"configMap": {"name": ROOT_CA_CONFIG_MAP, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
            ],
        },
    })
}

fn append(value: &mut Value, key: &str, item: Value) {
    if let Some(fields) = value.as_object_mut() {
        match fields.entry(key).or_insert(Value::Null) {
            Value::Array(items) => items.push(item),
            field => *field = json!([item]),
        }
    }
}

/// Five characters that follow from a uid.
fn suffix(uid: &str) -> String {
    let digits: Vec<u32> = uid.chars().filter_map(|c| c.to_digit(16)).take(10).collect();
    digits
        .chunks(2)
        .map(|pair| {
            let byte = pair.iter().fold(0, |byte, digit| byte * 16 + digit);
            char::from(ALPHABET[byte as usize % ALPHABET.len()])
        })
        .collect()
}

/// A class gives its number; a number that a user gave must be the same.
fn prioritize(pod: &mut Value, class: &Value) -> Result<(), String> {
    let value = class.get("value").and_then(Value::as_i64).unwrap_or(0);
    let policy = class.get("preemptionPolicy").and_then(Value::as_str).unwrap_or(PREEMPT);
    set_priority(pod, value, policy)
}

const PREEMPT: &str = "PreemptLowerPriority";

fn set_priority(pod: &mut Value, value: i64, policy: &str) -> Result<(), String> {
    let Some(spec) = existing(pod, "spec") else {
        return Ok(());
    };
    if let Some(given) = spec.get("priority").and_then(Value::as_i64).filter(|given| *given != value) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; \
             priority admission controller computed {value} from the given PriorityClass name"
        ));
    }
    set(spec, "priority", value);
    default_text(spec, "preemptionPolicy", policy);
    Ok(())
}

/// What a new Pod gets without a look at anything else: the priority of a Pod without class, and how
/// long it stays on a node that is lost.
pub(super) fn prepare(pod: &mut Value) {
    const SECONDS: i64 = 300;
    let Some(spec) = existing(pod, "spec") else {
        return;
    };
    if is_empty(spec, "priorityClassName") {
        super::value::default(spec, "priority", 0);
        default_text(spec, "preemptionPolicy", PREEMPT);
    }
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list(spec, "tolerations").iter().any(|toleration| {
            let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (key == taint || key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerated {
            let toleration =
                json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS});
            append(spec, "tolerations", toleration);
        }
    }
}

#[cfg(test)]
mod tests;
