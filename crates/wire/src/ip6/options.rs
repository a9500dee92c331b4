//! Options of Hop-by-Hop and Destination Options headers (RFC 8200 4.2): type, length, data.
//!
//! The iterator ends after the last byte or after the first option that runs past the end. What to do with an option nobody
//! knows stands in its two highest bits: [`Opt::unknown_action`].

use crate::{Layer, Malformed};

/// One option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt<'a> {
    /// One byte of padding (type 0).
    Pad1,
    /// Padding of two bytes and more (type 1); its data length.
    PadN(u8),
    /// Router alert (RFC 2711); 0 means Multicast Listener Discovery.
    RouterAlert(u16),
    /// Any other option.
    Other {
        /// Option type.
        kind: u8,
        /// Option data.
        data: &'a [u8],
    },
}

impl Opt<'_> {
    /// RFC 8200 4.2: 0 skip it, 1 discard the packet, 2 and send a parameter problem, 3 that only if not multicast.
    pub const fn unknown_action(kind: u8) -> u8 {
        kind >> 6
    }
}

/// The options of one extension header; fused.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Over the bytes after Next Header and Hdr Ext Len.
    pub fn new(bytes: &'a [u8]) -> Self {
        Options { rest: bytes }
    }

    /// Splits off the option at the front, which is not Pad1.
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
