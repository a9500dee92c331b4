//! Byte ranges (RFC 9110 14): one range is served as a part, several or a nonsensical one as if none had been asked for.

/// What a Range field comes to for a thing of a known length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ranged {
    /// All of it.
    Whole,
    /// From the first number on, so many bytes (at least one).
    Part(u64, u64),
    /// There is nothing of that.
    Unsatisfiable,
}

/// `bytes=500-999`, `bytes=500-`, `bytes=-500`.
pub(super) fn ranged(field: &str, len: u64) -> Ranged {
    let spec = match field.split_once('=') {
        Some((unit, spec)) if unit.trim().eq_ignore_ascii_case("bytes") && !spec.contains(',') => spec.trim(),
        _ => return Ranged::Whole,
    };
    let Some((first, last)) = spec.split_once('-') else { return Ranged::Whole };
    match (number(first), number(last)) {
        (Some(Some(first)), Some(last)) => {
            let last = last.unwrap_or(u64::MAX);
            if last < first {
                return Ranged::Whole; // invalid, and so ignored (14.1.1)
            }
            if first >= len {
                return Ranged::Unsatisfiable;
            }
            Ranged::Part(first, last.min(len - 1) - first + 1)
        }
        (Some(None), Some(Some(0))) => Ranged::Unsatisfiable,
        (Some(None), Some(Some(suffix))) if len > 0 => {
            let suffix = suffix.min(len);
            Ranged::Part(len - suffix, suffix)
        }
        (Some(None), Some(Some(_))) => Ranged::Unsatisfiable,
        _ => Ranged::Whole,
    }
}

/// `Some(None)` where nothing stands; `None` where no number does. A number too large to note is the largest.
fn number(text: &str) -> Option<Option<u64>> {
    if text.is_empty() {
        return Some(None);
    }
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| Some(text.parse().unwrap_or(u64::MAX)))
}
