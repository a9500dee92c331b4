//! MLD: membership of IPv6 multicast groups (RFC 2710, RFC 3810), in ICMPv6 messages.
//!
//! [`Message::parse`] takes an ICMPv6 message and the addresses of its packet, and checks lengths
//! and checksum. The caller must check that the packet has hop limit 1 and a link-local source (RFC
//! 3810 5).

use crate::checksum::{self, Partial};
use crate::igmp::v3::{self, NewRecord, QueryMore, Records, code8};
use crate::{Layer, Malformed, Proto};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

#[cfg(test)]
mod tests;

/// Length in bytes of a version 1 message (RFC 2710 3).
pub const MESSAGE_LEN: usize = 24;
/// Length in bytes of a version 2 query without sources (RFC 3810 5.1).
pub const QUERY_LEN: usize = 28;

const QUERY: u8 = 130;
const REPORT: u8 = 131;
const DONE: u8 = 132;
const REPORT_V2: u8 = 143;

/// An MLD message with a verified checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// Multicast listener query.
    Query {
        /// Maximum Response Code as received: milliseconds if below 32,768, otherwise a
        /// floating-point code (RFC 3810 5.1.3).
        max_resp: u16,
        /// Multicast group that is queried; unspecified in a general query.
        group: Ipv6Addr,
        /// Additional fields of a version 2 query; `None` for version 1.
        more: Option<QueryMore>,
    },
    /// Version 1 report of a listener.
    Report {
        /// Multicast group that the sender has joined.
        group: Ipv6Addr,
    },
    /// Listener done: the sender leaves the group.
    Done {
        /// Multicast group that the sender leaves.
        group: Ipv6Addr,
    },
    /// Version 2 report with records.
    ReportV2(Records<'a, 16>),
}

/// Returns whether an ICMPv6 message of this type belongs to MLD.
pub const fn is_mld(ty: u8) -> bool {
    matches!(ty, QUERY | REPORT | DONE | REPORT_V2)
}

impl<'a> Message<'a> {
    /// Parses a whole message sent from `src` to `dst`; returns `None` for other ICMPv6 types.
    pub fn parse(message: &'a [u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<Option<Message<'a>>, Malformed> {
        let Some(ty) = message.first().copied().filter(|ty| is_mld(*ty)) else { return Ok(None) };
        let need = if ty == REPORT_V2 { 8 } else { MESSAGE_LEN };
        if message.len() < need {
            return Err(Malformed::truncated(Layer::Icmp6, need, message.len()));
        }
        let pseudo = Partial::pseudo6(src, dst, Proto::IPV6_ICMP, message.len() as u32);
        if !pseudo.add_at(0, checksum::sum(message)).verifies() {
            return Err(Malformed::BadChecksum { layer: Layer::Icmp6 });
        }
        if ty == REPORT_V2 {
            return Ok(Some(Message::ReportV2(Records::parse(message, Layer::Icmp6)?)));
        }
        let group = message.get(8..).and_then(|bytes| bytes.first_chunk::<16>()).copied().map(Ipv6Addr::from);
        let group = group.unwrap_or(Ipv6Addr::UNSPECIFIED);
        Ok(Some(match ty {
            QUERY => {
                let max_resp = message.get(4..).and_then(|bytes| bytes.first_chunk()).copied();
                let more = QueryMore::read(message.get(MESSAGE_LEN..).unwrap_or_default());
                Message::Query { max_resp: u16::from_be_bytes(max_resp.unwrap_or_default()), group, more }
            }
            REPORT => Message::Report { group },
            _ => Message::Done { group },
        }))
    }
}

/// Builds a version 2 query without sources. It is a general query if `group` is unspecified.
pub fn query(
    addresses: (Ipv6Addr, Ipv6Addr),
    group: Ipv6Addr,
    max_resp_ms: u16,
    robustness: u8,
    interval_s: u16,
) -> [u8; QUERY_LEN] {
    let mut bytes = [0; QUERY_LEN];
    let [m0, m1] = max_resp_ms.min(32_767).to_be_bytes();
    let (head, rest) = bytes.split_at_mut(8);
    let (to, more) = rest.split_at_mut(16);
    head.copy_from_slice(&[QUERY, 0, 0, 0, m0, m1, 0, 0]);
    to.copy_from_slice(&group.octets());
    more.copy_from_slice(&[robustness & 7, code8(interval_s), 0, 0]);
    let pseudo = Partial::pseudo6(addresses.0, addresses.1, Proto::IPV6_ICMP, QUERY_LEN as u32);
    [bytes[2], bytes[3]] = pseudo.add_at(0, checksum::sum(&bytes)).finish().to_be_bytes();
    bytes
}

/// Builds a version 2 report that consists of these records, sent from `src` to the group of all
/// MLDv2 routers.
pub fn report(src: Ipv6Addr, records: &[NewRecord]) -> Vec<u8> {
    let mut bytes = v3::emit(REPORT_V2, records);
    // Cannot fail: the report is long enough for a checksum.
    let _ = crate::icmp6::fill_checksum(src, crate::ip6::ALL_MLD2_ROUTERS, &mut bytes);
    bytes
}
