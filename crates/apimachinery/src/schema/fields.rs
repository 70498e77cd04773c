//! Which fields an object may have: unknown ones are named or pruned, nulls are dropped.

use super::Schema;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Unknown fields named per object, as upstream.
const MAX_UNKNOWN: usize = 100;

impl Schema {
    /// Paths of fields that the schema does not know: `spec.template.foo`,
    /// `spec.containers[0].foo`. At most the first 100.
    #[must_use]
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        let mut found = Vec::new();
        self.collect_unknown(object, &mut String::new(), true, &mut found);
        found
    }

    fn collect_unknown(&self, value: &Value, path: &mut String, root: bool, found: &mut Vec<String>) {
        if self.is_free_form() {
            return;
        }
        let length = path.len();
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if found.len() >= MAX_UNKNOWN {
                        return;
                    }
                    if length > 0 {
                        path.push('.');
                    }
                    path.push_str(name);
                    match self.known(name, root) {
                        Known::Schema(schema) => schema.collect_unknown(value, path, false, found),
                        Known::Anything => {}
                        Known::No => found.push(path.clone()),
                    }
                    path.truncate(length);
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (index, item) in items.iter().enumerate() {
                    // Writing to a String cannot fail.
                    let _ = write!(path, "[{index}]");
                    schema.collect_unknown(item, path, false, found);
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// Removes the fields that the schema does not know.
    pub fn prune(&self, object: &mut Value) {
        self.prune_node(object, true);
    }

    fn prune_node(&self, value: &mut Value, root: bool) {
        if self.is_free_form() {
            return;
        }
        match value {
            Value::Object(fields) => fields.retain(|name, value| match self.known(name, root) {
                Known::Schema(schema) => {
                    schema.prune_node(value, false);
                    true
                }
                Known::Anything => true,
                Known::No => false,
            }),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    items.iter_mut().for_each(|item| schema.prune_node(item, false));
                }
            }
            _ => {}
        }
    }

    /// Removes explicit nulls, which built-in kinds treat as absent. What is inside free-form
    /// fields is the user's and stays.
    pub fn drop_nulls(&self, object: &mut Value) {
        if self.is_free_form() {
            return;
        }
        match object {
            Value::Object(fields) => self.drop_null_fields(fields),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    items.iter_mut().for_each(|item| schema.drop_nulls(item));
                }
            }
            _ => {}
        }
    }

    fn drop_null_fields(&self, fields: &mut Map<String, Value>) {
        // A null in a map of strings is the empty string to Go; in a map of objects, the empty one.
        if self.properties.is_empty()
            && let Some(values) = &self.additional_properties
        {
            for value in fields.values_mut() {
                match (value.is_null(), values.type_.as_str()) {
                    (true, "string") => *value = Value::String(String::new()),
                    (true, "object") => *value = Value::Object(Map::new()),
                    (true, "array") => *value = Value::Array(Vec::new()),
                    _ => values.drop_nulls(value),
                }
            }
            return;
        }
        fields.retain(|name, value| {
            if value.is_null() {
                return false;
            }
            if let Some(schema) = self.field(name) {
                schema.drop_nulls(value);
            }
            true
        });
    }

    fn known(&self, name: &str, root: bool) -> Known<'_> {
        match self.field(name) {
            // A custom resource's schema may say no more of metadata than that it is an object.
            Some(schema) if root && name == "metadata" && schema.properties.is_empty() => Known::Anything,
            Some(schema) => Known::Schema(schema),
            None if self.preserve_unknown_fields => Known::Anything,
            None if root && matches!(name, "apiVersion" | "kind" | "metadata") => Known::Anything,
            None => Known::No,
        }
    }
}

enum Known<'a> {
    Schema(&'a Schema),
    Anything,
    No,
}
