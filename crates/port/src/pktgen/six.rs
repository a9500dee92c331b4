//! Fields that vary between generated IPv6 frames.

use super::flow::{PER_ADDRESS, Turns, flow_port};
use super::source::{ETH, Source, UDP};
use super::vary::{Vary, copy_and_vary};
use buf::Frame;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use wire::checksum::Partial;
use wire::ip6;

const HEADERS: usize = ETH + ip6::HEADER_LEN + UDP;
/// Byte offsets in the frame: source address, destination address, source UDP port, UDP checksum.
const SRC: usize = ETH + 8;
const PORT: usize = ETH + ip6::HEADER_LEN;
const SUM: usize = PORT + 6;

/// Fields that vary between generated IPv6 frames: addresses, source UDP port, UDP checksum.
#[derive(Clone)]
pub(super) struct Variety {
    turns: Turns,
    /// Checksum over the fields that do not vary.
    rest: Partial,
    src: u128,
    dst: u128,
    port: u16,
    destinations: Arc<[Ipv6Addr]>,
    /// Index of the next destination address.
    next: usize,
}

impl Vary for Variety {
    fn new(source: &Source, template: &[u8]) -> Variety {
        let bits = |addr| if let IpAddr::V6(addr) = addr { addr.to_bits() } else { 0 };
        let port = template.get(PORT..).and_then(|rest| rest.first_chunk()).map_or(0, |port| u16::from_be_bytes(*port));
        let mut fixed = template.to_vec();
        for at in [PORT, PORT + 1, SUM, SUM + 1] {
            fixed.get_mut(at).map(std::mem::take);
        }
        let l4 = fixed.get(PORT..).unwrap_or_default();
        let unspecified = Ipv6Addr::UNSPECIFIED;
        let pseudo = Partial::pseudo6(unspecified, unspecified, ip6::Proto::UDP, l4.len() as u32);
        Variety {
            turns: Turns::new(source),
            rest: pseudo.add(wire::checksum::sum(l4)),
            src: bits(source.src),
            dst: bits(source.dst),
            port,
            destinations: source.destinations.clone(),
            next: 0,
        }
    }

    fn is_any(&self) -> bool {
        self.turns.is_any() || !self.destinations.is_empty()
    }

    fn make(&mut self, frames: &mut [Frame], template: &[u8]) {
        copy_and_vary(self, frames, template);
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn vary(&mut self, frame: &mut Frame) {
        let (src, port) = match self.turns.next_flow() {
            Some(flow) => (self.src.wrapping_add((flow / PER_ADDRESS).into()), flow_port(flow)),
            None => (self.src, self.port),
        };
        let dst = self.next_destination();
        let Some(headers) = frame.bytes_mut().first_chunk_mut::<HEADERS>() else { return };
        self.turns.rotate(headers);
        headers[SRC..SRC + 16].copy_from_slice(&src.to_be_bytes());
        headers[SRC + 16..SRC + 32].copy_from_slice(&dst.to_be_bytes());
        headers[PORT..PORT + 2].copy_from_slice(&port.to_be_bytes());
        let ends = Partial::pseudo6(Ipv6Addr::from_bits(src), Ipv6Addr::from_bits(dst), ip6::Proto(0), 0);
        let sum = self.rest.add(ends).add_u16(port).finish_nonzero();
        headers[SUM..SUM + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

impl Variety {
    #[inline(always)]
    fn next_destination(&mut self) -> u128 {
        let Some(dst) = self.destinations.get(self.next) else { return self.dst };
        self.next = if self.next + 1 < self.destinations.len() { self.next + 1 } else { 0 };
        dst.to_bits()
    }
}
