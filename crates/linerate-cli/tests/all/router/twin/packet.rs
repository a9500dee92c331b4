//! An IPv4 packet to build, possibly an invalid one, and functions that inspect packets.

use super::net::LINKS;
use std::net::Ipv4Addr;
use wire::eth::{self, EtherType};
use wire::{Mac, Proto, checksum, ip4};

/// Error in a header that its other fields do not describe.
#[derive(Clone, Copy, Debug, Default)]
pub enum Spoilt {
    #[default]
    Not,
    Checksum,
    Version,
    /// Length of the header in 32-bit words.
    Ihl(u8),
    /// Difference between the stated total length and the actual one, in bytes.
    TotalLen(i16),
}

#[derive(Clone, Debug)]
pub struct Packet {
    /// Destination MAC address of the frame; `None` means the router's own.
    pub to: Option<Mac>,
    pub tos: u8,
    pub id: u16,
    /// Flags and fragment offset, as in the header.
    pub frag: u16,
    pub ttl: u8,
    pub proto: Proto,
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    /// Options as whole 32-bit words.
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
    pub spoilt: Spoilt,
    /// Number of bytes after the packet, as padding of a link.
    pub padding: usize,
}

pub const DF: u16 = 0x4000;
pub const MF: u16 = 0x2000;

impl Packet {
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, proto: Proto, payload: Vec<u8>) -> Packet {
        let (options, spoilt) = Default::default();
        Packet { to: None, tos: 0, id: 7, frag: 0, ttl: 64, proto, src, dst, options, payload, spoilt, padding: 0 }
    }

    pub fn udp(src: Ipv4Addr, dst: Ipv4Addr, len: usize) -> Packet {
        Packet::new(src, dst, Proto::UDP, udp(src, dst, len))
    }

    pub fn options(self, options: &[u8]) -> Packet {
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), 0);
        Packet { options, ..self }
    }

    pub fn frame(&self, link: usize) -> Vec<u8> {
        let mut bytes = vec![0; eth::HEADER_LEN];
        let header = eth::Header {
            dst: self.to.unwrap_or(LINKS[link].mac),
            src: Mac([0x02, 0, 0, 0, 0xaa, link as u8]),
            ethertype: EtherType::IPV4,
        };
        header.emit(bytes.first_chunk_mut().unwrap());
        bytes.extend(self.bytes());
        bytes.extend((0..self.padding).map(|at| at as u8));
        bytes
    }

    fn bytes(&self) -> Vec<u8> {
        let header_len = ip4::HEADER_LEN + self.options.len();
        let len = (header_len + self.payload.len()) as u16;
        let mut bytes = vec![0; ip4::HEADER_LEN];
        bytes[0] = 0x40 | (header_len / 4) as u8;
        bytes[1] = self.tos;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.id.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.frag.to_be_bytes());
        (bytes[8], bytes[9]) = (self.ttl, self.proto.0);
        bytes[12..16].copy_from_slice(&self.src.octets());
        bytes[16..20].copy_from_slice(&self.dst.octets());
        bytes.extend(&self.options);
        match self.spoilt {
            Spoilt::Not | Spoilt::Checksum => {}
            Spoilt::Version => bytes[0] = 0x60 | bytes[0] & 0xf,
            Spoilt::Ihl(words) => bytes[0] = 0x40 | words,
            Spoilt::TotalLen(more) => bytes[2..4].copy_from_slice(&len.wrapping_add_signed(more).to_be_bytes()),
        }
        ip4::fill_checksum(&mut bytes);
        if let Spoilt::Checksum = self.spoilt {
            bytes[10] ^= 0x40;
        }
        bytes.extend(&self.payload);
        bytes
    }
}

/// Builds a datagram to a port without a socket.
pub fn udp(src: Ipv4Addr, dst: Ipv4Addr, len: usize) -> Vec<u8> {
    let total = (8 + len) as u16;
    let mut bytes = [4000u16, 9, total, 0].map(u16::to_be_bytes).concat();
    bytes.extend((0..len).map(|at| at as u8));
    let sum = checksum::Partial::pseudo4(src, dst, Proto::UDP, total).add(checksum::sum(&bytes)).finish();
    bytes[6..8].copy_from_slice(&sum.max(1).to_be_bytes());
    bytes
}

/// Builds a segment to a port without a listener.
pub fn tcp(src: Ipv4Addr, dst: Ipv4Addr, flags: u8, text: usize) -> Vec<u8> {
    let mut bytes =
        [4000u16, 9, 0, 1000, 0, 2000, 0x5000 | u16::from(flags), 8000, 0, 0].map(u16::to_be_bytes).concat();
    bytes.extend((0..text).map(|at| at as u8));
    let sum = checksum::Partial::pseudo4(src, dst, Proto::TCP, bytes.len() as u16).add(checksum::sum(&bytes)).finish();
    bytes[16..18].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Builds an ICMP message whose header ends with the word `rest`.
pub fn icmp(ty: u8, code: u8, rest: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![ty, code, 0, 0];
    bytes.extend(rest.to_be_bytes());
    bytes.extend(body);
    let sum = checksum::sum(&bytes).finish();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Returns the bytes after the link header.
pub fn packet_of(frame: &[u8]) -> &[u8] {
    &frame[eth::HEADER_LEN..]
}

pub fn header_of(frame: &[u8]) -> Option<ip4::Header> {
    ip4::Header::parse(packet_of(frame)).ok()
}

/// Returns whether the packet is from the router itself.
pub fn is_routers(frame: &[u8]) -> bool {
    header_of(frame).is_some_and(|header| LINKS.iter().any(|link| link.addr == header.src))
}

/// Returns the type of an ICMP error from the router, with the offset of its quote in the frame.
pub fn error_of(frame: &[u8]) -> Option<(u8, usize)> {
    let header = header_of(frame).filter(|header| header.proto == Proto::ICMP && is_routers(frame))?;
    let at = eth::HEADER_LEN + header.ihl_len;
    let ty = *frame.get(at)?;
    matches!(ty, 3 | 5 | 11 | 12).then_some((ty, at + 8))
}

/// Returns whether the checksum of the IP header is correct, and that of the ICMP message if the
/// router itself sent it.
pub fn sums_verify(frame: &[u8]) -> bool {
    let Some(header) = header_of(frame) else { return false };
    let message = header.proto == Proto::ICMP && is_routers(frame) && !header.is_fragment();
    ip4::header_checksum_ok(packet_of(frame), header.ihl_len)
        && (!message || checksum::sum(header.payload(packet_of(frame))).verifies())
}

/// Recomputes the checksums of one of our frames whose bytes have been changed.
pub fn mend(frame: &mut [u8]) {
    let Some(header) = header_of(frame) else { return };
    let end = eth::HEADER_LEN + header.ihl_len;
    ip4::fill_checksum(&mut frame[eth::HEADER_LEN..end]);
    if header.proto == Proto::ICMP && is_routers(frame) && !header.is_fragment() {
        frame[end + 2..end + 4].fill(0);
        let sum = checksum::sum(&frame[end..]).finish();
        frame[end + 2..end + 4].copy_from_slice(&sum.to_be_bytes());
    }
}
