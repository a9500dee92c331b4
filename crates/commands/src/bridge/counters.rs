//! Counters as entries of listings.

use serde_json::{Map, Value};
use stats::Entry;

/// Returns counters as a JSON object.
pub(super) fn object(entries: &[Entry]) -> Map<String, Value> {
    entries.iter().map(|entry| (entry.name.clone(), entry.value.into())).collect()
}
