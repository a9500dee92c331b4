//! Options of Hop-by-Hop and Destination Options headers (RFC 8200 4.2): type, length, data.
//!
//! The iterator ends after the last byte, or after the first option that exceeds the header. The
//! two highest bits of an option's type give the action to take if the type is unknown:
//! [`Opt::unknown_action`].

use crate::{Layer, Malformed};

/// An IPv6 option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt<'a> {
    /// One byte of padding (type 0).
    Pad1,
    /// Padding of two bytes or more (type 1), with the length of its data in bytes.
    PadN(u8),
    /// Router alert (RFC 2711) and its value; 0 means Multicast Listener Discovery.
    RouterAlert(u16),
    /// Any other option.
    Other {
        /// Type of the option.
        kind: u8,
        /// Data of the option.
        data: &'a [u8],
    },
}

impl Opt<'_> {
    /// Returns the action for an option of unknown type (RFC 8200 4.2). 0: skip the option; 1:
    /// discard the packet; 2: discard it and send a parameter problem; 3: as 2, but only if the
    /// destination is not multicast.
    pub const fn unknown_action(kind: u8) -> u8 {
        kind >> 6
    }
}

/// Iterator over the options of one extension header. It is fused.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Iterates over the bytes after Next Header and Hdr Ext Len.
    pub fn new(bytes: &'a [u8]) -> Self {
        Options { rest: bytes }
    }

    /// Splits off the first option, which must not be Pad1.
    fn take(&mut self, kind: u8) -> Result<Opt<'a>, Malformed> {
        let len = self.rest.get(1).copied().unwrap_or(0);
        let option = self.rest.get(2..).and_then(|after| after.split_at_checked(usize::from(len)));
        let Some((data, rest)) = option else {
            self.rest = &[];
            return Err(Malformed::BadOptionLen { layer: Layer::Ip6, kind, len });
        };
        self.rest = rest;
        Ok(match (kind, data) {
            (1, _) => Opt::PadN(len),
            (5, &[v0, v1]) => Opt::RouterAlert(u16::from_be_bytes([v0, v1])),
            _ => Opt::Other { kind, data },
        })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, after) = self.rest.split_first()?;
        if kind == 0 {
            self.rest = after;
            return Some(Ok(Opt::Pad1));
        }
        Some(self.take(kind))
    }
}
