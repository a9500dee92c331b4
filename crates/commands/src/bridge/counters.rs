//! Counters as entries of listings.

use serde_json::{Map, Value};
use stats::{Described, Entry};

/// Returns counters as a JSON object.
pub(super) fn object(entries: &[Entry]) -> Map<String, Value> {
    entries.iter().map(|entry| (entry.name.clone(), entry.value.into())).collect()
}

/// Returns the counters of `of` with their descriptions.
pub(super) fn counters(of: &dyn Described) -> Vec<Entry> {
    let mut out = Vec::new();
    of.visit(&mut |prefix, field, sentence, value| {
        out.push(Entry { name: format!("{prefix}.{field}"), sentence, value });
    });
    out
}
