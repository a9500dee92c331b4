//! ARP for IPv4 over Ethernet: requests and replies (RFC 826, RFC 5227).
//!
//! [`Packet::parse`] takes the bytes after the Ethernet header, padding included, and checks types,
//! lengths and operation. It does not check addresses (probes have a zero `spa`, RFC 5227 1.1); the
//! neighbor table does.

use crate::{Layer, Mac, Malformed};
use core::net::Ipv4Addr;

#[cfg(test)]
mod tests;

/// Length in bytes of an ARP packet for IPv4 over Ethernet, without padding.
pub const PACKET_LEN: usize = 28;

const HARDWARE_ETHERNET: u16 = 1;
const PROTOCOL_IPV4: u16 = 0x0800;

/// `ar$op`: the two operations of RFC 826.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// `ares_op$REQUEST`.
    Request = 1,
    /// `ares_op$REPLY`.
    Reply = 2,
}

/// An ARP packet; field names are RFC 826's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Packet {
    /// Request or reply.
    pub op: Op,
    /// Sender hardware address.
    pub sha: Mac,
    /// Sender protocol address.
    pub spa: Ipv4Addr,
    /// Target hardware address; zero in a request.
    pub tha: Mac,
    /// Target protocol address.
    pub tpa: Ipv4Addr,
}

impl Packet {
    /// Parses a packet. Bytes after the 28th are padding and ignored.
    pub fn parse(packet: &[u8]) -> Result<Packet, Malformed> {
        let Some(p) = packet.first_chunk::<PACKET_LEN>() else {
            return Err(Malformed::truncated(Layer::Arp, PACKET_LEN, packet.len()));
        };
        let hardware = u16::from_be_bytes([p[0], p[1]]);
        let protocol = u16::from_be_bytes([p[2], p[3]]);
        let (hlen, plen) = (p[4], p[5]);
        if hardware != HARDWARE_ETHERNET {
            return Err(Malformed::BadHardwareType(hardware));
        }
        if protocol != PROTOCOL_IPV4 {
            return Err(Malformed::BadProtocolType(protocol));
        }
        if (hlen, plen) != (6, 4) {
            return Err(Malformed::BadAddressLen { hlen, plen });
        }
        let op = match u16::from_be_bytes([p[6], p[7]]) {
            1 => Op::Request,
            2 => Op::Reply,
            other => return Err(Malformed::BadOperation(other)),
        };
        Ok(Packet {
            op,
            sha: Mac([p[8], p[9], p[10], p[11], p[12], p[13]]),
            spa: Ipv4Addr::new(p[14], p[15], p[16], p[17]),
            tha: Mac([p[18], p[19], p[20], p[21], p[22], p[23]]),
            tpa: Ipv4Addr::new(p[24], p[25], p[26], p[27]),
        })
    }

    /// Returns the packet as bytes, without padding to the minimum frame length.
    pub fn emit(&self) -> [u8; PACKET_LEN] {
        let [h0, h1] = HARDWARE_ETHERNET.to_be_bytes();
        let [p0, p1] = PROTOCOL_IPV4.to_be_bytes();
        let Mac([s0, s1, s2, s3, s4, s5]) = self.sha;
        let [a0, a1, a2, a3] = self.spa.octets();
        let Mac([t0, t1, t2, t3, t4, t5]) = self.tha;
        let [b0, b1, b2, b3] = self.tpa.octets();
        #[rustfmt::skip]
        let bytes = [
            h0, h1, p0, p1, 6, 4, 0, self.op as u8,
            s0, s1, s2, s3, s4, s5, a0, a1, a2, a3,
            t0, t1, t2, t3, t4, t5, b0, b1, b2, b3,
        ];
        bytes
    }
}
