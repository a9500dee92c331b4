//! JSON objects of listings.

use serde_json::Value;

/// Adds a key to a JSON object.
pub(crate) fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(map) = object.as_object_mut() {
        map.insert(key.to_string(), value.into());
    }
}
