//! Neighbor discovery: solicitations, advertisements, redirects and their options (RFC 4861 4).
//!
//! [`Message::parse`] checks all options once: a length of 0 or past the end makes the whole
//! message malformed (RFC 4861 4.6; CVE-2020-16898), so reading [`Options`] afterwards cannot fail.
//! It also makes those address checks of RFC 4861 6.1, 7.1 and 8.1 that need only the message: the
//! target must not be a multicast address. The caller makes the checks that need the addresses of
//! the packet.

use super::header::HEADER_LEN;
use super::{emit, ty};
use crate::{Layer, Mac, Malformed};
use alloc::vec;
use core::net::Ipv6Addr;

/// Length in bytes of a solicitation or advertisement with one link-layer address.
pub const NEIGHBOR_LEN: usize = 32;
/// Length in bytes of a router advertisement with a link-layer address and an MTU, but no prefix.
pub const ROUTER_ADVERT_LEN: usize = 32;
/// Maximum length of a redirect in bytes: 1280 including the IPv6 header (RFC 4861 4.5).
pub const REDIRECT_MAX: usize = 1240;
/// Length of a prefix information option in bytes.
pub const PREFIX_LEN: usize = 32;

/// Preference of a default router (RFC 4191 2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Preference {
    /// Preferred less than a router without a preference.
    Low,
    /// Preferred like a router without a preference; also used for the reserved value.
    Medium,
    /// Preferred more than a router without a preference.
    High,
}

impl Preference {
    fn of_bits(bits: u32) -> Preference {
        match bits & 3 {
            1 => Preference::High,
            3 => Preference::Low,
            _ => Preference::Medium,
        }
    }
}

/// A prefix information option of a router advertisement (RFC 4861 4.6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrefixInfo {
    /// Prefix length in bits.
    pub len: u8,
    /// True if hosts with addresses in the prefix are reachable directly on the link.
    pub on_link: bool,
    /// True if hosts may form their own addresses with the prefix (RFC 4862).
    pub autonomous: bool,
    /// Valid lifetime of the prefix in seconds.
    pub valid: u32,
    /// Preferred lifetime of addresses with the prefix, in seconds.
    pub preferred: u32,
    /// The prefix as an address.
    pub prefix: Ipv6Addr,
}

/// A neighbor discovery option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt<'a> {
    /// The sender's link-layer address (type 1).
    SourceLink(Mac),
    /// The target's link-layer address (type 2).
    TargetLink(Mac),
    /// Prefix information (type 3).
    Prefix(PrefixInfo),
    /// MTU of the link (type 5).
    Mtu(u32),
    /// Name servers (type 25, RFC 8106 5.1).
    Rdnss {
        /// Lifetime in seconds; `u32::MAX` is infinity.
        lifetime: u32,
        /// Addresses of the name servers.
        servers: Addrs<'a>,
    },
    /// Search domains (type 31, RFC 8106 5.2).
    Dnssl {
        /// Lifetime in seconds; `u32::MAX` is infinity.
        lifetime: u32,
        /// The domain names, encoded as in DNS without compression pointers, and padded with zeros.
        domains: &'a [u8],
    },
    /// Any other option, or a known one with an unexpected length.
    Other {
        /// Type of the option.
        kind: u8,
        /// Bytes after type and length.
        data: &'a [u8],
    },
}

/// List of addresses in an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addrs<'a>(&'a [u8]);

impl Addrs<'_> {
    /// Returns an iterator over the addresses.
    pub fn iter(&self) -> impl Iterator<Item = Ipv6Addr> {
        let (addrs, _) = self.0.as_chunks::<16>();
        addrs.iter().map(|addr| Ipv6Addr::from(*addr))
    }
}

/// Options of one message, with checked lengths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// Checks that every option in `bytes` has at least 8 bytes and ends within them.
    pub fn parse(bytes: &'a [u8]) -> Result<Options<'a>, Malformed> {
        let mut rest = bytes;
        while let Some(&kind) = rest.first() {
            let units = rest.get(1).copied().unwrap_or(0);
            match rest.get(usize::from(units) * 8..) {
                Some(after) if units > 0 => rest = after,
                _ => return Err(Malformed::BadOptionLen { layer: Layer::Icmp6, kind, len: units }),
            }
        }
        Ok(Options(bytes))
    }

    /// Returns the first source link-layer address.
    pub fn source_link(self) -> Option<Mac> {
        self.into_iter().find_map(|option| if let Opt::SourceLink(mac) = option { Some(mac) } else { None })
    }

    /// Returns the first MTU option.
    pub fn mtu(self) -> Option<u32> {
        self.into_iter().find_map(|option| if let Opt::Mtu(mtu) = option { Some(mtu) } else { None })
    }

    /// Returns the first target link-layer address.
    pub fn target_link(self) -> Option<Mac> {
        self.into_iter().find_map(|option| if let Opt::TargetLink(mac) = option { Some(mac) } else { None })
    }
}

impl<'a> IntoIterator for Options<'a> {
    type Item = Opt<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        Iter(self.0)
    }
}

/// Iterator over the options of a message.
#[derive(Clone, Debug)]
pub struct Iter<'a>(&'a [u8]);

impl<'a> Iterator for Iter<'a> {
    type Item = Opt<'a>;

    fn next(&mut self) -> Option<Opt<'a>> {
        let (&[kind, units], _) = self.0.split_first_chunk::<2>()?;
        let (option, rest) = self.0.split_at_checked(usize::from(units) * 8)?;
        self.0 = rest;
        let data = option.get(2..)?;
        Some(match (kind, data) {
            (1, &[a, b, c, d, e, f]) => Opt::SourceLink(Mac([a, b, c, d, e, f])),
            (2, &[a, b, c, d, e, f]) => Opt::TargetLink(Mac([a, b, c, d, e, f])),
            (3, _) if data.len() == 30 => prefix(data)?,
            (5, &[_, _, a, b, c, d]) => Opt::Mtu(u32::from_be_bytes([a, b, c, d])),
            (25, &[_, _, a, b, c, d, ref servers @ ..]) if !servers.is_empty() && servers.len() % 16 == 0 => {
                Opt::Rdnss { lifetime: u32::from_be_bytes([a, b, c, d]), servers: Addrs(servers) }
            }
            (31, &[_, _, a, b, c, d, ref domains @ ..]) if !domains.is_empty() => {
                Opt::Dnssl { lifetime: u32::from_be_bytes([a, b, c, d]), domains }
            }
            _ => Opt::Other { kind, data },
        })
    }
}

fn prefix(data: &[u8]) -> Option<Opt<'_>> {
    let (&[len, flags, v0, v1, v2, v3, p0, p1, p2, p3, _, _, _, _], prefix) = data.split_first_chunk::<14>()?;
    Some(Opt::Prefix(PrefixInfo {
        len,
        on_link: flags & 0x80 != 0,
        autonomous: flags & 0x40 != 0,
        valid: u32::from_be_bytes([v0, v1, v2, v3]),
        preferred: u32::from_be_bytes([p0, p1, p2, p3]),
        prefix: Ipv6Addr::from(*prefix.first_chunk::<16>()?),
    }))
}

/// A neighbor discovery message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// Router solicitation (RFC 4861 4.1).
    RouterSolicit {
        /// Options of the message.
        options: Options<'a>,
    },
    /// Router advertisement (RFC 4861 4.2).
    RouterAdvert {
        /// Hop limit for hosts to use; 0 if unspecified.
        hop_limit: u8,
        /// Preference as a default router.
        preference: Preference,
        /// Lifetime as a default router in seconds; 0 if the sender is not a default router.
        lifetime: u16,
        /// True if DHCPv6 servers can supply configuration other than addresses, such as name
        /// servers (RFC 4861 4.2, O flag).
        other_config: bool,
        /// Time in milliseconds for which a neighbor counts as reachable after a confirmation; 0 if
        /// unspecified.
        reachable_ms: u32,
        /// Time in milliseconds between retransmitted solicitations; 0 if unspecified.
        retrans_ms: u32,
        /// Options of the message.
        options: Options<'a>,
    },
    /// Neighbor solicitation (RFC 4861 4.3).
    Solicit {
        /// Address to be resolved.
        target: Ipv6Addr,
        /// Options of the message.
        options: Options<'a>,
    },
    /// Neighbor advertisement (RFC 4861 4.4).
    Advert {
        /// Flags and target address.
        advert: Advert,
        /// Options of the message.
        options: Options<'a>,
    },
    /// Redirect to a better first hop (RFC 4861 4.5).
    Redirect {
        /// Address of the better first hop.
        target: Ipv6Addr,
        /// Destination of the redirected packets.
        dst: Ipv6Addr,
        /// Options of the message.
        options: Options<'a>,
    },
}

/// Fields of a neighbor advertisement (RFC 4861 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Advert {
    /// True if the sender is a router.
    pub router: bool,
    /// True if the advertisement was sent in response to a solicitation.
    pub solicited: bool,
    /// Override flag: true if the advertisement replaces a cached entry.
    pub replaces: bool,
    /// Address that is advertised.
    pub target: Ipv6Addr,
}

impl<'a> Message<'a> {
    /// Parses a message of type `ty`. `word` is the last four bytes of its 8-byte header; `body` is
    /// the rest of the message.
    pub(super) fn parse(ty: u8, code: u8, word: u32, body: &'a [u8]) -> Result<Message<'a>, Malformed> {
        if code != 0 {
            return Err(Malformed::BadFlags { layer: Layer::Icmp6, found: u16::from(code) });
        }
        let short = |need| Malformed::truncated(Layer::Icmp6, HEADER_LEN + need, HEADER_LEN + body.len());
        if ty == ty::ROUTER_SOLICIT {
            return Ok(Message::RouterSolicit { options: Options::parse(body)? });
        }
        if ty == ty::ROUTER_ADVERT {
            let (&[a, b, c, d, e, f, g, h], rest) = body.split_first_chunk::<8>().ok_or(short(8))?;
            return Ok(Message::RouterAdvert {
                hop_limit: (word >> 24) as u8,
                preference: Preference::of_bits(word >> 19),
                lifetime: word as u16,
                other_config: word >> 22 & 1 != 0,
                reachable_ms: u32::from_be_bytes([a, b, c, d]),
                retrans_ms: u32::from_be_bytes([e, f, g, h]),
                options: Options::parse(rest)?,
            });
        }
        let (target, rest) = body.split_first_chunk::<16>().ok_or(short(16))?;
        let target = Ipv6Addr::from(*target);
        if target.is_multicast() {
            return Err(Malformed::BadFlags { layer: Layer::Icmp6, found: 0xff });
        }
        Ok(match ty {
            ty::NEIGHBOR_SOLICIT => Message::Solicit { target, options: Options::parse(rest)? },
            ty::NEIGHBOR_ADVERT => {
                let [router, solicited, replaces] = [31, 30, 29].map(|bit| word >> bit & 1 != 0);
                let advert = Advert { router, solicited, replaces, target };
                Message::Advert { advert, options: Options::parse(rest)? }
            }
            _ => {
                let (dst, rest) = rest.split_first_chunk::<16>().ok_or(short(32))?;
                Message::Redirect { target, dst: Ipv6Addr::from(*dst), options: Options::parse(rest)? }
            }
        })
    }
}

/// Writes a router solicitation. `link` is the sender's link-layer address, or `None` if the source
/// is `::` (RFC 4861 4.1). Returns the length in bytes; `None` if `out` is too short.
pub fn emit_router_solicit(link: Option<Mac>, addresses: (Ipv6Addr, Ipv6Addr), out: &mut [u8]) -> Option<usize> {
    let option = link.map(|mac| link_option(1, mac));
    emit::emit((ty::ROUTER_SOLICIT, 0, 0), addresses, option.as_ref().map_or(&[], |option| option.as_slice()), out)
}

/// Contents of a router advertisement to be sent.
#[derive(Clone, Copy, Debug)]
pub struct RouterAdvert<'a> {
    /// Hop limit for hosts to use; 0 if unspecified.
    pub hop_limit: u8,
    /// Lifetime as a default router in seconds; 0 if the sender is not a default router.
    pub lifetime: u16,
    /// The router's link-layer address; `None` to leave out the option.
    pub link: Option<Mac>,
    /// MTU of the link in bytes.
    pub mtu: u32,
    /// Prefixes to be advertised.
    pub prefixes: &'a [PrefixInfo],
}

impl RouterAdvert<'_> {
    /// Writes the advertisement. Returns its length in bytes, or `None` if `out` is too short.
    pub fn emit(&self, addresses: (Ipv6Addr, Ipv6Addr), out: &mut [u8]) -> Option<usize> {
        let mut body = vec![0; 8]; // reachable time and retransmission timer: unspecified
        body.extend(self.link.iter().flat_map(|mac| link_option(1, *mac)));
        body.extend([5, 1, 0, 0].into_iter().chain(self.mtu.to_be_bytes()));
        for of in self.prefixes {
            body.extend([3, 4, of.len, u8::from(of.on_link) << 7 | u8::from(of.autonomous) << 6]);
            body.extend(of.valid.to_be_bytes().into_iter().chain(of.preferred.to_be_bytes()).chain([0; 4]));
            body.extend(of.prefix.octets());
        }
        let word = u32::from(self.hop_limit) << 24 | u32::from(self.lifetime);
        emit::emit((ty::ROUTER_ADVERT, 0, word), addresses, &body, out)
    }
}

/// Writes a redirect, which instructs the receiver to send packets for `hop.1` to the first hop
/// `hop.0`. It contains the link-layer address of the first hop and the beginning of the packet
/// `quoted` (RFC 4861 4.5). Returns the length in bytes; `None` if `out` is too short.
pub fn emit_redirect(
    hop: (Ipv6Addr, Ipv6Addr),
    link: Option<Mac>,
    quoted: &[u8],
    addresses: (Ipv6Addr, Ipv6Addr),
    out: &mut [u8],
) -> Option<usize> {
    let mut body = [hop.0.octets(), hop.1.octets()].concat();
    body.extend(link.iter().flat_map(|mac| link_option(2, *mac)));
    let room = REDIRECT_MAX.min(out.len()).saturating_sub(HEADER_LEN + body.len() + 8);
    let len = quoted.len().min(room) / 8 * 8;
    body.extend([4, 1 + (len / 8) as u8, 0, 0, 0, 0, 0, 0]);
    body.extend(quoted.get(..len)?);
    emit::emit((ty::REDIRECT, 0, 0), addresses, &body, out)
}

/// Writes a neighbor solicitation for `target`. `link` is the sender's link-layer address, or
/// `None` for duplicate address detection (RFC 4862 5.4.2). Returns the length in bytes; `None` if
/// `out` is too short.
pub fn emit_solicit(
    target: Ipv6Addr,
    link: Option<Mac>,
    addresses: (Ipv6Addr, Ipv6Addr),
    out: &mut [u8],
) -> Option<usize> {
    let (body, len) = neighbor(target, 1, link);
    emit::emit((ty::NEIGHBOR_SOLICIT, 0, 0), addresses, body.get(..len)?, out)
}

/// Writes a neighbor advertisement. Returns its length in bytes, or `None` if `out` is too short.
pub fn emit_advert(
    advert: Advert,
    link: Option<Mac>,
    addresses: (Ipv6Addr, Ipv6Addr),
    out: &mut [u8],
) -> Option<usize> {
    let flags = [advert.router, advert.solicited, advert.replaces];
    let word = flags.into_iter().fold(0, |word, on| word << 1 | u32::from(on)) << 29;
    let (body, len) = neighbor(advert.target, 2, link);
    emit::emit((ty::NEIGHBOR_ADVERT, 0, word), addresses, body.get(..len)?, out)
}

/// Returns a target address followed by an optional link-layer address option, and their length in
/// bytes.
fn neighbor(target: Ipv6Addr, kind: u8, link: Option<Mac>) -> ([u8; 24], usize) {
    let mut body = [0; 24];
    let (to, option) = body.split_at_mut(16);
    to.copy_from_slice(&target.octets());
    if let Some(mac) = link {
        option.copy_from_slice(&link_option(kind, mac));
    }
    (body, if link.is_some() { 24 } else { 16 })
}

/// Returns an option with a link-layer address.
fn link_option(kind: u8, Mac([a, b, c, d, e, f]): Mac) -> [u8; 8] {
    [kind, 1, a, b, c, d, e, f]
}
