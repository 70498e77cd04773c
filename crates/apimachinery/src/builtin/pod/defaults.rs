//! What upstream fills in of a Pod, or of the Pod template of a workload.

use crate::builtin::value::{default, default_text, each, existing, flag, int, is_empty, is_set, object, set, text};
use crate::quantity::Quantity;
use serde_json::{Value, json};

const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// `0644`.
const FILE_MODE: i64 = 0o644;

/// Defaults of a Pod's spec. Some are a Pod's only, so that changing them later does not change the
/// templates that users wrote.
pub(in crate::builtin) fn pod(spec: &mut Value) {
    template_spec(spec);
    default(spec, "enableServiceLinks", true);
    let host_network = flag(spec, "hostNetwork");
    for containers in ["initContainers", "containers"] {
        for container in each(spec, containers) {
            requests_from_limits(container);
            for port in each(container, "ports").filter(|_| host_network) {
                if int(port, "hostPort").unwrap_or(0) == 0 {
                    let container_port = port.get("containerPort").cloned().unwrap_or_default();
                    set(port, "hostPort", container_port);
                }
            }
        }
    }
}

/// Defaults of a Pod template: `template` is the object with `metadata` and `spec`.
pub(in crate::builtin) fn template(template: &mut Value) {
    if let Some(spec) = existing(template, "spec") {
        template_spec(spec);
    }
}

fn template_spec(spec: &mut Value) {
    default_text(spec, "restartPolicy", "Always");
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "schedulerName", "default-scheduler");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "securityContext", json!({}));
    service_account(spec);
    for containers in CONTAINER_LISTS {
        for item in each(spec, containers) {
            container(item);
        }
    }
    for item in each(spec, "volumes") {
        volume(item);
    }
}

/// `serviceAccount` is an older name of `serviceAccountName`; both are always served.
fn service_account(spec: &mut Value) {
    let (name, alias) = (text(spec, "serviceAccountName").to_owned(), text(spec, "serviceAccount").to_owned());
    if !name.is_empty() {
        set(spec, "serviceAccount", name);
    } else if !alias.is_empty() {
        set(spec, "serviceAccountName", alias);
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(container, "image"));
    default_text(container, "imagePullPolicy", policy);
    default_text(container, "terminationMessagePath", "/dev/termination-log");
    default_text(container, "terminationMessagePolicy", "File");
    default(container, "resources", json!({}));
    if let Some(resources) = existing(container, "resources") {
        canonical_quantities(resources, "limits");
        canonical_quantities(resources, "requests");
    }
    for port in each(container, "ports") {
        default_text(port, "protocol", "TCP");
    }
    for env in each(container, "env") {
        if let Some(from) = existing(env, "valueFrom") {
            field_ref(from);
            if let Some(file) = existing(from, "fileKeyRef") {
                default(file, "optional", false);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = existing(container, name) {
            default_number(probe, "timeoutSeconds", 1);
            default_number(probe, "periodSeconds", 10);
            default_number(probe, "successThreshold", 1);
            default_number(probe, "failureThreshold", 3);
            http_get(probe);
            if let Some(grpc) = existing(probe, "grpc") {
                default(grpc, "service", "");
            }
        }
    }
    if let Some(lifecycle) = existing(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = existing(lifecycle, hook) {
                http_get(hook);
            }
        }
    }
}

/// `Always` for the tag `latest`, said or implied; `IfNotPresent` for another tag or a digest.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
        None if digest => "IfNotPresent",
        None => "Always",
    }
}

fn http_get(handler: &mut Value) {
    if let Some(get) = existing(handler, "httpGet") {
        default_text(get, "path", "/");
        default_text(get, "scheme", "HTTP");
    }
}

fn field_ref(from: &mut Value) {
    if let Some(field) = existing(from, "fieldRef") {
        default_text(field, "apiVersion", "v1");
    }
}

/// In a probe, zero is absent.
fn default_number(value: &mut Value, key: &str, number: i64) {
    if int(value, key).unwrap_or(0) == 0 {
        set(value, key, number);
    }
}

/// Quantities are kept in their canonical form: `0.5` becomes `500m`.
pub(in crate::builtin) fn canonical_quantities(value: &mut Value, key: &str) {
    for quantity in value.get_mut(key).and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut()) {
        if let Ok(parsed) = Quantity::from_value(quantity) {
            *quantity = parsed.to_string().into();
        }
    }
}

/// A limit without a request is a request too.
fn requests_from_limits(container: &mut Value) {
    let Some(resources) = existing(container, "resources").filter(|resources| !is_empty(resources, "limits")) else {
        return;
    };
    let limits = resources.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(requests) = object(resources, "requests") {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

fn volume(volume: &mut Value) {
    let sources =
        volume.as_object().map_or(0, |fields| fields.iter().filter(|(k, v)| *k != "name" && !v.is_null()).count());
    if sources == 0 {
        set(volume, "emptyDir", json!({}));
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = existing(volume, name) {
            default(source, "defaultMode", FILE_MODE);
            downward_items(source);
            for projection in each(source, "sources") {
                if let Some(token) = existing(projection, "serviceAccountToken") {
                    default(token, "expirationSeconds", 3600);
                }
                if let Some(downward) = existing(projection, "downwardAPI") {
                    downward_items(downward);
                }
            }
        }
    }
    if let Some(host_path) = existing(volume, "hostPath") {
        default(host_path, "type", "");
    }
    if let Some(claim) = existing(volume, "ephemeral").and_then(|e| existing(e, "volumeClaimTemplate"))
        && let Some(spec) = existing(claim, "spec").filter(|spec| !is_set(spec, "volumeMode"))
    {
        set(spec, "volumeMode", "Filesystem");
    }
}

fn downward_items(source: &mut Value) {
    for item in each(source, "items") {
        field_ref(item);
    }
}
