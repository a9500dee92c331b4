//! Replacements for the functions that draw flamegraphs, in builds without the feature
//! `flamegraph`: each returns the same error.

use anyhow::bail;

const MISSING: &str = "built without flamegraphs: rebuild with --features flamegraph";

/// Checks whether this build can draw flamegraphs.
///
/// # Errors
/// Always, since the feature `flamegraph` is disabled.
pub fn require_flamegraphs() -> anyhow::Result<()> {
    bail!(MISSING)
}

/// Replaces the difference between two profiles by an error.
///
/// # Errors
/// Always, since the feature `flamegraph` is disabled.
pub fn difference(_: &str, _: &str) -> anyhow::Result<String> {
    bail!(MISSING)
}

/// Replaces the flamegraph by an error.
///
/// # Errors
/// Always, since the feature `flamegraph` is disabled.
pub fn svg(_: &str, _: &str) -> anyhow::Result<String> {
    bail!(MISSING)
}
