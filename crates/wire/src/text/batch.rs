//! Loops over many lines, into which the code for one line is inlined.

use super::portable;
use super::sizes::STAMP;
use super::stamp::Stamp;

/// Buffer that stores several frames in sequence.
pub trait Arena {
    /// Returns space for the next frame: [`MAX_FRAME`](super::MAX_FRAME) bytes plus
    /// [`SLACK`](super::SLACK), or an empty slice if the buffer is full.
    fn room(&mut self) -> &mut [u8];
    /// Stores the frame of `len` bytes that was written into the slice from the last call of
    /// `room`, with its time stamp.
    fn commit(&mut self, len: usize, stamp: Option<Stamp>);
}

/// Parses lines at the start of `text` with `canonical`, as long as it accepts them. Returns the
/// number of bytes consumed and the number of lines.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn read_lines(
    text: &[u8],
    into: &mut impl Arena,
    canonical: impl Fn(&[u8], &mut [u8]) -> Option<(usize, usize)>,
) -> (usize, u64) {
    let (mut from, mut lines) = (0, 0);
    while let Some(rest) = text.get(from..) {
        let (stamp, line) = match rest.split_first_chunk::<STAMP>() {
            Some((front, line)) if front[STAMP - 1] == b' ' => match portable::read_stamp(front) {
                Some(stamp) => (Some(stamp), line),
                None => break,
            },
            _ => (None, rest),
        };
        let Some((used, len)) = canonical(line, into.room()) else { break };
        into.commit(len, stamp);
        from += rest.len() - line.len() + used;
        lines += 1;
    }
    (from, lines)
}

/// Writes a line for each of `frames` with `encode`, one after the other. Returns the number of
/// bytes written.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn write_lines<'a>(
    frames: impl Iterator<Item = (&'a [u8], Option<Stamp>)>,
    out: &mut [u8],
    encode: impl Fn(&[u8], Option<Stamp>, &mut [u8]) -> Option<usize>,
) -> usize {
    let mut end = 0;
    for (frame, stamp) in frames {
        end += encode(frame, stamp, out.get_mut(end..).unwrap_or_default()).unwrap_or(0);
    }
    end
}
