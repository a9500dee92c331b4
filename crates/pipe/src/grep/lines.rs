//! Searches blocks of lines.

use super::matcher::Matcher;
use std::io::{self, IoSlice, Write};
use std::ops::Range;
use wire::text::{self, HEADER, Kind};

/// Returns the number of lines in `block`.
pub fn count_lines(block: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', block).count() as u64
}

/// Options of a search and its output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shown {
    /// True to select the lines that do not match.
    pub invert: bool,
    /// True to print nothing and only count.
    pub count_only: bool,
    /// True to print only the matched parts, one per line.
    pub only_matching: bool,
    /// True to print the line number in front of each line.
    pub numbers: bool,
}

/// Number of lines that a search processed and selected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Number of lines searched.
    pub lines: u64,
    /// Number of lines selected.
    pub selected: u64,
}

/// Output of the search of a block: ranges of bytes of the block first, then bytes that are not
/// part of it.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    ranges: Vec<Range<usize>>,
    bytes: Vec<u8>,
}

impl Selection {
    fn clear(&mut self) {
        self.ranges.clear();
        self.bytes.clear();
    }

    /// Writes the output to `to`. `block` must be the block that was searched.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn write(&self, block: &[u8], to: &mut impl Write) -> io::Result<()> {
        // The kernel accepts at most 1024 slices at once. Short output is cheaper to copy than to
        // pass as slices.
        const MOST: usize = 1024;
        let mut slices = Vec::with_capacity(self.ranges.len().min(MOST));
        for ranges in self.ranges.chunks(MOST) {
            slices.clear();
            slices.extend(ranges.iter().map(|range| IoSlice::new(block.get(range.clone()).unwrap_or_default())));
            write_all(&mut slices, to)?;
        }
        to.write_all(&self.bytes)
    }

    /// Returns a copy of the output. `block` must be the block that was searched.
    pub fn to_vec(&self, block: &[u8]) -> Vec<u8> {
        let ranges = self.ranges.iter().flat_map(|range| block.get(range.clone()).unwrap_or_default());
        ranges.chain(&self.bytes).copied().collect()
    }
}

fn write_all(mut slices: &mut [IoSlice<'_>], to: &mut impl Write) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match to.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut slices, n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A search in blocks that consist of whole lines.
#[derive(Debug, Clone)]
pub struct Lines<'a> {
    matcher: &'a Matcher,
    shown: Shown,
    kind: Kind,
}

/// Returns whether `line`, newline included, matches.
#[inline]
pub(super) fn matches(matcher: &Matcher, kind: Kind, line: &[u8]) -> bool {
    if let Some(columns) = &matcher.columns
        && text::shape(kind, line) == Some(line.len())
        && let Some(header) = line.first_chunk::<HEADER>()
    {
        return columns.matches(header);
    }
    matcher.is_match(line.strip_suffix(b"\n").unwrap_or(line))
}

impl<'a> Lines<'a> {
    /// Creates a search for lines that `matcher` matches, with the options `shown`.
    pub fn new(matcher: &'a Matcher, shown: Shown) -> Lines<'a> {
        Lines { matcher, shown, kind: Kind::best() }
    }

    /// Searches `block` and selects at most `most` lines. Their output replaces the content of
    /// `out`. Line numbers continue after `before`, the number of lines before the block.
    pub fn search(&self, block: &[u8], before: u64, most: u64, out: &mut Selection) -> Found {
        out.clear();
        let mut run = Run { shown: self.shown, matcher: self.matcher, block, out, from: 0, to: 0 };
        let found = if self.matcher.has_columns() {
            self.by_columns(block, before, most, &mut run)
        } else if self.shown.invert || self.shown.numbers || most < u64::MAX {
            self.line_by_line(block, before, most, &mut run)
        } else {
            self.by_matches(block, &mut run)
        };
        run.flush();
        found
    }

    /// Searches with the fast path: compares the header of each line in standard form, and applies
    /// the regular expression to lines in any other form.
    #[inline]
    fn by_columns(&self, block: &[u8], before: u64, most: u64, run: &mut Run<'_>) -> Found {
        let Some(columns) = &self.matcher.columns else { return Found::default() };
        let mut found = Found::default();
        let mut at = 0;
        while let Some(rest) = block.get(at..)
            && !rest.is_empty()
            && found.selected < most
        {
            at += text::each_line(self.kind, rest, |from, len, header| {
                if found.selected >= most {
                    return false;
                }
                found.lines += 1;
                if columns.matches(header) != self.shown.invert {
                    found.selected += 1;
                    run.select(at + from, at + from + len, before + found.lines);
                }
                true
            });
            let Some(rest) = block.get(at..).filter(|rest| !rest.is_empty() && found.selected < most) else { break };
            let len = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let line = rest.get(..len).unwrap_or(rest);
            found.lines += 1;
            if self.matcher.is_match(line.strip_suffix(b"\n").unwrap_or(line)) != self.shown.invert {
                found.selected += 1;
                run.select(at, at + len, before + found.lines);
            }
            at += len;
        }
        found
    }

    fn line_by_line(&self, block: &[u8], before: u64, most: u64, run: &mut Run<'_>) -> Found {
        let mut found = Found::default();
        let mut at = 0;
        for end in memchr::memchr_iter(b'\n', block).chain(ends_open(block)) {
            if found.selected >= most {
                break;
            }
            let line = block.get(at..end).unwrap_or_default();
            found.lines += 1;
            if self.matcher.is_match(line) != self.shown.invert {
                found.selected += 1;
                run.select(at, (end + 1).min(block.len()), before + found.lines);
            }
            at = end + 1;
        }
        found
    }

    /// Searches from match to match. The lines between two matches are not examined one by one.
    fn by_matches(&self, block: &[u8], run: &mut Run<'_>) -> Found {
        let mut found = Found::default();
        let mut at = 0;
        while at < block.len()
            && let Some((start, _)) = self.matcher.find(block, at)
            && start < block.len()
        {
            let front = block.get(at..start).unwrap_or_default();
            let begin = memchr::memrchr(b'\n', front).map_or(at, |newline| at + newline + 1);
            let behind = block.get(start..).unwrap_or_default();
            let end = memchr::memchr(b'\n', behind).map_or(block.len(), |newline| start + newline + 1);
            found.selected += 1;
            run.select(begin, end, 0);
            at = end;
        }
        found.lines = memchr::memchr_iter(b'\n', block).count() as u64;
        found
    }
}

/// Returns the length of `block` if its last line has no newline at its end.
fn ends_open(block: &[u8]) -> Option<usize> {
    block.last().filter(|last| **last != b'\n').map(|_| block.len())
}

/// Consecutive selected lines of a block, which are output as one range.
struct Run<'a> {
    shown: Shown,
    matcher: &'a Matcher,
    block: &'a [u8],
    out: &'a mut Selection,
    from: usize,
    to: usize,
}

impl Run<'_> {
    #[inline]
    fn select(&mut self, from: usize, to: usize, number: u64) {
        if self.shown.count_only {
            return;
        }
        if self.shown.only_matching || self.shown.numbers {
            return self.alone(from, to, number);
        }
        if from != self.to {
            self.flush();
            self.from = from;
        }
        self.to = to;
    }

    fn flush(&mut self) {
        if self.from == self.to {
            return;
        }
        self.out.ranges.push(self.from..self.to);
        // A last line without a newline gets one, as in grep.
        if self.block.get(self.to - 1) != Some(&b'\n') {
            self.out.bytes.push(b'\n');
        }
        self.from = self.to;
    }

    /// Outputs one line that cannot be part of a range, because its number or only its matched
    /// parts are printed.
    #[cold]
    fn alone(&mut self, from: usize, to: usize, number: u64) {
        let line = self.block.get(from..to).unwrap_or_default();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let show = |out: &mut Vec<u8>, text: &[u8]| {
            if self.shown.numbers {
                // Writing to a vector does not fail.
                let _ = write!(out, "{number}:");
            }
            out.extend_from_slice(text);
            out.push(b'\n');
        };
        if !self.shown.only_matching {
            return show(&mut self.out.bytes, line);
        }
        if self.shown.invert {
            return;
        }
        let mut at = 0;
        while let Some((start, end)) = self.matcher.find(line, at) {
            if end > start {
                show(&mut self.out.bytes, line.get(start..end).unwrap_or_default());
            }
            at = end.max(start + 1);
            if at > line.len() {
                return;
            }
        }
    }
}
