//! Fields that vary between generated IPv4 frames.

use super::flow::{PER_ADDRESS, Turns, flow_port};
use super::source::{ETH, Source, UDP};
use super::vary::{Vary, copy_and_vary};
use buf::Frame;
use std::net::Ipv4Addr;
use wire::checksum::Partial;
use wire::ip4;

/// Number of bytes in front of the payload.
const HEADERS: usize = ETH + ip4::HEADER_LEN + UDP;

/// Checksums over the constant fields of the template, and the template's values of the varying
/// fields.
#[derive(Clone, Copy)]
struct Sums {
    ip: Partial,
    l4: Partial,
    src: u32,
    dst: u32,
    port: u16,
}

impl Sums {
    fn of(template: &[u8]) -> Sums {
        let mut bytes = template.to_vec();
        let (mut ends, mut port) = ([0; 8], [0; 2]);
        for (kept, from) in [(&mut ends[..], 26), (&mut port[..], 34)] {
            for (kept, byte) in kept.iter_mut().zip(bytes.iter_mut().skip(from)) {
                *kept = std::mem::take(byte);
            }
        }
        // Omits the checksums and the identification, which may vary.
        for at in [18, 19, 24, 25, 40, 41] {
            bytes.get_mut(at).map(std::mem::take);
        }
        let part = |from, to| wire::checksum::sum(bytes.get(from..to).unwrap_or_default());
        let len = (bytes.len() - ETH - 20) as u16;
        let unspecified = Ipv4Addr::UNSPECIFIED;
        let [s0, s1, s2, s3, d0, d1, d2, d3] = ends;
        Sums {
            ip: part(ETH, ETH + 20),
            l4: Partial::pseudo4(unspecified, unspecified, ip4::Proto::UDP, len).add(part(ETH + 20, bytes.len())),
            src: u32::from_be_bytes([s0, s1, s2, s3]),
            dst: u32::from_be_bytes([d0, d1, d2, d3]),
            port: u16::from_be_bytes(port),
        }
    }
}

/// Fields that vary between generated IPv4 frames: flow, addresses, identification.
#[derive(Clone, Copy)]
pub(super) struct Variety {
    turns: Turns,
    sums: Sums,
    base: u32,
    random_dst: bool,
    id: bool,
    udp_csum: bool,
    next_id: u16,
}

impl Vary for Variety {
    fn new(source: &Source, template: &[u8]) -> Variety {
        let sums = Sums::of(template);
        Variety {
            turns: Turns::new(source),
            sums,
            base: sums.src,
            random_dst: source.random_dst,
            id: source.id,
            udp_csum: source.udp_csum,
            next_id: 0,
        }
    }

    fn is_any(&self) -> bool {
        self.id || self.random_dst || self.turns.is_any()
    }

    fn make(&mut self, frames: &mut [Frame], template: &[u8]) {
        match template.try_into() {
            Ok(template) if self.is_destination_alone() => self.send_anywhere(frames, template),
            _ => copy_and_vary(self, frames, template),
        }
    }

    /// Changes the varying fields in a copy of the template. The sums of the constant fields are
    /// computed once ([`Sums`]), so a checksum takes two additions. Updating the template's
    /// checksums word by word took 140 instructions per frame.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn vary(&mut self, frame: &mut Frame) {
        let (src, port) = self.next_flow().unwrap_or((self.sums.src, self.sums.port));
        let dst = if self.random_dst { self.random_unicast() } else { self.sums.dst };
        let ends = Partial::pseudo4(Ipv4Addr::from(src), Ipv4Addr::from(dst), ip4::Proto(0), 0);
        let addresses = (u64::from(src) << 32 | u64::from(dst)).to_be_bytes();
        let Some(headers) = frame.bytes_mut().first_chunk_mut::<HEADERS>() else { return };
        self.turns.rotate(headers);
        let id = if self.id { self.next_id } else { 0 };
        if self.id {
            headers[18..20].copy_from_slice(&id.to_be_bytes());
            self.next_id = self.next_id.wrapping_add(1);
        }
        headers[26..34].copy_from_slice(&addresses);
        headers[34..36].copy_from_slice(&port.to_be_bytes());
        // Computed without reading the header again: a load that is wider than the preceding stores
        // must wait for them. This wait was 40 % of this function's samples in a profile.
        let ip_sum = self.sums.ip.add(ends).add_u16(id).finish();
        headers[24..26].copy_from_slice(&ip_sum.to_be_bytes());
        if self.udp_csum {
            let l4_sum = self.sums.l4.add(ends).add_u16(port).finish_nonzero();
            headers[40..42].copy_from_slice(&l4_sum.to_be_bytes());
        }
    }
}

impl Variety {
    /// Returns whether only the destination address varies between the generated frames.
    fn is_destination_alone(&self) -> bool {
        self.random_dst && !(self.id || self.udp_csum || self.turns.is_any())
    }

    /// Creates frames in which only the destination address varies, as for a router test. The
    /// checks of [`Variety::vary`] are made once for all frames: 59 instructions per frame instead
    /// of 103.
    fn send_anywhere(&mut self, frames: &mut [Frame], template: &[u8; 64]) {
        let mut variety = *self;
        let (src, template) = (Ipv4Addr::from(variety.sums.src), *template);
        for frame in frames {
            let dst = variety.random_unicast();
            let Some(bytes) = frame.bytes_mut().first_chunk_mut::<64>() else { continue };
            *bytes = template;
            bytes[30..34].copy_from_slice(&dst.to_be_bytes());
            let ends = Partial::pseudo4(src, Ipv4Addr::from(dst), ip4::Proto(0), 0);
            bytes[24..26].copy_from_slice(&variety.sums.ip.add(ends).finish().to_be_bytes());
        }
        *self = variety;
    }

    #[inline(always)]
    fn next_flow(&mut self) -> Option<(u32, u16)> {
        let flow = self.turns.next_flow()?;
        Some((self.base.wrapping_add(flow / PER_ADDRESS), flow_port(flow)))
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn random_unicast(&mut self) -> u32 {
        loop {
            // Addresses that a router may forward: 1.0.0.0 to 223.255.255.255 without 127/8.
            let dst = ((u64::from(self.turns.draw()) * 0xdf00_0000) >> 32) as u32 + 0x0100_0000;
            if dst >> 24 != 127 {
                return dst;
            }
        }
    }
}
