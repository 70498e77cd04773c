//! The objects of a `FakeApi`.

use crate::CLUSTER_ANNOTATION;
use apimachinery::status::ApiError;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub(super) kind: String,
    pub(super) cluster: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

struct Event {
    version: u64,
    what: &'static str,
    at: At,
    object: Value,
}

#[derive(Default)]
pub(super) struct Stored {
    objects: BTreeMap<At, Value>,
    events: Vec<Event>,
    version: u64,
    oldest: u64,
}

const NAMESPACES: &str = "v1/namespaces";

fn has_finalizers(object: &Value) -> bool {
    let some = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    some(&object["metadata"]["finalizers"]) || some(&object["spec"]["finalizers"])
}

fn marked(mut object: Value, at: &At) -> Value {
    object["metadata"]["annotations"][CLUSTER_ANNOTATION] = at.cluster.clone().into();
    object
}

impl Stored {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn expire(&mut self) {
        self.version += 1;
        self.oldest = self.version;
        self.events.clear();
    }

    fn missing(at: &At) -> ApiError {
        ApiError::not_found("", &at.kind, &at.name)
    }

    fn put(&mut self, what: &'static str, at: At, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if what == "DELETED" {
            self.objects.remove(&at);
        } else {
            self.objects.insert(at.clone(), object.clone());
        }
        self.events.push(Event { version: self.version, what, at, object: object.clone() });
        object
    }

    pub(super) fn below(&self, kind: &str, cluster: &str, namespace: &str) -> Vec<At> {
        let within = |at: &&At| {
            at.kind == kind
                && (cluster == "*" || at.cluster == cluster)
                && (namespace.is_empty() || at.namespace == namespace)
        };
        self.objects.keys().filter(within).cloned().collect()
    }

    pub(super) fn list(&self, kind: &str, cluster: &str, namespace: &str) -> Value {
        let item = |at: &At| {
            let object = self.objects.get(at).cloned().unwrap_or_default();
            if cluster == "*" { marked(object, at) } else { object }
        };
        let items: Vec<Value> = self.below(kind, cluster, namespace).iter().map(item).collect();
        json!({"metadata": {"resourceVersion": self.version.to_string()}, "items": items})
    }

    pub(super) fn get(&self, at: &At) -> Result<Value, ApiError> {
        self.objects.get(at).cloned().ok_or_else(|| Self::missing(at))
    }

    pub(super) fn create(&mut self, mut at: At, api_version: &str, mut object: Value) -> Result<Value, ApiError> {
        let of = At {
            kind: NAMESPACES.to_owned(),
            cluster: at.cluster.clone(),
            namespace: String::new(),
            name: at.namespace.clone(),
        };
        if self.objects.get(&of).is_some_and(|of| !of["metadata"]["deletionTimestamp"].is_null()) {
            let cause = json!({"causes": [{"reason": "NamespaceTerminating"}]});
            return Err(ApiError::forbidden("", &at.kind, &at.name, "being terminated").with_details(cause));
        }
        let number = self.version + 1;
        if object["metadata"]["name"].is_null() {
            let prefix = object["metadata"]["generateName"].as_str().unwrap_or_default();
            object["metadata"]["name"] = format!("{prefix}{number}").into();
        }
        object["metadata"]["name"].as_str().unwrap_or_default().clone_into(&mut at.name);
        if self.objects.contains_key(&at) {
            return Err(ApiError::already_exists("", &at.kind, &at.name));
        }
        if !at.namespace.is_empty() {
            object["metadata"]["namespace"] = at.namespace.clone().into();
        }
        object["apiVersion"] = api_version.into();
        object["metadata"]["uid"] = format!("uid-{number}").into();
        object["metadata"]["generation"] = 1.into();
        object["metadata"]["creationTimestamp"] = jiff::Timestamp::now().to_string().into();
        if at.kind == NAMESPACES {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
        }
        Ok(self.put("ADDED", at, object))
    }

    pub(super) fn update(&mut self, at: &At, subresource: &str, new: Value) -> Result<Value, ApiError> {
        let old = self.get(at)?;
        let version = &new["metadata"]["resourceVersion"];
        if !version.is_null() && *version != old["metadata"]["resourceVersion"] {
            return Err(ApiError::modified("", &at.kind, &at.name));
        }
        let uid = &new["metadata"]["uid"];
        if !uid.is_null() && *uid != old["metadata"]["uid"] {
            return Err(ApiError::conflict("", &at.kind, &at.name, "another uid"));
        }
        let mut object = old.clone();
        match subresource {
            "status" => object["status"] = new["status"].clone(),
            "finalize" => object["spec"]["finalizers"] = new["spec"]["finalizers"].clone(),
            _ => {
                object = new;
                for kept in ["uid", "creationTimestamp", "deletionTimestamp", "generation", "resourceVersion"] {
                    object["metadata"][kept] = old["metadata"][kept].clone();
                }
                // A Pod's status is set by tests that play the node's part.
                object["status"] = old["status"].clone();
                if object["spec"] != old["spec"] {
                    object["metadata"]["generation"] = (old["metadata"]["generation"].as_i64().unwrap_or(0) + 1).into();
                }
            }
        }
        strip_nulls(&mut object);
        if object == old {
            return Ok(old);
        }
        if !object["metadata"]["deletionTimestamp"].is_null() && !has_finalizers(&object) {
            return Ok(self.put("DELETED", at.clone(), object));
        }
        Ok(self.put("MODIFIED", at.clone(), object))
    }

    pub(super) fn delete(&mut self, at: &At, options: &Value) -> Result<Value, ApiError> {
        let mut object = self.get(at)?;
        for wanted in ["uid", "resourceVersion"] {
            let value = &options["preconditions"][wanted];
            if !value.is_null() && *value != object["metadata"][wanted] {
                return Err(ApiError::conflict("", &at.kind, &at.name, "a precondition failed"));
            }
        }
        let finalizer = match options["propagationPolicy"].as_str() {
            Some("Foreground") => Some("foregroundDeletion"),
            Some("Orphan") => Some("orphan"),
            _ => None,
        };
        if object["metadata"]["deletionTimestamp"].is_null()
            && let Some(finalizer) = finalizer
        {
            match object["metadata"]["finalizers"].as_array_mut() {
                Some(list) => list.push(finalizer.into()),
                None => object["metadata"]["finalizers"] = json!([finalizer]),
            }
        }
        if !has_finalizers(&object) {
            return Ok(self.put("DELETED", at.clone(), object));
        }
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = jiff::Timestamp::now().to_string().into();
            return Ok(self.put("MODIFIED", at.clone(), object));
        }
        Ok(object)
    }

    /// The events of a kind after a version, and the version they reach.
    pub(super) fn since(&self, kind: &str, cluster: &str, from: u64) -> Result<(u64, Vec<Value>), ApiError> {
        if from < self.oldest {
            return Err(ApiError::expired("too old resource version"));
        }
        let of = |event: &&Event| {
            event.version > from && event.at.kind == kind && (cluster == "*" || event.at.cluster == cluster)
        };
        let line = |event: &Event| json!({"type": event.what, "object": marked(event.object.clone(), &event.at)});
        Ok((self.version, self.events.iter().filter(of).map(line).collect()))
    }
}

fn strip_nulls(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
        fields.values_mut().for_each(strip_nulls);
    }
}
