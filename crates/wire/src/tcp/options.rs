//! TCP options: the parser does not trust lengths, and the writer never exceeds 40 bytes (RFC 9293
//! 3.1, 3.2).
//!
//! [`Options`] tolerates bad lengths (RFC 9293 MUST-7, CVE-2020-24337, CVE-2018-16523). A known
//! option with the wrong length is reported and skipped; a length below 2 or past the end is
//! reported and ends the iteration. Unknown options are skipped by their length (MUST-6).

use crate::{Layer, Malformed};

/// Maximum length in bytes of the options in a header.
pub const MAX_OPTIONS_LEN: usize = 40;

/// Option kinds (IANA registry).
const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// A TCP option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt<'a> {
    /// End of option list; nothing comes after it.
    End,
    /// No operation (padding).
    Nop,
    /// Maximum segment size in bytes (RFC 9293 3.2), as sent: may be 0.
    Mss(u16),
    /// Window scale shift (RFC 7323 2.2), as sent: may exceed 14.
    WindowScale(u8),
    /// SACK permitted (RFC 2018 2).
    SackPermitted,
    /// Selective acknowledgments (RFC 2018 3).
    Sack(SackBlocks<'a>),
    /// Timestamps (RFC 7323 3.2).
    Timestamps {
        /// TSval, the sender's timestamp.
        val: u32,
        /// TSecr, the echoed timestamp.
        ecr: u32,
    },
    /// An option of any other kind.
    Unknown {
        /// Kind of the option.
        kind: u8,
        /// Bytes after kind and length.
        data: &'a [u8],
    },
}

/// The blocks of a SACK option, one to four.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SackBlocks<'a>(&'a [[u8; 8]]);

impl<'a> SackBlocks<'a> {
    /// Returns the left and right edge of each block, in the order sent. The left edge is the
    /// block's first sequence number, the right edge is the one after its last.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + 'a {
        self.0.iter().map(|&[l0, l1, l2, l3, r0, r1, r2, r3]| {
            (u32::from_be_bytes([l0, l1, l2, l3]), u32::from_be_bytes([r0, r1, r2, r3]))
        })
    }
}

/// Iterator over the options of one segment. It returns at most 40 items and is fused.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Iterates over `bytes`, the part of the header after its fixed 20 bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Options { rest: bytes }
    }

    /// Splits off the first option, which must be of a kind with a length byte.
    #[inline]
    fn take(&mut self, kind: u8) -> Result<Opt<'a>, Malformed> {
        let len = self.rest.get(1).copied().unwrap_or(0);
        let option = self.rest.split_at_checked(usize::from(len));
        let Some((data, rest)) = option.and_then(|(option, rest)| Some((option.get(2..)?, rest))) else {
            self.rest = &[];
            return Err(Malformed::BadOptionLen { layer: Layer::Tcp, kind, len });
        };
        self.rest = rest;
        typed(kind, data).ok_or(Malformed::BadOptionLen { layer: Layer::Tcp, kind, len })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, after) = self.rest.split_first()?;
        match kind {
            END => {
                self.rest = &[];
                Some(Ok(Opt::End))
            }
            NOP => {
                self.rest = after;
                Some(Ok(Opt::Nop))
            }
            _ => Some(self.take(kind)),
        }
    }
}

/// Parses the data of an option. Returns `None` if an option of a known kind has the wrong length.
#[inline]
fn typed(kind: u8, data: &[u8]) -> Option<Opt<'_>> {
    Some(match (kind, data) {
        (MSS, &[m0, m1]) => Opt::Mss(u16::from_be_bytes([m0, m1])),
        (WINDOW_SCALE, &[shift]) => Opt::WindowScale(shift),
        (SACK_PERMITTED, []) => Opt::SackPermitted,
        (TIMESTAMPS, &[v0, v1, v2, v3, e0, e1, e2, e3]) => {
            Opt::Timestamps { val: u32::from_be_bytes([v0, v1, v2, v3]), ecr: u32::from_be_bytes([e0, e1, e2, e3]) }
        }
        (SACK, data) => match data.as_chunks() {
            (blocks @ [_, ..], []) => Opt::Sack(SackBlocks(blocks)),
            _ => return None,
        },
        (MSS | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS, _) => return None,
        _ => Opt::Unknown { kind, data },
    })
}

/// Options under construction. Each method appends one option if it fits. [`OptionWriter::finish`]
/// pads to a multiple of 4.
#[derive(Clone, Debug)]
pub struct OptionWriter {
    bytes: [u8; MAX_OPTIONS_LEN],
    len: usize,
}

impl Default for OptionWriter {
    fn default() -> Self {
        OptionWriter::new()
    }
}

impl OptionWriter {
    /// Returns a writer without options.
    #[inline]
    pub const fn new() -> Self {
        OptionWriter { bytes: [END; MAX_OPTIONS_LEN], len: 0 }
    }

    /// Returns the number of free bytes for further options.
    #[inline]
    pub const fn room(&self) -> usize {
        MAX_OPTIONS_LEN.saturating_sub(self.len)
    }

    /// Appends `option` if all of it fits; otherwise appends nothing.
    #[inline]
    fn push(mut self, option: &[u8]) -> Self {
        if let Some(room) = self.bytes.get_mut(self.len..).and_then(|room| room.get_mut(..option.len())) {
            room.copy_from_slice(option);
            self.len += option.len();
        }
        self
    }

    /// Appends No Operation, to align the next option.
    #[inline]
    #[must_use]
    pub fn nop(self) -> Self {
        self.push(&[NOP])
    }

    /// Appends a Maximum Segment Size option.
    #[inline]
    #[must_use]
    pub fn mss(self, mss: u16) -> Self {
        let [m0, m1] = mss.to_be_bytes();
        self.push(&[MSS, 4, m0, m1])
    }

    /// Appends a Window Scale option.
    #[inline]
    #[must_use]
    pub fn window_scale(self, shift: u8) -> Self {
        self.push(&[WINDOW_SCALE, 3, shift])
    }

    /// Appends a SACK Permitted option.
    #[inline]
    #[must_use]
    pub fn sack_permitted(self) -> Self {
        self.push(&[SACK_PERMITTED, 2])
    }

    /// Appends a Timestamps option.
    #[inline]
    #[must_use]
    pub fn timestamps(self, val: u32, ecr: u32) -> Self {
        let ([v0, v1, v2, v3], [e0, e1, e2, e3]) = (val.to_be_bytes(), ecr.to_be_bytes());
        self.push(&[TIMESTAMPS, 10, v0, v1, v2, v3, e0, e1, e2, e3])
    }

    /// Appends a SACK option with as many of `blocks` (left and right edge) as fit; appends nothing
    /// if no block fits.
    #[must_use]
    pub fn sack(self, blocks: &[(u32, u32)]) -> Self {
        let fit = (self.room().saturating_sub(2) / 8).min(blocks.len());
        if fit == 0 {
            return self;
        }
        let writer = self.push(&[SACK, 2 + 8 * fit as u8]);
        blocks
            .iter()
            .take(fit)
            .fold(writer, |writer, (left, right)| writer.push(&left.to_be_bytes()).push(&right.to_be_bytes()))
    }

    /// Returns the options, padded with End of Option List to a multiple of 4 (RFC 9293 3.1: the
    /// padding is zeros).
    #[inline]
    pub fn finish(&self) -> &[u8] {
        self.bytes.get(..self.len.next_multiple_of(4)).unwrap_or_default()
    }
}
