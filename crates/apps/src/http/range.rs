//! Byte ranges (RFC 9110 14). The answer to a request with a single range is that part of the file;
//! the answer to a request with several ranges is the whole file.

/// Result of applying a Range field to a file of known length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ranged {
    /// The whole file is sent, with status 200.
    Whole,
    /// A part of the file is sent: first byte, and length of at least one byte.
    Part(u64, u64),
    /// No byte of the file is in the range (status 416).
    Unsatisfiable,
    /// The field is not a valid set of ranges; RFC 9110 14.2 permits rejecting it.
    Malformed,
}

/// Evaluates a Range field such as `bytes=500-999`, `bytes=500-` or `bytes=-500`, for a file of
/// `len` bytes. Units other than bytes are ignored, as RFC 9110 14.2 requires.
pub(super) fn ranged(field: &str, len: u64) -> Ranged {
    let (unit, set) = field.split_once('=').unwrap_or((field, ""));
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Ranged::Whole;
    }
    // Empty list elements are ignored (RFC 9110 5.6.1.2).
    let mut specs = set.split(',').map(|spec| spec.trim_matches([' ', '\t'])).filter(|spec| !spec.is_empty());
    let Some(first) = specs.next().and_then(Spec::parse) else { return Ranged::Malformed };
    let others: Option<Vec<Spec>> = specs.map(Spec::parse).collect();
    match others {
        None => Ranged::Malformed,
        Some(others) if !others.is_empty() => Ranged::Whole,
        Some(_) => first.of(len),
    }
}

/// One range of a set. Numbers that exceed 64 bits are replaced by the largest 64-bit number.
#[derive(Clone, Copy, Debug)]
enum Spec {
    /// Offset of the first byte, and of the last byte if it is given.
    Int(u64, Option<u64>),
    /// Number of bytes at the end of the file.
    Suffix(u64),
}

impl Spec {
    /// Parses a range. RFC 9110 14.1.1: a range whose last byte precedes its first byte is invalid.
    fn parse(text: &str) -> Option<Spec> {
        let (first, last) = text.split_once('-')?;
        match (first, last) {
            ("", suffix) => number(suffix).map(Spec::Suffix),
            (first, "") => Some(Spec::Int(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Spec::Int(first, Some(last)))
            }
        }
    }

    fn of(self, len: u64) -> Ranged {
        match self {
            Spec::Int(first, _) if first >= len => Ranged::Unsatisfiable,
            Spec::Int(first, last) => Ranged::Part(first, last.unwrap_or(u64::MAX).min(len - 1) - first + 1),
            Spec::Suffix(0) => Ranged::Unsatisfiable,
            // RFC 9110 14.1.2: a suffix longer than the file selects the whole file; an empty file
            // has no part.
            Spec::Suffix(_) if len == 0 => Ranged::Whole,
            Spec::Suffix(suffix) => Ranged::Part(len - suffix.min(len), suffix.min(len)),
        }
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}
