//! Decodes lines of text to frames.

use super::tally::{Tally, Warned};
use crate::{Frames, Time};
use wire::text::{self, Kind, Next};

/// Decodes lines at the start of `text` until `frames` is full or the next line is incomplete.
/// Returns the number of bytes consumed.
pub(super) fn decode(text: &[u8], frames: &mut Frames, tally: &mut Tally) -> usize {
    let (kind, mut from) = (Kind::best(), 0);
    while let Some(rest) = text.get(from..)
        && !frames.is_full()
    {
        let (used, lines) = text::decode_lines(kind, rest, frames);
        tally.lines += lines;
        from += used;
        // The next line has another form, or `frames` is full.
        if let Some(rest) = text.get(from..)
            && !frames.is_full()
        {
            let used = decode_line(kind, rest, frames, tally);
            from += used;
            // The line is incomplete or over-long, so the bytes after it belong to the same line.
            if used == 0 || rest.get(used - 1) != Some(&b'\n') {
                break;
            }
        }
    }
    from
}

/// Decodes the line at the start of `text`. Returns its number of bytes, or 0 if it is incomplete.
/// `frames` must not be full.
#[inline]
pub(crate) fn decode_line(kind: Kind, text: &[u8], frames: &mut Frames, tally: &mut Tally) -> usize {
    match text::next_with(kind, text, frames.room()) {
        Next::Frame { len, stamp, used } => {
            tally.lines += 1;
            frames.commit(len, stamp.map_or(Time::None, Time::Stamp));
            used
        }
        Next::Blank { used } => {
            tally.lines += 1;
            used
        }
        Next::Bad { why, used } => {
            tally.lines += 1;
            tally.warn(Warned::Line(why), frames.len());
            used
        }
        Next::Partial => 0,
    }
}
