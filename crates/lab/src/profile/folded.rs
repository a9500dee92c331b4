//! Stacks as lines, `thread;outer;inner 1234`, and the flamegraphs made of them.
//!
//! The figure is microseconds of processor time. The format is that of the flamegraph tools, so files go to and fro.

use super::{Profile, UNKNOWN, buckets};
use anyhow::Context;
use inferno::differential;
use inferno::flamegraph::{self, Options};
use std::collections::BTreeMap;

/// The profile's stacks, sorted; those of less than half a microsecond are left out.
pub fn fold(profile: &Profile) -> String {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for stack in &profile.stacks {
        let frames = std::iter::once(stack.thread.as_str()).chain(stack.names.iter().rev().map(String::as_str));
        // A semicolon or a line's end in a name would make another frame or line of it.
        let frames: Vec<String> = frames.map(|name| name.replace([';', '\n'], ":")).collect();
        *lines.entry(frames.join(";")).or_default() += stack.ns;
    }
    let line = |(stack, ns): (&String, &u64)| match (ns + 500) / 1000 {
        0 => String::new(),
        us => format!("{stack} {us}\n"),
    };
    lines.iter().map(line).collect()
}

/// Microseconds by the function that decides, from folded lines.
///
/// # Errors
/// A line that does not end in a number.
pub fn functions(folded: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut sums = BTreeMap::new();
    for (at, line) in folded.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let parsed = line.rsplit_once(' ').and_then(|(stack, us)| Some((stack, us.parse::<u64>().ok()?)));
        let (stack, us) = parsed.with_context(|| format!("line {}: expected 'frame;frame;frame 123'", at + 1))?;
        *sums.entry(function(stack).to_owned()).or_default() += us;
    }
    Ok(sums)
}

/// The name that decides, of a folded stack whose first is the thread's. One that has no name stands for itself.
fn function(stack: &str) -> &str {
    let frames: Vec<&str> = stack.split(';').rev().collect();
    let names = frames.split_last().map_or(&[][..], |(_, names)| names);
    let innermost = names.first().copied().unwrap_or(stack);
    if innermost == UNKNOWN || innermost.contains("+0x") {
        return innermost;
    }
    names.get(buckets::decide(names.iter().copied()).0).copied().unwrap_or(innermost)
}

/// Both profiles' stacks, `stack before after`, the first scaled to the sum of the second: what differs is the shares.
///
/// # Errors
/// Lines that are no stacks.
pub fn difference(before: &str, after: &str) -> anyhow::Result<String> {
    let options = differential::Options { normalize: true, ..differential::Options::default() };
    let mut out = Vec::new();
    differential::from_readers(options, before.as_bytes(), after.as_bytes(), &mut out)?;
    Ok(String::from_utf8(out)?)
}

/// The flamegraph of folded stacks, or the differential one of [`difference`]'s: red has grown, blue has shrunk.
///
/// # Errors
/// No stacks, or lines that are none.
pub fn svg(folded: &str, title: &str) -> anyhow::Result<String> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.count_name = "microseconds".to_owned();
    options.deterministic = true;
    let mut out = Vec::new();
    flamegraph::from_reader(&mut options, folded.as_bytes(), &mut out).context("no flamegraph")?;
    Ok(String::from_utf8(out)?)
}

#[cfg(test)]
mod tests;
