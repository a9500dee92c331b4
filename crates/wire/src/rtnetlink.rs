//! Route and next hop messages of rtnetlink(7), as FRR's `zebra` sends them in FPM frames
//! ([`crate::fpm`]).
//!
//! Multi-byte fields are in the byte order of the host, as netlink has them: the peer runs on a
//! machine of the same byte order. Attributes that a router does not need are skipped.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::{error, fmt};

mod build;
#[cfg(test)]
mod tests;

pub use build::Builder;

const HEADER_LEN: usize = 16;
const ATTRIBUTE_LEN: usize = 4;
/// The length of messages and attributes is rounded up to a multiple of this.
const ALIGN: usize = 4;

const NEWROUTE: u16 = 24;
const DELROUTE: u16 = 25;
const NEWNEXTHOP: u16 = 104;
const DELNEXTHOP: u16 = 105;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_ENCAP: u16 = 22;
const RTA_NH_ID: u16 = 30;

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP: u16 = 8;

/// Type of a route whose packets need labels or another header; not a value of rtnetlink.
const ENCAPSULATED: u8 = 255;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Reason why a message was rejected. The remaining messages of its frame cannot be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RtnetlinkError {
    /// A message is shorter than its header or its length field.
    Truncated,
    /// An attribute is longer than its message, or shorter than its value. Contains the type of the
    /// attribute.
    Attribute(u16),
    /// The address family is neither IPv4 nor IPv6.
    Family(u8),
    /// The prefix is longer than an address. Contains the length in bits.
    PrefixLength(u8),
    /// A next hop has no number.
    NoId,
}

impl fmt::Display for RtnetlinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RtnetlinkError::Truncated => f.write_str("truncated netlink message"),
            RtnetlinkError::Attribute(ty) => write!(f, "attribute {ty} has an invalid length"),
            RtnetlinkError::Family(family) => write!(f, "address family {family} is not supported"),
            RtnetlinkError::PrefixLength(len) => write!(f, "prefix length {len} exceeds the address length"),
            RtnetlinkError::NoId => f.write_str("next hop without a number"),
        }
    }
}

impl error::Error for RtnetlinkError {}

/// A message about a route or a next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'m> {
    /// A route that is new, or replaces the route to the same prefix.
    NewRoute(Route<'m>),
    /// A route that is removed.
    DelRoute(Route<'m>),
    /// A next hop that is new or changed.
    NewNextHop {
        /// Number of the next hop.
        id: u32,
        /// Target of the next hop.
        to: NextHop<'m>,
    },
    /// Number of a next hop that is removed.
    DelNextHop(u32),
    /// Type of any other message, among them routes of other families and for certain sources.
    Other(u16),
}

/// Type of a route (`rtm_type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RouteKind {
    /// Packets are forwarded.
    Unicast,
    /// Packets are dropped silently.
    Blackhole,
    /// Packets are rejected as unreachable.
    Unreachable,
    /// Packets are rejected as prohibited.
    Prohibit,
    /// Any other type, or a route whose packets need another header (MPLS, for example).
    Other(u8),
}

/// A route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route<'m> {
    /// First address of the prefix. It determines the family.
    pub dst: IpAddr,
    /// Prefix length in bits, at most the length of the address.
    pub dst_len: u8,
    /// Number of the routing table; 254 is the main table.
    pub table: u32,
    /// Protocol that the route comes from (`rtm_protocol`), such as 186 for BGP.
    pub proto: u8,
    /// Type of the route.
    pub kind: RouteKind,
    /// Metric; 0 if there is none.
    pub priority: u32,
    /// Number of the next hop; `None` if the message contains the next hop itself.
    pub nh_id: Option<u32>,
    /// Next hop in the message; [`NextHop::None`] if there is none, or only its number.
    pub to: NextHop<'m>,
}

/// Target of a route or next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHop<'m> {
    /// No target.
    None,
    /// Packets are dropped silently.
    Blackhole,
    /// A single path.
    Path(Hop),
    /// Several paths, each a next hop of its own number.
    Group(Group<'m>),
    /// Several paths of one route.
    Multipath(Multipath<'m>),
}

/// A path: an interface, a gateway, or both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Hop {
    /// Index of the outgoing interface, in the namespace of the peer; 0 if there is none.
    pub oif: u32,
    /// Address of the gateway; `None` if the destination is on the link.
    pub gateway: Option<IpAddr>,
}

/// Members of a group of next hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group<'m>(&'m [[u8; Group::MEMBER_LEN]]);

impl<'m> Group<'m> {
    const MEMBER_LEN: usize = 8;

    /// Returns the members: (number of the next hop, weight from 1 to 256).
    pub fn members(self) -> impl ExactSizeIterator<Item = (u32, u16)> + 'm {
        self.0.iter().map(|&[a, b, c, d, weight, ..]| (u32::from_ne_bytes([a, b, c, d]), u16::from(weight) + 1))
    }
}

/// Paths of a multipath route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Multipath<'m> {
    bytes: &'m [u8],
    is_ip4: bool,
}

impl<'m> Multipath<'m> {
    /// Returns the paths with their weights from 1 to 256. All paths were checked when the message
    /// was parsed.
    pub fn paths(self) -> impl Iterator<Item = (Hop, u16)> + 'm {
        let mut rest = self.bytes;
        core::iter::from_fn(move || next_path(&mut rest, self.is_ip4).ok()?)
    }
}

/// Iterates over the messages of a frame. Ends after the first error.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'m>(&'m [u8]);

/// Returns the messages of a frame.
pub fn messages(frame: &[u8]) -> Messages<'_> {
    Messages(frame)
}

impl<'m> Iterator for Messages<'m> {
    type Item = Result<Message<'m>, RtnetlinkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let message = split_message(&mut self.0).and_then(|(ty, body)| parse(ty, body));
        if message.is_err() {
            self.0 = &[];
        }
        Some(message)
    }
}

/// Splits the first message off `bytes`: returns its type and what follows its header.
fn split_message<'m>(bytes: &mut &'m [u8]) -> Result<(u16, &'m [u8]), RtnetlinkError> {
    let (&[a, b, c, d, e, f, ..], _) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(RtnetlinkError::Truncated)?;
    let len = u32::from_ne_bytes([a, b, c, d]) as usize;
    let body = bytes.get(HEADER_LEN..len).ok_or(RtnetlinkError::Truncated)?;
    *bytes = bytes.get(len.next_multiple_of(ALIGN)..).unwrap_or_default();
    Ok((u16::from_ne_bytes([e, f]), body))
}

fn parse(ty: u16, body: &[u8]) -> Result<Message<'_>, RtnetlinkError> {
    match ty {
        NEWROUTE => Ok(parse_route(body)?.map_or(Message::Other(ty), Message::NewRoute)),
        DELROUTE => Ok(parse_route(body)?.map_or(Message::Other(ty), Message::DelRoute)),
        NEWNEXTHOP => parse_next_hop(body),
        DELNEXTHOP => match parse_next_hop(body)? {
            Message::NewNextHop { id, .. } => Ok(Message::DelNextHop(id)),
            other => Ok(other),
        },
        other => Ok(Message::Other(other)),
    }
}

/// Splits the first attribute off `bytes`: returns its type, without flags, and its value.
#[inline]
fn next_attribute<'m>(bytes: &mut &'m [u8]) -> Result<Option<(u16, &'m [u8])>, RtnetlinkError> {
    let Some((&[a, b, c, d], _)) = bytes.split_first_chunk::<ATTRIBUTE_LEN>() else {
        return if bytes.is_empty() { Ok(None) } else { Err(RtnetlinkError::Truncated) };
    };
    let (len, ty) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]) & 0x3fff);
    let value = bytes.get(ATTRIBUTE_LEN..len).ok_or(RtnetlinkError::Attribute(ty))?;
    *bytes = bytes.get(len.next_multiple_of(ALIGN)..).unwrap_or_default();
    Ok(Some((ty, value)))
}

fn number(ty: u16, value: &[u8]) -> Result<u32, RtnetlinkError> {
    value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes)).ok_or(RtnetlinkError::Attribute(ty))
}

/// Returns an address of 4 or 16 bytes.
fn address(ty: u16, value: &[u8], is_ip4: bool) -> Result<IpAddr, RtnetlinkError> {
    let addr = match is_ip4 {
        true => value.first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes).into()),
        false => value.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes).into()),
    };
    addr.ok_or(RtnetlinkError::Attribute(ty))
}

fn is_ip4(family: u8) -> Result<bool, RtnetlinkError> {
    match family {
        AF_INET => Ok(true),
        AF_INET6 => Ok(false),
        other => Err(RtnetlinkError::Family(other)),
    }
}

/// Returns the gateway of an `RTA_VIA` attribute, which has its own family.
fn via(value: &[u8]) -> Result<IpAddr, RtnetlinkError> {
    let (&[low, high], addr) = value.split_first_chunk().ok_or(RtnetlinkError::Attribute(RTA_VIA))?;
    let family = u16::from_ne_bytes([low, high]);
    address(RTA_VIA, addr, is_ip4(u8::try_from(family).unwrap_or(u8::MAX))?)
}

/// Parses a route. Returns `None` for a route of another family, such as MPLS, or for packets from
/// certain sources only.
fn parse_route(body: &[u8]) -> Result<Option<Route<'_>>, RtnetlinkError> {
    let (&[family, dst_len, src_len, _, table, proto, _, kind, ..], mut rest) =
        body.split_first_chunk::<12>().ok_or(RtnetlinkError::Truncated)?;
    let is_ip4 = match is_ip4(family) {
        Ok(is_ip4) if src_len == 0 => is_ip4,
        _ => return Ok(None),
    };
    if dst_len > if is_ip4 { 32 } else { 128 } {
        return Err(RtnetlinkError::PrefixLength(dst_len));
    }
    let kind = match kind {
        1 => RouteKind::Unicast,
        6 => RouteKind::Blackhole,
        7 => RouteKind::Unreachable,
        8 => RouteKind::Prohibit,
        other => RouteKind::Other(other),
    };
    // The default route has no RTA_DST.
    let dst = if is_ip4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let (table, nh_id) = (u32::from(table), None);
    let mut route = Route { dst, dst_len, table, proto, kind, priority: 0, nh_id, to: NextHop::None };
    let (mut hop, mut has_hop) = (Hop::default(), false);
    while let Some((ty, value)) = next_attribute(&mut rest)? {
        match ty {
            RTA_DST => route.dst = address(ty, value, is_ip4)?,
            RTA_OIF => (hop.oif, has_hop) = (number(ty, value)?, true),
            RTA_GATEWAY => (hop.gateway, has_hop) = (Some(address(ty, value, is_ip4)?), true),
            RTA_VIA => (hop.gateway, has_hop) = (Some(via(value)?), true),
            RTA_PRIORITY => route.priority = number(ty, value)?,
            RTA_TABLE => route.table = number(ty, value)?,
            RTA_ENCAP => route.kind = RouteKind::Other(ENCAPSULATED),
            RTA_NH_ID => route.nh_id = Some(number(ty, value)?),
            RTA_MULTIPATH => {
                let mut paths = value;
                while next_path(&mut paths, is_ip4)?.is_some() {}
                route.to = NextHop::Multipath(Multipath { bytes: value, is_ip4 });
            }
            _ => {}
        }
    }
    if has_hop && route.to == NextHop::None {
        route.to = NextHop::Path(hop);
    }
    Ok(Some(route))
}

/// Splits the first path (`struct rtnexthop`) off the value of `RTA_MULTIPATH`; returns it with its
/// weight.
fn next_path(bytes: &mut &[u8], is_ip4: bool) -> Result<Option<(Hop, u16)>, RtnetlinkError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let failed = RtnetlinkError::Attribute(RTA_MULTIPATH);
    let (&[a, b, _, hops, c, d, e, f], _) = bytes.split_first_chunk().ok_or(failed)?;
    let len = usize::from(u16::from_ne_bytes([a, b]));
    let mut attributes = bytes.get(8..len).ok_or(failed)?;
    let mut hop = Hop { oif: u32::from_ne_bytes([c, d, e, f]), gateway: None };
    let mut is_plain = true;
    while let Some((ty, value)) = next_attribute(&mut attributes)? {
        match ty {
            RTA_GATEWAY => hop.gateway = Some(address(ty, value, is_ip4)?),
            RTA_VIA => hop.gateway = Some(via(value)?),
            RTA_ENCAP => is_plain = false,
            _ => {}
        }
    }
    if !is_plain {
        hop.oif = 0; // no interface sends packets with labels
    }
    *bytes = bytes.get(len.next_multiple_of(ALIGN)..).unwrap_or_default();
    Ok(Some((hop, u16::from(hops) + 1)))
}

fn parse_next_hop(body: &[u8]) -> Result<Message<'_>, RtnetlinkError> {
    let (&[family, ..], mut rest) = body.split_first_chunk::<8>().ok_or(RtnetlinkError::Truncated)?;
    let (mut id, mut hop, mut to) = (None, Hop::default(), NextHop::None);
    let (mut has_hop, mut is_plain) = (false, true);
    while let Some((ty, value)) = next_attribute(&mut rest)? {
        match ty {
            NHA_ID => id = Some(number(ty, value)?),
            NHA_GROUP => {
                let (members, []) = value.as_chunks() else { return Err(RtnetlinkError::Attribute(ty)) };
                to = NextHop::Group(Group(members));
            }
            NHA_BLACKHOLE => to = NextHop::Blackhole,
            NHA_ENCAP => is_plain = false,
            NHA_OIF => (hop.oif, has_hop) = (number(ty, value)?, true),
            NHA_GATEWAY => (hop.gateway, has_hop) = (Some(address(ty, value, is_ip4(family)?)?), true),
            _ => {}
        }
    }
    if has_hop && is_plain && to == NextHop::None {
        to = NextHop::Path(hop);
    }
    Ok(Message::NewNextHop { id: id.ok_or(RtnetlinkError::NoId)?, to })
}
