//! Flamegraphs of folded stacks, and of the difference between two profiles.

use anyhow::Context;
use inferno::differential;
use inferno::flamegraph::{self, Options};

/// Checks whether this build can draw flamegraphs: always `Ok` with the feature `flamegraph`.
///
/// # Errors
/// None.
pub fn require_flamegraphs() -> anyhow::Result<()> {
    Ok(())
}

/// Returns the stacks of both profiles as `stack before after`, with the first scaled to the sum of
/// the second, so that shares are compared.
///
/// # Errors
/// A line is not a folded stack.
pub fn difference(before: &str, after: &str) -> anyhow::Result<String> {
    let options = differential::Options { normalize: true, ..differential::Options::default() };
    let mut out = Vec::new();
    differential::from_readers(options, before.as_bytes(), after.as_bytes(), &mut out)?;
    Ok(String::from_utf8(out)?)
}

/// Returns the flamegraph of folded stacks, or the differential one of [`difference`]'s result: red
/// functions have grown, blue ones have shrunk.
///
/// # Errors
/// No stacks, or a line is not a folded stack.
pub fn svg(folded: &str, title: &str) -> anyhow::Result<String> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.count_name = "microseconds".to_owned();
    options.deterministic = true;
    let mut out = Vec::new();
    flamegraph::from_reader(&mut options, folded.as_bytes(), &mut out).context("cannot draw the flamegraph")?;
    Ok(String::from_utf8(out)?)
}

#[cfg(test)]
mod tests;
