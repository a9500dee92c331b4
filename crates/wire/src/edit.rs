//! Changes fields of a frame in place and updates the checksums that cover them.
//!
//! [`Layout::of`] finds the headers of a frame, after up to four VLAN tags, and with IPv4 options
//! or IPv6 extension headers. The setters of [`Layout`] write a field and update each checksum that
//! covers it by the difference (RFC 1624 3, equation 3). A wrong checksum therefore stays wrong by
//! the same amount, and an error is not hidden. Only the first fragment has a transport header and
//! its checksum. A UDP checksum of 0 ("not computed") stays 0. A setter returns whether the frame
//! has the field. If it does not, the setter writes nothing.
//!
//! [`Layout::checksums`] recomputes checksums from scratch, for checking or correcting them.

mod checksums;
#[cfg(test)]
mod tests;

pub use checksums::{Checksum, Covered};

use crate::eth::{self, EtherType};
use crate::vlan::{self, Tag};
use crate::{L4Port, Layer, Proto, icmp4, ip4, ip6};
use core::net::{Ipv4Addr, Ipv6Addr};

/// Maximum number of VLAN tags skipped.
const MAX_TAGS: usize = 4;
/// Offset of the EtherType of an untagged frame, and of the first VLAN tag.
pub const TAG_AT: usize = 12;

/// Selects the source or the destination of a pair of addresses or ports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// Source of the frame or packet.
    Src,
    /// Destination of the frame or packet.
    Dst,
}

/// IP version of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ip {
    /// No IP header, or a malformed one.
    None,
    /// IPv4 (RFC 791).
    V4,
    /// IPv6 (RFC 8200).
    V6,
}

/// Kind of a frame's upper-layer header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Upper {
    /// The protocol is not supported, or its header is in another fragment.
    None,
    /// TCP (RFC 9293).
    Tcp,
    /// UDP (RFC 768).
    Udp,
    /// ICMP for IPv4.
    Icmp,
    /// IGMP (RFC 2236, RFC 3376).
    Igmp,
    /// ICMP for IPv6.
    Icmp6,
}

impl Upper {
    #[cfg_attr(not(debug_assertions), inline(always))]
    const fn of(ip: Ip, proto: Proto) -> Upper {
        match (ip, proto) {
            (_, Proto::TCP) => Upper::Tcp,
            (_, Proto::UDP) => Upper::Udp,
            (Ip::V4, Proto::ICMP) => Upper::Icmp,
            (Ip::V4, Proto::IGMP) => Upper::Igmp,
            (Ip::V6, Proto::IPV6_ICMP) => Upper::Icmp6,
            _ => Upper::None,
        }
    }

    /// Returns the offset of the checksum within the header.
    #[cfg_attr(not(debug_assertions), inline(always))]
    const fn checksum_at(self) -> usize {
        match self {
            Upper::Tcp => 16,
            Upper::Udp => 6,
            Upper::None | Upper::Icmp | Upper::Igmp | Upper::Icmp6 => 2,
        }
    }

    /// Returns whether the checksum covers the IP addresses.
    #[inline(always)]
    const fn covers_addresses(self) -> bool {
        matches!(self, Upper::Tcp | Upper::Udp | Upper::Icmp6)
    }

    #[inline(always)]
    const fn has_ports(self) -> bool {
        matches!(self, Upper::Tcp | Upper::Udp)
    }
}

/// Byte offsets of a frame's headers. They are valid for the frame from which they were computed,
/// until its headers move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Offset of the last EtherType, which follows all VLAN tags.
    type_at: usize,
    ip: Ip,
    l3: usize,
    upper: Upper,
    l4: usize,
    /// End of the packet, or of the captured part of it.
    end: usize,
    /// True if the packet is neither a fragment nor truncated.
    whole: bool,
    /// True if checksums cover the last address of a Routing header instead of the destination (RFC
    /// 8200 8.1).
    source_routed: bool,
}

impl Layout {
    /// Finds the headers of `frame`.
    #[inline]
    pub fn of(frame: &[u8]) -> Layout {
        Layout::plain(frame).unwrap_or_else(|| Layout::walk(frame))
    }

    /// Finds the headers of an IPv4 packet without a link header, as quoted by an ICMP error.
    pub fn of_ip4(packet: &[u8]) -> Layout {
        let mut layout = Layout { l3: 0, ..Layout::none(0) };
        layout.enter4(packet);
        layout
    }

    /// Fast path for nearly all frames: returns the layout of an IPv4 packet without tags, options
    /// or fragmentation.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn plain(frame: &[u8]) -> Option<Layout> {
        const L3: usize = eth::HEADER_LEN;
        const L4: usize = L3 + ip4::HEADER_LEN;
        let h = frame.first_chunk::<L4>()?;
        let first = u32::from_be_bytes([h[L3 - 2], h[L3 - 1], h[L3], 0]);
        let fragment = u16::from_be_bytes([h[L3 + 6], h[L3 + 7]]) & 0x3fff;
        let len = usize::from(u16::from_be_bytes([h[L3 + 2], h[L3 + 3]]));
        let end = L3 + len;
        if first != 0x0800_4500 || fragment != 0 || len < ip4::HEADER_LEN || end > frame.len() {
            return None;
        }
        let upper = Upper::of(Ip::V4, Proto(h[L3 + 9]));
        Some(Layout { type_at: TAG_AT, ip: Ip::V4, l3: L3, upper, l4: L4, end, whole: true, source_routed: false })
    }

    const fn none(type_at: usize) -> Layout {
        let (l3, ip, upper) = (type_at + 2, Ip::None, Upper::None);
        Layout { type_at, ip, l3, upper, l4: 0, end: 0, whole: false, source_routed: false }
    }

    #[cold]
    fn walk(frame: &[u8]) -> Layout {
        let mut at = TAG_AT;
        let mut tags = 0..MAX_TAGS;
        let ethertype = |at| read::<2>(frame, at).map(|bytes| EtherType(u16::from_be_bytes(bytes)));
        while ethertype(at).is_some_and(EtherType::is_tag) && ethertype(at + vlan::TAG_LEN).is_some() {
            if tags.next().is_none() {
                break;
            }
            at += vlan::TAG_LEN;
        }
        let mut layout = Layout::none(at);
        let packet = frame.get(layout.l3..).unwrap_or_default();
        match ethertype(at) {
            Some(EtherType::IPV4) => layout.enter4(packet),
            Some(EtherType::IPV6) => layout.enter6(packet),
            _ => {}
        }
        layout
    }

    fn enter4(&mut self, packet: &[u8]) {
        // A packet that is captured or quoted in an ICMP error may be truncated.
        let Ok(header) = ip4::Header::parse_quoted(packet, Layer::Ip4) else { return };
        let total = usize::from(header.total_len);
        self.ip = Ip::V4;
        self.end = self.l3 + total.min(packet.len());
        self.whole = !header.is_fragment() && total <= packet.len();
        if header.frag_off == 0 {
            (self.upper, self.l4) = (Upper::of(Ip::V4, header.proto), self.l3 + header.ihl_len);
        }
    }

    fn enter6(&mut self, packet: &[u8]) {
        let Ok(header) = ip6::Header::parse(packet) else { return };
        let Ok(chain) = ip6::Chain::walk(&header, packet) else { return };
        self.ip = Ip::V6;
        self.end = self.l3 + ip6::HEADER_LEN + usize::from(header.payload_len);
        self.whole = chain.fragment.is_none_or(|fragment| fragment.is_atomic());
        self.source_routed = chain.routing.is_some_and(|routing| routing.segments_left != 0);
        if chain.fragment.is_none_or(|fragment| fragment.offset == 0) {
            (self.upper, self.l4) = (Upper::of(Ip::V6, chain.upper), self.l3 + chain.offset);
        }
    }

    /// Returns the IP version of the frame.
    #[inline]
    pub fn ip(&self) -> Ip {
        self.ip
    }

    /// Returns the kind of the upper-layer header.
    #[inline]
    pub fn upper(&self) -> Upper {
        self.upper
    }

    /// Returns the EtherType after all tags.
    pub fn ethertype(&self, frame: &[u8]) -> Option<EtherType> {
        read(frame, self.type_at).map(|bytes| EtherType(u16::from_be_bytes(bytes)))
    }

    /// Returns the IPv4 header, if present.
    pub fn header4(&self, frame: &[u8]) -> Option<ip4::Header> {
        let packet = frame.get(self.l3..).filter(|_| self.ip == Ip::V4)?;
        ip4::Header::parse_quoted(packet, Layer::Ip4).ok()
    }

    /// Returns the bytes from the upper-layer header to the end of the packet, or to the end of the
    /// captured part.
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.l4..self.end).filter(|_| self.upper != Upper::None).unwrap_or_default()
    }

    /// Returns the TCP or UDP ports, source first.
    pub fn ports(&self, frame: &[u8]) -> Option<(L4Port, L4Port)> {
        let [s0, s1, d0, d1] = read(self.payload(frame), 0).filter(|_| self.upper.has_ports())?;
        Some((L4Port(u16::from_be_bytes([s0, s1])), L4Port(u16::from_be_bytes([d0, d1]))))
    }

    /// Sets the EtherType after all tags. The layout is not valid afterwards.
    #[inline]
    pub fn set_ethertype(&self, frame: &mut [u8], ethertype: EtherType) -> bool {
        replace(frame, self.type_at, |_| ethertype.0.to_be_bytes()).is_some()
    }

    /// Changes an IPv4 address: keeps the bits in `keep`, and sets the bits in `set`.
    #[inline]
    pub fn set_ip4(&self, frame: &mut [u8], side: Side, keep: u32, set: u32) -> bool {
        let at = self.l3 + if side == Side::Src { 12 } else { 16 };
        let new = |old| (u32::from_be_bytes(old) & keep | set).to_be_bytes();
        if self.ip != Ip::V4 {
            return false;
        }
        let Some(delta) = replace(frame, at, new) else { return false };
        mend(frame, self.l3 + 10, delta);
        self.mend_upper_for_address(frame, delta);
        true
    }

    /// Replaces a whole IPv4 address.
    pub fn set_addr4(&self, frame: &mut [u8], side: Side, addr: Ipv4Addr) -> bool {
        self.set_ip4(frame, side, 0, addr.to_bits())
    }

    /// Changes an IPv6 address: keeps the bits in `keep`, and sets the bits in `set`.
    pub fn set_ip6(&self, frame: &mut [u8], side: Side, keep: u128, set: u128) -> bool {
        let at = self.l3 + if side == Side::Src { 8 } else { 24 };
        let new = |old| (u128::from_be_bytes(old) & keep | set).to_be_bytes();
        if self.ip != Ip::V6 {
            return false;
        }
        let Some(delta) = replace(frame, at, new) else { return false };
        if side == Side::Src || !self.source_routed {
            self.mend_upper_for_address(frame, delta);
        }
        true
    }

    /// Swaps source and destination IP address, of either version.
    #[inline]
    pub fn swap_ip(&self, frame: &mut [u8]) -> bool {
        match self.ip {
            Ip::None => false,
            Ip::V4 => swap::<4>(frame, self.l3 + 12), // the checksums do not change
            Ip::V6 => {
                let addresses = read::<32>(frame, self.l3 + 8).map(|bytes| {
                    let (src, dst) = bytes.split_at(16);
                    [src, dst].map(|addr| addr.try_into().map_or(0, u128::from_be_bytes))
                });
                let Some([src, dst]) = addresses else { return false };
                self.set_ip6(frame, Side::Src, 0, dst) && self.set_ip6(frame, Side::Dst, 0, src)
            }
        }
    }

    /// Sets the TTL or hop limit to the result of `new`, which is called with the current value. If
    /// `new` returns `None`, nothing is written.
    #[inline]
    pub fn change_ttl(&self, frame: &mut [u8], new: impl FnOnce(u8) -> Option<u8>) -> Changed {
        let (at, checksum) = match self.ip {
            Ip::None => return Changed::Absent,
            Ip::V4 => (self.l3 + 8, Some(self.l3 + 10)),
            Ip::V6 => (self.l3 + 7, None),
        };
        let Some(place) = frame.get_mut(at) else { return Changed::Absent };
        let old = *place;
        let Some(new) = new(old) else { return Changed::Refused };
        *place = new;
        if let Some(checksum) = checksum {
            mend(frame, checksum, delta(&[old, 0], &[new, 0]));
        }
        Changed::Done
    }

    /// Sets the DSCP to the low 6 bits of `dscp`; ECN is unchanged (RFC 2474).
    pub fn set_dscp(&self, frame: &mut [u8], dscp: u8) -> bool {
        let traffic_class = |old: u8| old & 3 | dscp << 2;
        match self.ip {
            Ip::None => false,
            Ip::V4 => {
                let new = |[version, tos]: [u8; 2]| [version, traffic_class(tos)];
                let Some(delta) = replace(frame, self.l3, new) else { return false };
                mend(frame, self.l3 + 10, delta);
                true
            }
            Ip::V6 => {
                let new = |[v0, v1]: [u8; 2]| {
                    let class = traffic_class(v0 << 4 | v1 >> 4);
                    [v0 & 0xf0 | class >> 4, v1 & 0x0f | class << 4]
                };
                replace(frame, self.l3, new).is_some()
            }
        }
    }

    /// Sets the identification of an IPv4 packet.
    pub fn set_ip_id(&self, frame: &mut [u8], id: u16) -> bool {
        if self.ip != Ip::V4 {
            return false;
        }
        let Some(delta) = replace(frame, self.l3 + 4, |_| id.to_be_bytes()) else { return false };
        mend(frame, self.l3 + 10, delta);
        true
    }

    /// Sets a TCP or UDP port.
    #[inline]
    pub fn set_port(&self, frame: &mut [u8], side: Side, port: L4Port) -> bool {
        let at = self.l4 + if side == Side::Src { 0 } else { 2 };
        if !self.upper.has_ports() || at + 2 > self.end {
            return false;
        }
        let Some(delta) = replace(frame, at, |_| port.0.to_be_bytes()) else { return false };
        self.mend_upper(frame, delta);
        true
    }

    /// Swaps source and destination port of TCP or UDP.
    #[inline]
    pub fn swap_ports(&self, frame: &mut [u8]) -> bool {
        self.upper.has_ports() && self.l4 + 4 <= self.end && swap::<2>(frame, self.l4)
    }

    /// Sets the identifier of an ICMP query or reply. The caller must have checked that the message
    /// is a query or reply.
    pub fn set_icmp_id(&self, frame: &mut [u8], id: u16) -> bool {
        if self.upper != Upper::Icmp || self.l4 + 6 > self.end {
            return false;
        }
        let Some(delta) = replace(frame, self.l4 + 4, |_| id.to_be_bytes()) else { return false };
        self.mend_upper(frame, delta);
        true
    }

    /// Applies `change` to the packet that an ICMP error quotes, and updates the checksum of the
    /// ICMP error. Returns `None` if the frame is not an ICMP message for IPv4, or its ICMP header
    /// is incomplete.
    pub fn change_quoted<R>(&self, frame: &mut [u8], change: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let range = self.l4 + icmp4::HEADER_LEN..self.end;
        let quoted = frame.get_mut(range).filter(|_| self.upper == Upper::Icmp)?;
        let before = crate::checksum::sum(quoted).finish();
        let result = change(quoted);
        let after = crate::checksum::sum(quoted).finish();
        // `finish` returns complemented sums, so ~m is `before` and m' is `!after` (RFC 1624 3).
        self.mend_upper(frame, u32::from(before) + u32::from(!after));
        Some(result)
    }

    #[inline(always)]
    fn mend_upper_for_address(&self, frame: &mut [u8], delta: u32) {
        if self.upper.covers_addresses() {
            self.mend_upper(frame, delta);
        }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn mend_upper(&self, frame: &mut [u8], delta: u32) {
        let at = self.l4 + self.upper.checksum_at();
        if at + 2 > self.end {
            return;
        }
        if self.upper != Upper::Udp {
            return mend(frame, at, delta);
        }
        let Some(place) = place::<2>(frame, at) else { return };
        if *place != [0, 0] {
            let sum = mended(*place, delta);
            *place = if sum == [0, 0] { [0xff, 0xff] } else { sum };
        }
    }
}

/// Changes the TTL as [`Layout::change_ttl`] does, for a frame that has not been parsed. Nearly
/// always the TTL is in an IPv4 header right after the Ethernet header, and checking for that costs
/// less than finding all headers.
#[inline]
pub fn change_ttl(frame: &mut [u8], new: impl FnOnce(u8) -> Option<u8>) -> Changed {
    const L3: usize = eth::HEADER_LEN;
    if let Some(h) = frame.first_chunk_mut::<{ L3 + ip4::HEADER_LEN }>()
        && [h[L3 - 2], h[L3 - 1], h[L3]] == [0x08, 0x00, 0x45]
        && usize::from(u16::from_be_bytes([h[L3 + 2], h[L3 + 3]])) >= ip4::HEADER_LEN
    {
        let old = h[L3 + 8];
        let Some(new) = new(old) else { return Changed::Refused };
        h[L3 + 8] = new;
        [h[L3 + 10], h[L3 + 11]] = mended([h[L3 + 10], h[L3 + 11]], delta(&[old, 0], &[new, 0]));
        return Changed::Done;
    }
    Layout::of(frame).change_ttl(frame, new)
}

/// Result of changing a field for which some values are not allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changed {
    /// The field was changed.
    Done,
    /// The frame does not have the field.
    Absent,
    /// The value is not allowed for the field.
    Refused,
}

/// Returns the outermost VLAN tag.
#[inline]
pub fn tag(frame: &[u8]) -> Option<Tag> {
    let tpid = EtherType(u16::from_be_bytes(read(frame, TAG_AT)?));
    Tag::parse(frame.get(TAG_AT + 2..).filter(|_| tpid.is_tag())?).ok()
}

/// Overwrites the outermost VLAN tag of a tagged frame.
#[inline]
pub fn set_tag(frame: &mut [u8], tag: &Tag) {
    if let Some(place) = place(frame, TAG_AT + 2) {
        tag.emit(place);
    }
}

/// Returns the four bytes that turn an untagged frame into a tagged one when inserted at
/// [`TAG_AT`].
pub fn tag_bytes(tpid: EtherType, pcp: u8, vid: u16) -> [u8; vlan::TAG_LEN] {
    let [t0, t1] = tpid.0.to_be_bytes();
    let mut bytes = [0; vlan::TAG_LEN];
    // In the frame the TPID comes before the control bits. `Tag` instead consists of the control
    // bits and the EtherType after them.
    Tag { pcp, dei: false, vid, ethertype: EtherType(0) }.emit(&mut bytes);
    let [c0, c1, ..] = bytes;
    [t0, t1, c0, c1]
}

/// Swaps source and destination Ethernet address.
#[inline]
pub fn swap_macs(frame: &mut [u8]) -> bool {
    swap::<6>(frame, 0)
}

#[inline(always)]
fn read<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..)?.first_chunk().copied()
}

#[inline(always)]
fn place<const N: usize>(frame: &mut [u8], at: usize) -> Option<&mut [u8; N]> {
    frame.get_mut(at..)?.first_chunk_mut()
}

/// Swaps the `N` bytes at `at` with the `N` bytes after them.
#[cfg_attr(not(debug_assertions), inline(always))]
fn swap<const N: usize>(frame: &mut [u8], at: usize) -> bool {
    let both = frame.get_mut(at..).and_then(<[u8]>::split_first_chunk_mut::<N>);
    let Some((first, rest)) = both else { return false };
    let Some(second) = rest.first_chunk_mut::<N>() else { return false };
    core::mem::swap(first, second);
    true
}

/// Replaces the bytes at `at` by the result of `new`; `at` must be at an even offset in the bytes
/// that a checksum covers. Returns the difference by which [`mended`] updates the checksum.
#[inline(always)]
fn replace<const N: usize>(frame: &mut [u8], at: usize, new: impl FnOnce([u8; N]) -> [u8; N]) -> Option<u32> {
    let place = place::<N>(frame, at)?;
    let old = *place;
    *place = new(old);
    Some(delta(&old, place))
}

/// Returns the sum of ~m + m' over all words (RFC 1624 3): at most 2^17 for each of at most 8
/// words.
#[cfg_attr(not(debug_assertions), inline(always))]
fn delta<const N: usize>(old: &[u8; N], new: &[u8; N]) -> u32 {
    let (old, new) = (old.as_chunks::<2>().0, new.as_chunks::<2>().0);
    old.iter()
        .zip(new)
        .map(|(old, new)| u32::from(!u16::from_be_bytes(*old)) + u32::from(u16::from_be_bytes(*new)))
        .sum()
}

/// Updates a checksum: HC' = ~(~HC + ~m + m') (RFC 1624 3, equation 3).
#[inline(always)]
fn mended(checksum: [u8; 2], delta: u32) -> [u8; 2] {
    let sum = u32::from(!u16::from_be_bytes(checksum)) + delta;
    let sum = (sum & 0xffff) + (sum >> 16);
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}

#[inline(always)]
fn mend(frame: &mut [u8], at: usize, delta: u32) {
    if let Some(place) = place::<2>(frame, at) {
        *place = mended(*place, delta);
    }
}

/// Returns source and destination of the IPv6 packet at `at`.
fn addresses6(frame: &[u8], at: usize) -> Option<(Ipv6Addr, Ipv6Addr)> {
    let src = read::<16>(frame, at + 8)?;
    let dst = read::<16>(frame, at + 24)?;
    Some((src.into(), dst.into()))
}
