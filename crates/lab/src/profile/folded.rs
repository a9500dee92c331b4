//! Folded stacks, `thread;outer;inner 1234`, and the flamegraphs drawn from them.
//!
//! The number is microseconds of processor time. The format is that of the flamegraph tools, so
//! files can be exchanged with them.

#[cfg(feature = "flamegraph")]
mod flamegraph;
#[cfg(not(feature = "flamegraph"))]
#[path = "folded/missing.rs"]
mod flamegraph;

pub use flamegraph::{difference, require_flamegraphs, svg};

use super::{Profile, UNKNOWN, buckets};
use anyhow::Context;
use std::collections::BTreeMap;

/// Returns the profile's stacks, sorted; stacks of less than half a microsecond are omitted.
pub fn fold(profile: &Profile) -> String {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for stack in &profile.stacks {
        let frames = std::iter::once(stack.thread.as_str()).chain(stack.names.iter().rev().map(String::as_str));
        // A semicolon or line end in a name would begin another frame or line.
        let frames: Vec<String> = frames.map(|name| name.replace([';', '\n'], ":")).collect();
        *lines.entry(frames.join(";")).or_default() += stack.ns;
    }
    let line = |(stack, ns): (&String, &u64)| match (ns + 500) / 1000 {
        0 => String::new(),
        us => format!("{stack} {us}\n"),
    };
    lines.iter().map(line).collect()
}

/// Sums microseconds by the function that determines the bucket, from folded lines.
///
/// # Errors
/// A line does not end in a number.
pub fn functions(folded: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut sums = BTreeMap::new();
    for (at, line) in folded.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let parsed = line.rsplit_once(' ').and_then(|(stack, us)| Some((stack, us.parse::<u64>().ok()?)));
        let (stack, us) = parsed.with_context(|| format!("line {}: expected 'frame;frame;frame 123'", at + 1))?;
        *sums.entry(function(stack).to_owned()).or_default() += us;
    }
    Ok(sums)
}

/// Returns the name that determines the bucket of a folded stack, which begins with the thread's
/// name. An address without a name is returned as it is.
fn function(stack: &str) -> &str {
    let frames: Vec<&str> = stack.split(';').rev().collect();
    let names = frames.split_last().map_or(&[][..], |(_, names)| names);
    let innermost = names.first().copied().unwrap_or(stack);
    if innermost == UNKNOWN || innermost.contains("+0x") {
        return innermost;
    }
    names.get(buckets::decide(names.iter().copied()).0).copied().unwrap_or(innermost)
}

#[cfg(test)]
mod tests;
