//! The types of the API machinery that every group refers to.

use super::components::reference;
use serde_json::{Value, json};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
pub(super) const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

pub(super) const API_VERSION_DESCRIPTION: &str = "The version of the schema that this object follows.";
pub(super) const KIND_DESCRIPTION: &str = "The kind of this object, in CamelCase. It cannot be changed.";

/// A type of the API machinery, in v3 form.
pub(super) fn component(name: &str) -> Option<Value> {
    let own = |name: &str| reference(&format!("{META}{name}"));
    let value = match name {
        LIST_META => object(
            "Metadata of a list.",
            &json!({
                "continue": text("Given when the list is not complete: pass it as `continue` to get the rest."),
                "remainingItemCount": {"type": "integer", "format": "int64", "description": "How many items follow in the rest of the list."},
                "resourceVersion": text("The version of the list, from which a watch can start."),
                "selfLink": text("No longer set."),
            }),
        ),
        STATUS => kind(
            "The outcome of a request that returns no other object.",
            "Status",
            json!({
                "status": text("`Success` or `Failure`."),
                "message": text("What happened, for people."),
                "reason": text("What happened, for machines."),
                "code": {"type": "integer", "format": "int32", "description": "HTTP status code."},
                "details": {"allOf": [own("StatusDetails")], "description": "More about the reason.", "x-kubernetes-list-type": "atomic"},
                "metadata": {"allOf": [own("ListMeta")], "default": {}},
            }),
        ),
        _ => match name.strip_prefix(META) {
            Some("StatusDetails") => object(
                "More about a Status.",
                &json!({
                    "causes": {"type": "array", "items": own("StatusCause"), "x-kubernetes-list-type": "atomic", "description": "What is wrong, one by one."},
                    "group": text("Group of the resource."),
                    "kind": text("Kind of the resource."),
                    "name": text("Name of the resource."),
                    "retryAfterSeconds": {"type": "integer", "format": "int32", "description": "When to try again."},
                    "uid": text("UID of the resource."),
                }),
            ),
            Some("StatusCause") => object(
                "One cause of a failure.",
                &json!({
                    "field": text("The field that caused it, such as `items[0].name`."),
                    "message": text("The cause, for people."),
                    "reason": text("The cause, for machines."),
                }),
            ),
            Some("DeleteOptions") => kind(
                "How to delete an object.",
                "DeleteOptions",
                json!({
                    "dryRun": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic", "description": "`All`: check, but change nothing."},
                    "gracePeriodSeconds": {"type": "integer", "format": "int64", "description": "Time to stop in. Zero deletes at once."},
                    "orphanDependents": {"type": "boolean", "description": "Deprecated: use propagationPolicy."},
                    "preconditions": {"allOf": [own("Preconditions")], "description": "What must hold for the delete to happen."},
                    "propagationPolicy": text("`Orphan`, `Background` or `Foreground`: what becomes of dependents."),
                }),
            ),
            Some("Preconditions") => object(
                "What must hold before an object is deleted.",
                &json!({"resourceVersion": text("The version to delete."), "uid": text("The UID to delete.")}),
            ),
            Some("Patch") => {
                json!({"type": "object", "description": "A patch in one of the media types of the operation."})
            }
            Some("WatchEvent") => {
                let fields = json!({
                    "type": {"type": "string", "default": "", "description": "ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."},
                    "object": {"allOf": [reference(RAW_EXTENSION)], "description": "The object, or a Status for ERROR."},
                });
                let mut value = object("One event of a watch.", &fields);
                value["required"] = json!(["type", "object"]);
                value["x-kubernetes-group-version-kind"] =
                    json!([{"group": "", "version": "v1", "kind": "WatchEvent"}]);
                value
            }
            _ => match name {
                RAW_EXTENSION => json!({"type": "object", "description": "Any object."}),
                SCALE => {
                    let mut value = kind(
                        "How many replicas a workload should have.",
                        "Scale",
                        json!({
                            "metadata": {"allOf": [reference(OBJECT_META)], "default": {}},
                            "spec": {"allOf": [reference("io.k8s.api.autoscaling.v1.ScaleSpec")], "default": {}},
                            "status": {"allOf": [reference("io.k8s.api.autoscaling.v1.ScaleStatus")], "default": {}},
                        }),
                    );
                    value["x-kubernetes-group-version-kind"] =
                        json!([{"group": "autoscaling", "version": "v1", "kind": "Scale"}]);
                    value
                }
                "io.k8s.api.autoscaling.v1.ScaleSpec" => object(
                    "Replicas that are wanted.",
                    &json!({"replicas": {"type": "integer", "format": "int32", "description": "Wanted number."}}),
                ),
                "io.k8s.api.autoscaling.v1.ScaleStatus" => {
                    let fields = json!({
                        "replicas": {"type": "integer", "format": "int32", "default": 0, "description": "Actual number."},
                        "selector": text("Label selector of the replicas, as a string."),
                    });
                    let mut value = object("Replicas that there are.", &fields);
                    value["required"] = json!(["replicas"]);
                    value
                }
                _ => return None,
            },
        },
    };
    Some(value)
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn object(description: &str, properties: &Value) -> Value {
    json!({"type": "object", "description": description, "properties": properties})
}

fn kind(description: &str, kind: &str, mut properties: Value) -> Value {
    properties["apiVersion"] = text(API_VERSION_DESCRIPTION);
    properties["kind"] = text(KIND_DESCRIPTION);
    let mut value = object(description, &properties);
    value["x-kubernetes-group-version-kind"] = json!([{"group": "", "version": "v1", "kind": kind}]);
    value
}
