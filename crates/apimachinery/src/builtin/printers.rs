//! What `kubectl get` prints of the kinds other than Pods.

use super::columns::{
    NONE, UNKNOWN, age, between, count, joined, labels, name, number, or_none, string, wide, workload,
};
use super::value::{entries, flag, int, is_set, list, text};
use crate::definition::PrinterColumn;
use crate::table::translate_timestamp;
use jiff::Timestamp;
use serde_json::Value;

/// How many endpoints are shown before `+ n more...`.
const SHOWN_ENDPOINTS: usize = 3;

pub(super) fn deployment() -> Vec<PrinterColumn> {
    let mut columns = vec![
        name(),
        string("Ready", "Number of the pod with ready state.", |o, _| {
            let desired = int(&o["spec"], "replicas").unwrap_or(0);
            format!("{}/{desired}", count(&o["status"], "readyReplicas")).into()
        }),
        string("Up-to-date", "Pods that have the desired template.", |o, _| {
            count(&o["status"], "updatedReplicas").to_string().into()
        }),
        string("Available", "Pods that have been ready for long enough.", |o, _| {
            count(&o["status"], "availableReplicas").to_string().into()
        }),
        age(),
    ];
    columns.extend(workload());
    columns
}

pub(super) fn replica_set() -> Vec<PrinterColumn> {
    let mut columns = vec![
        name(),
        number("Desired", "Number of desired pods.", |o, _| count(&o["spec"], "replicas")),
        number("Current", "Most recently observed number of pods.", |o, _| count(&o["status"], "replicas")),
        number("Ready", "Pods with a Ready condition.", |o, _| count(&o["status"], "readyReplicas")),
        age(),
    ];
    columns.extend(workload());
    columns
}

pub(super) fn daemon_set() -> Vec<PrinterColumn> {
    let mut columns = vec![
        name(),
        number("Desired", "Nodes that should run the pod.", |o, _| count(&o["status"], "desiredNumberScheduled")),
        number("Current", "Nodes that run the pod and should.", |o, _| count(&o["status"], "currentNumberScheduled")),
        number("Ready", "Nodes where the pod is ready.", |o, _| count(&o["status"], "numberReady")),
        number("Up-to-date", "Nodes that run the updated pod.", |o, _| count(&o["status"], "updatedNumberScheduled")),
        number("Available", "Nodes where the pod is available.", |o, _| count(&o["status"], "numberAvailable")),
        string("Node Selector", "Labels of the nodes that run the pod.", |o, _| {
            labels(&o["spec"]["template"]["spec"], "nodeSelector").into()
        }),
        age(),
    ];
    columns.extend(workload());
    columns
}

pub(super) fn controller_revision() -> Vec<PrinterColumn> {
    vec![
        name(),
        string("Controller", "Controller of the object.", |o, _| {
            let owners = list(&o["metadata"], "ownerReferences");
            let Some(owner) = owners.iter().find(|owner| flag(owner, "controller")) else {
                return NONE.into();
            };
            let (api_version, kind) = (text(owner, "apiVersion"), text(owner, "kind").to_lowercase());
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", text(owner, "name")).into()
        }),
        string("Revision", "Revision of the state.", |o, _| count(o, "revision").to_string().into()),
        age(),
    ]
}

pub(super) fn job() -> Vec<PrinterColumn> {
    let mut columns = vec![
        name(),
        string("Status", "Status of the job.", |o, _| job_status(o).into()),
        string("Completions", "Pods that succeeded, of those that should.", |o, _| {
            let succeeded = count(&o["status"], "succeeded");
            let parallelism = int(&o["spec"], "parallelism").unwrap_or(0);
            match int(&o["spec"], "completions") {
                Some(completions) => format!("{succeeded}/{completions}"),
                None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
                None => format!("{succeeded}/1"),
            }
            .into()
        }),
        string("Duration", "Time required to complete the job.", |o, now| {
            let ended: Option<Timestamp> = text(&o["status"], "completionTime").parse().ok();
            between(&o["status"]["startTime"], ended.unwrap_or(now)).unwrap_or_default().into()
        }),
        age(),
    ];
    columns.extend(workload());
    columns
}

fn job_status(job: &Value) -> &'static str {
    let has = |type_: &str| {
        list(&job["status"], "conditions").iter().any(|c| text(c, "type") == type_ && text(c, "status") == "True")
    };
    if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if is_set(&job["metadata"], "deletionTimestamp") {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

pub(super) fn service() -> Vec<PrinterColumn> {
    vec![
        name(),
        string("Type", "How the service is exposed.", |o, _| text(&o["spec"], "type").into()),
        string("Cluster-IP", "Address of the service in the cluster.", |o, _| or_none(text(&o["spec"], "clusterIP"))),
        string("External-IP", "Addresses of the service outside the cluster.", |o, _| external_ip(o).into()),
        string("Port(s)", "Ports of the service.", |o, _| service_ports(o).into()),
        age(),
        wide(string("Selector", "Labels of the Pods behind the service.", |o, _| {
            labels(&o["spec"], "selector").into()
        })),
    ]
}

fn external_ip(service: &Value) -> String {
    let spec = &service["spec"];
    let mut addresses: Vec<&str> = list(spec, "externalIPs").iter().filter_map(Value::as_str).collect();
    match text(spec, "type") {
        "LoadBalancer" => {
            for ingress in list(&service["status"]["loadBalancer"], "ingress") {
                let ip = text(ingress, "ip");
                addresses.push(if ip.is_empty() { text(ingress, "hostname") } else { ip });
            }
            if addresses.is_empty() { "<pending>".into() } else { addresses.join(",") }
        }
        "ExternalName" => text(spec, "externalName").to_owned(),
        _ => joined(&addresses),
    }
}

fn service_ports(service: &Value) -> String {
    let ports: Vec<_> = list(&service["spec"], "ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (int(port, "port").unwrap_or(0), text(port, "protocol"));
            match int(port, "nodePort").filter(|node_port| *node_port != 0) {
                Some(node_port) => format!("{number}:{node_port}/{protocol}"),
                None => format!("{number}/{protocol}"),
            }
        })
        .collect();
    joined(&ports)
}

pub(super) fn endpoints() -> Vec<PrinterColumn> {
    vec![name(), string("Endpoints", "Addresses and ports that are ready.", |o, _| endpoints_cell(o).into()), age()]
}

fn endpoints_cell(endpoints: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(endpoints, "subsets") {
        let ports = list(subset, "ports");
        for address in list(subset, "addresses") {
            let ip = text(address, "ip");
            if ports.is_empty() {
                all.push(ip.to_owned());
            }
            for port in ports {
                let port = int(port, "port").unwrap_or(0);
                all.push(if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") });
            }
        }
    }
    shortened(&all)
}

fn shortened(all: &[String]) -> String {
    let shown = joined(&all[..all.len().min(SHOWN_ENDPOINTS)]);
    match all.len().saturating_sub(SHOWN_ENDPOINTS) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

pub(super) fn endpoint_slice() -> Vec<PrinterColumn> {
    vec![
        name(),
        string("AddressType", "Type of the addresses.", |o, _| text(o, "addressType").into()),
        string("Ports", "Ports of every endpoint.", |o, _| {
            let ports: Vec<_> = list(o, "ports")
                .iter()
                .map(|port| match (int(port, "port"), text(port, "name")) {
                    (Some(number), _) => number.to_string(),
                    (None, "") => "*".into(),
                    (None, name) => name.into(),
                })
                .collect();
            if ports.is_empty() { "<unset>".into() } else { shortened(&ports).into() }
        }),
        string("Endpoints", "Addresses of the endpoints.", |o, _| {
            let addresses: Vec<_> = list(o, "endpoints")
                .iter()
                .flat_map(|endpoint| list(endpoint, "addresses"))
                .filter_map(|address| address.as_str().map(str::to_owned))
                .collect();
            if addresses.is_empty() { "<unset>".into() } else { shortened(&addresses).into() }
        }),
        age(),
    ]
}

pub(super) fn node() -> Vec<PrinterColumn> {
    vec![
        name(),
        string("Status", "Whether the node is ready, and takes Pods.", |o, _| node_status(o).into()),
        string("Roles", "The roles of the node.", |o, _| {
            let mut roles: Vec<_> = entries(&o["metadata"], "labels")
                .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                    Some(role) => Some(role),
                    None if key == "kubernetes.io/role" => value.as_str(),
                    None => None,
                })
                .filter(|role| !role.is_empty())
                .collect();
            roles.sort_unstable();
            roles.dedup();
            joined(&roles).into()
        }),
        age(),
        string("Version", "Kubelet version that the node reports.", |o, _| {
            text(&o["status"]["nodeInfo"], "kubeletVersion").into()
        }),
        wide(string("Internal-IP", "Address inside the cluster.", |o, _| address(o, "InternalIP"))),
        wide(string("External-IP", "Address outside the cluster.", |o, _| address(o, "ExternalIP"))),
        wide(string("OS-Image", "Operating system of the node.", |o, _| info(o, "osImage"))),
        wide(string("Kernel-Version", "Kernel of the node.", |o, _| info(o, "kernelVersion"))),
        wide(string("Container-Runtime", "Runtime of the node.", |o, _| info(o, "containerRuntimeVersion"))),
    ]
}

fn node_status(node: &Value) -> String {
    let conditions = list(&node["status"], "conditions");
    let ready = conditions.iter().find(|condition| text(condition, "type") == "Ready");
    let mut status = match ready.map(|ready| text(ready, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(&node["spec"], "unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn address(node: &Value, type_: &str) -> Value {
    let addresses = list(&node["status"], "addresses");
    or_none(addresses.iter().find(|address| text(address, "type") == type_).map_or("", |found| text(found, "address")))
}

fn info(node: &Value, field: &str) -> Value {
    let value = text(&node["status"]["nodeInfo"], field);
    if value.is_empty() { UNKNOWN.into() } else { value.into() }
}

pub(super) fn namespace() -> Vec<PrinterColumn> {
    vec![name(), string("Status", "The status of the namespace.", |o, _| text(&o["status"], "phase").into()), age()]
}

pub(super) fn secret() -> Vec<PrinterColumn> {
    vec![
        name(),
        string("Type", "Used to facilitate programmatic handling of secret data.", |o, _| text(o, "type").into()),
        string("Data", "Number of entries.", |o, _| entries(o, "data").count().to_string().into()),
        age(),
    ]
}

pub(super) fn config_map() -> Vec<PrinterColumn> {
    vec![
        name(),
        string("Data", "Number of entries.", |o, _| {
            (entries(o, "data").count() + entries(o, "binaryData").count()).to_string().into()
        }),
        age(),
    ]
}

pub(super) fn service_account() -> Vec<PrinterColumn> {
    vec![name(), string("Secrets", "Number of secrets.", |o, _| list(o, "secrets").len().to_string().into()), age()]
}

pub(super) fn event() -> Vec<PrinterColumn> {
    vec![
        string("Last Seen", "Time since this event was last seen.", |o, now| seen(o, now, true)),
        string("Type", "Type of this event (Normal, Warning).", |o, _| text(o, "type").into()),
        string("Reason", "Why what happened, as a word.", |o, _| text(o, "reason").into()),
        string("Object", "The object that this event is about.", |o, _| {
            let object = &o["involvedObject"];
            format!("{}/{}", text(object, "kind").to_lowercase(), text(object, "name")).into()
        }),
        wide(string("Subobject", "The part of the object.", |o, _| text(&o["involvedObject"], "fieldPath").into())),
        wide(string("Source", "Who reports this event.", |o, _| event_source(o).into())),
        string("Message", "What happened, for people.", |o, _| text(o, "message").trim().into()),
        wide(string("First Seen", "Time since this event was first seen.", |o, now| seen(o, now, false))),
        wide(string("Count", "How often this event was seen.", |o, _| event_count(o).to_string().into())),
        {
            let mut column = wide(name());
            column.description = "Name of the event.".into();
            column
        },
    ]
}

fn seen(event: &Value, now: Timestamp, last: bool) -> Value {
    let first = if is_set(event, "firstTimestamp") { &event["firstTimestamp"] } else { &event["eventTime"] };
    let at = if !last {
        first
    } else if event["series"].is_object() {
        &event["series"]["lastObservedTime"]
    } else if is_set(event, "lastTimestamp") {
        &event["lastTimestamp"]
    } else {
        first
    };
    translate_timestamp(at, now).into()
}

fn event_source(event: &Value) -> String {
    let component = text(&event["source"], "component");
    if component.is_empty() {
        let (controller, instance) = (text(event, "reportingComponent"), text(event, "reportingInstance"));
        return [controller, instance].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    }
    let host = text(&event["source"], "host");
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}

fn event_count(event: &Value) -> i64 {
    int(&event["series"], "count").or_else(|| int(event, "count").filter(|count| *count > 0)).unwrap_or(1)
}

pub(super) fn lease() -> Vec<PrinterColumn> {
    vec![name(), string("Holder", "Who holds the lease.", |o, _| text(&o["spec"], "holderIdentity").into()), age()]
}

pub(super) fn role() -> Vec<PrinterColumn> {
    vec![
        name(),
        string("Created At", "When the object was created.", |o, _| text(&o["metadata"], "creationTimestamp").into()),
    ]
}

pub(super) fn binding() -> Vec<PrinterColumn> {
    vec![
        name(),
        string("Role", "The role that is granted.", |o, _| {
            format!("{}/{}", text(&o["roleRef"], "kind"), text(&o["roleRef"], "name")).into()
        }),
        age(),
        wide(string("Users", "Users that are granted the role.", |o, _| subjects(o, "User"))),
        wide(string("Groups", "Groups that are granted the role.", |o, _| subjects(o, "Group"))),
        wide(string("ServiceAccounts", "ServiceAccounts that are granted the role.", |o, _| {
            subjects(o, "ServiceAccount")
        })),
    ]
}

fn subjects(binding: &Value, kind: &str) -> Value {
    let subjects: Vec<_> = list(binding, "subjects")
        .iter()
        .filter(|subject| text(subject, "kind") == kind)
        .map(|subject| match text(subject, "namespace") {
            "" => text(subject, "name").to_owned(),
            namespace => format!("{namespace}/{}", text(subject, "name")),
        })
        .collect();
    subjects.join(", ").into()
}

pub(super) fn priority_class() -> Vec<PrinterColumn> {
    vec![
        name(),
        number("Value", "The priority.", |o, _| count(o, "value")),
        {
            let mut column = string("Global-Default", "Whether Pods without a class get this one.", |o, _| {
                flag(o, "globalDefault").into()
            });
            column.type_ = "boolean".into();
            column
        },
        age(),
        string("PreemptionPolicy", "Whether lower Pods are evicted for this class.", |o, _| {
            text(o, "preemptionPolicy").into()
        }),
    ]
}
