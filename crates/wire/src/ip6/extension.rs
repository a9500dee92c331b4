//! The chain of extension headers, traversed once, without recursion (RFC 8200 4.1 to 4.6, RFC 4302
//! 2).
//!
//! [`Chain::walk`] rejects chains that later code would have to check for: a Hop-by-Hop header that
//! is not first, a second Fragment header (CVE-2021-24086), more than [`MAX_EXTENSIONS`] headers,
//! and lengths past the end. It stops at the first unknown header, at ESP, and at "no next header".
//! In a fragment other than the first it stops after the Fragment header, because no further header
//! follows in that packet. It reports Routing headers; the caller must handle type 0 (RFC 5095).

use super::{Header, Options};
use crate::{Layer, Malformed, Proto};

/// Maximum number of extension headers. Legitimate packets have fewer.
pub const MAX_EXTENSIONS: usize = 8;

/// Fields of the Fragment header (RFC 8200 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fragment {
    /// Offset of this fragment in bytes, a multiple of 8.
    pub offset: u16,
    /// True if more fragments follow.
    pub more: bool,
    /// Identification of the fragmented packet.
    pub id: u32,
}

impl Fragment {
    /// Returns whether the offset is 0 and no fragments follow. Such a packet is treated as
    /// unfragmented (RFC 6946).
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// Returns a Fragment header as bytes.
    pub fn emit(&self, next: Proto) -> [u8; 8] {
        let [o0, o1] = (self.offset & 0xfff8 | u16::from(self.more)).to_be_bytes();
        let [i0, i1, i2, i3] = self.id.to_be_bytes();
        [next.0, 0, o0, o1, i0, i1, i2, i3]
    }
}

/// Fields of a Routing header (RFC 8200 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Routing {
    /// Routing type; type 0 must not be processed (RFC 5095 3).
    pub ty: u8,
    /// Number of segments left.
    pub segments_left: u8,
}

/// Position of an extension header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Extension {
    /// Protocol number of this header.
    pub proto: Proto,
    /// Offset of this header in bytes from the IPv6 header.
    pub offset: usize,
    /// Length of this header in bytes.
    pub len: usize,
}

/// Extension headers of one packet and the position of its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    extensions: [Option<Extension>; MAX_EXTENSIONS],
    /// Protocol of the payload: an upper layer, or the first header at which the walk stopped.
    pub upper: Proto,
    /// Offset of the payload in bytes from the IPv6 header.
    pub offset: usize,
    /// Offset of the Next Header byte whose value is `upper`. It is the pointer of an ICMPv6
    /// parameter problem with code 1.
    pub next_at: usize,
    /// The Fragment header, if present.
    pub fragment: Option<Fragment>,
    /// The first Routing header, if present.
    pub routing: Option<Routing>,
}

impl Chain {
    /// Walks the extension headers of the packet from which `header` was parsed.
    pub fn walk(header: &Header, packet: &[u8]) -> Result<Chain, Malformed> {
        let (chain, end) = Chain::walk_far(header, packet);
        end.map(|()| chain)
    }

    /// Walks the extension headers as [`Chain::walk`] does, but on an error also returns the part
    /// of the chain before the header with the error. `upper` is then the protocol of that header,
    /// and `next_at` the offset of the Next Header byte with its number.
    pub fn walk_far(header: &Header, packet: &[u8]) -> (Chain, Result<(), Malformed>) {
        let mut chain = Chain {
            extensions: [None; MAX_EXTENSIONS],
            upper: header.next,
            offset: super::HEADER_LEN,
            next_at: 6,
            fragment: None,
            routing: None,
        };
        let end = chain.go_on(header.payload(packet));
        (chain, end)
    }

    fn go_on(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let mut rest = payload;
        let mut slots = 0..MAX_EXTENSIONS;
        while is_walked(self.upper) && self.fragment.is_none_or(|fragment| fragment.offset == 0) {
            let proto = self.upper;
            let len = extension_len(proto, rest)?;
            let (extension, after) =
                rest.split_at_checked(len).ok_or_else(|| Malformed::truncated(Layer::Ip6, len, rest.len()))?;
            let slot = slots.next().ok_or(Malformed::TooManyExtensions)?;
            self.enter(slot, proto, extension)?;
            rest = after;
        }
        Ok(())
    }

    /// Records one complete extension header and advances past it. `slot` is its index in the
    /// chain.
    fn enter(&mut self, slot: usize, proto: Proto, extension: &[u8]) -> Result<(), Malformed> {
        // Every extension header has at least 8 bytes, as checked by `extension_len`.
        let Some(&[next, _, b2, b3, b4, b5, b6, b7]) = extension.first_chunk::<8>() else {
            return Err(Malformed::truncated(Layer::Ip6, 8, extension.len()));
        };
        match proto {
            Proto::HOP_BY_HOP if slot != 0 => return Err(Malformed::BadExtensionOrder(proto.0)),
            Proto::FRAGMENT if self.fragment.is_some() => return Err(Malformed::BadExtensionOrder(proto.0)),
            Proto::FRAGMENT => {
                let word = u16::from_be_bytes([b2, b3]);
                let id = u32::from_be_bytes([b4, b5, b6, b7]);
                self.fragment = Some(Fragment { offset: word & 0xfff8, more: word & 1 != 0, id });
            }
            Proto::ROUTING if self.routing.is_none() => self.routing = Some(Routing { ty: b2, segments_left: b3 }),
            _ => {}
        }
        if let Some(place) = self.extensions.get_mut(slot) {
            *place = Some(Extension { proto, offset: self.offset, len: extension.len() });
        }
        self.next_at = self.offset;
        self.offset += extension.len();
        self.upper = Proto(next);
        Ok(())
    }

    /// Returns the extension headers in order.
    pub fn extensions(&self) -> impl Iterator<Item = Extension> + '_ {
        self.extensions.iter().copied().map_while(|slot| slot)
    }

    /// Returns the first extension header with protocol number `proto`, and the offset of the Next
    /// Header byte whose value is this number.
    pub fn find(&self, proto: Proto) -> Option<(Extension, usize)> {
        let mut named_at = 6;
        for extension in self.extensions() {
            if extension.proto == proto {
                return Some((extension, named_at));
            }
            named_at = extension.offset;
        }
        None
    }

    /// Returns the bytes after the extension headers. `packet` must be the packet from which the
    /// chain was parsed.
    #[inline]
    pub fn payload<'a>(&self, header: &Header, packet: &'a [u8]) -> &'a [u8] {
        packet.get(self.offset..super::HEADER_LEN + usize::from(header.payload_len)).unwrap_or_default()
    }

    /// Returns the length of the payload in bytes, computed from `header` without the packet.
    pub fn payload_len(&self, header: &Header) -> usize {
        (super::HEADER_LEN + usize::from(header.payload_len)).saturating_sub(self.offset)
    }
}

impl Extension {
    /// Returns the options in this header of `packet`, if it is a Hop-by-Hop or Destination Options
    /// header.
    pub fn options<'a>(&self, packet: &'a [u8]) -> Option<Options<'a>> {
        matches!(self.proto, Proto::HOP_BY_HOP | Proto::DEST_OPTIONS)
            .then(|| Options::new(packet.get(self.offset + 2..self.offset + self.len).unwrap_or_default()))
    }
}

/// Returns whether the layout of the extension header `proto` is known, so that it can be skipped.
fn is_walked(proto: Proto) -> bool {
    matches!(proto, Proto::HOP_BY_HOP | Proto::ROUTING | Proto::FRAGMENT | Proto::DEST_OPTIONS | Proto::AUTH)
}

/// Returns the length of an extension header in bytes. The length field has units of 8 bytes beyond
/// the first 8, except Fragment (always 8 bytes) and AH (4-byte units, RFC 4302 2.2).
fn extension_len(proto: Proto, rest: &[u8]) -> Result<usize, Malformed> {
    let Some(&[_, units, ..]) = rest.first_chunk::<8>() else {
        return Err(Malformed::truncated(Layer::Ip6, 8, rest.len()));
    };
    let units = usize::from(units);
    match proto {
        Proto::FRAGMENT => Ok(8),
        // The fixed part of AH has 12 bytes (RFC 4302 2.2), so the length field must be at least
        // one unit above the first 8 bytes.
        Proto::AUTH if units < 1 => Err(Malformed::BadHeaderLen { layer: Layer::Ip6, len: 8 }),
        Proto::AUTH => Ok((units + 2) * 4),
        _ => Ok((units + 1) * 8),
    }
}
