//! IGMP version 2: group membership (RFC 2236), including the version 1 messages that version 2
//! must process.
//!
//! [`Message::parse`] takes an IP payload, and checks length and checksum. Only the first 8 bytes
//! of longer messages are parsed (RFC 2236 2.5). A version 3 query is therefore parsed as a version
//! 2 query, and a version 3 report as `Other`. The module [`v3`] parses the remaining fields of
//! version 3.

use crate::checksum;
use crate::{Layer, Malformed};
use core::net::Ipv4Addr;

#[cfg(test)]
mod tests;
pub mod v3;

/// Length in bytes of an IGMPv2 message.
pub const MESSAGE_LEN: usize = 8;

const QUERY: u8 = 0x11;
const REPORT_V1: u8 = 0x12;
const REPORT: u8 = 0x16;
const LEAVE: u8 = 0x17;

/// An IGMP message with a verified checksum.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// Membership query (RFC 2236 2).
    Query {
        /// Maximum response time in tenths of a second. A version 1 router sends 0, which means 100
        /// (RFC 2236 4).
        max_resp_ds: u8,
        /// Multicast group that is queried; unspecified in a general query.
        group: Ipv4Addr,
    },
    /// Version 1 membership report.
    ReportV1 {
        /// Multicast group that the sender has joined.
        group: Ipv4Addr,
    },
    /// Version 2 membership report.
    Report {
        /// Multicast group that the sender has joined.
        group: Ipv4Addr,
    },
    /// Leave group message (RFC 2236 2).
    Leave {
        /// Multicast group that the sender leaves.
        group: Ipv4Addr,
    },
    /// Any other type: ignored (RFC 2236 2.1).
    Other {
        /// Type of the message.
        ty: u8,
    },
}

impl Message {
    /// Parses a whole message and verifies its checksum, which covers all of the IP payload (RFC
    /// 2236 2.3).
    ///
    /// The caller must check that `group` is a multicast address.
    pub fn parse(message: &[u8]) -> Result<Message, Malformed> {
        let Some(&[ty, max_resp_ds, _, _, g0, g1, g2, g3]) = message.first_chunk::<MESSAGE_LEN>() else {
            return Err(Malformed::truncated(Layer::Igmp, MESSAGE_LEN, message.len()));
        };
        if !checksum::sum(message).verifies() {
            return Err(Malformed::BadChecksum { layer: Layer::Igmp });
        }
        let group = Ipv4Addr::new(g0, g1, g2, g3);
        Ok(match ty {
            QUERY => Message::Query { max_resp_ds, group },
            REPORT_V1 => Message::ReportV1 { group },
            REPORT => Message::Report { group },
            LEAVE => Message::Leave { group },
            ty => Message::Other { ty },
        })
    }

    /// Returns the message as bytes with its checksum. `Other` contains only a type, so its
    /// response time and group are written as zero.
    pub fn emit(&self) -> [u8; MESSAGE_LEN] {
        let (ty, max_resp_ds, group) = match *self {
            Message::Query { max_resp_ds, group } => (QUERY, max_resp_ds, group),
            Message::ReportV1 { group } => (REPORT_V1, 0, group),
            Message::Report { group } => (REPORT, 0, group),
            Message::Leave { group } => (LEAVE, 0, group),
            Message::Other { ty } => (ty, 0, Ipv4Addr::UNSPECIFIED),
        };
        let [g0, g1, g2, g3] = group.octets();
        let mut bytes = [ty, max_resp_ds, 0, 0, g0, g1, g2, g3];
        [bytes[2], bytes[3]] = checksum::sum(&bytes).finish().to_be_bytes();
        bytes
    }
}
