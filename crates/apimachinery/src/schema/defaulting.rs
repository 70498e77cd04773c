//! Structural defaulting.

use super::Schema;
use serde_json::Value;

impl Schema {
    /// Sets absent fields that have a default, parents before children; a null where null is not
    /// allowed counts as absent if there is a default.
    pub fn apply_defaults(&self, object: &mut Value) {
        match object {
            Value::Object(fields) => {
                for (name, schema) in &self.properties {
                    let Some(default) = &schema.default else { continue };
                    let absent = match fields.get(name) {
                        None => true,
                        Some(value) => value.is_null() && !schema.nullable,
                    };
                    if absent {
                        fields.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in fields.iter_mut() {
                    let Some(schema) = self.field(name) else { continue };
                    if value.is_null()
                        && !schema.nullable
                        && let Some(default) = &schema.default
                    {
                        *value = default.clone();
                    }
                    schema.apply_defaults(value);
                }
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        if item.is_null()
                            && !schema.nullable
                            && let Some(default) = &schema.default
                        {
                            *item = default.clone();
                        }
                        schema.apply_defaults(item);
                    }
                }
            }
            _ => {}
        }
    }
}
