//! Lengths of frames and lines.

/// Minimum length of a frame in bytes: an Ethernet header.
pub const MIN_FRAME: usize = 14;
/// Maximum length of a frame in bytes: libpcap's limit for captured packets (MAXIMUM_SNAPLEN).
pub const MAX_FRAME: usize = 262_144;
/// Maximum length in bytes of a line that is written, including the newline.
pub const MAX_LINE: usize = len(MAX_FRAME) + STAMP;
/// Maximum length in bytes of a line that is read, without the newline. It is longer than any line
/// that is written, because spaces are allowed anywhere.
pub const MAX_READ: usize = 1024 * 1024;
/// Number of bytes that vector stores may write past the end of their output. If the buffer has
/// less space after its output, slower code writes the line or frame.
pub const SLACK: usize = 64;

/// Length in bytes of a stamp and the space after it.
pub const STAMP: usize = 17;
/// Length in bytes of `DDDDDDDDDDDD SSSSSSSSSSSS TTTT`.
pub const HEADER: usize = 30;

/// Returns the length in bytes of the F1 line of a frame, including the newline. `frame` is the
/// length of the frame without FCS.
#[inline]
pub const fn len(frame: usize) -> usize {
    HEADER + 1 + 3 * frame.saturating_sub(MIN_FRAME)
}
