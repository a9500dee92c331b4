//! Flows: their addresses and ports, and the state that advances from frame to frame.

use super::source::{Order, ROTATION, Source};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Number of flows per source address.
pub(super) const PER_ADDRESS: u32 = 50_000;

/// Returns the source UDP port of flow `k`.
#[inline(always)]
pub(super) fn flow_port(k: u32) -> u16 {
    10_000 + (k % PER_ADDRESS) as u16
}

/// Returns the source address and UDP port of flow `k`, if flow 0 has the address `base`.
pub fn flow_address(base: IpAddr, k: u32) -> (IpAddr, u16) {
    let more = k / PER_ADDRESS;
    let addr = match base {
        IpAddr::V4(base) => Ipv4Addr::from_bits(base.to_bits().wrapping_add(more)).into(),
        IpAddr::V6(base) => Ipv6Addr::from_bits(base.to_bits().wrapping_add(more.into())).into(),
    };
    (addr, flow_port(k))
}

/// State that advances with each frame in both address families: flow, MAC address, random number.
#[derive(Clone, Copy)]
pub(super) struct Turns {
    flows: u32,
    order: Order,
    flow: u32,
    rotate: bool,
    turn: u8,
    random: u64,
}

impl Turns {
    pub(super) fn new(source: &Source) -> Turns {
        let Source { flows, order, rotate, .. } = *source;
        Turns { flows, order, flow: 0, rotate, turn: 0, random: 0x9e37_79b9_7f4a_7c15 }
    }

    pub(super) fn is_any(&self) -> bool {
        self.flows > 1 || self.rotate
    }

    /// Returns the number of the next flow; `None` if there is only one flow.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn next_flow(&mut self) -> Option<u32> {
        if self.flows <= 1 {
            return None;
        }
        Some(match self.order {
            Order::Sequence => {
                self.flow = if self.flow + 1 >= self.flows { 0 } else { self.flow + 1 };
                self.flow
            }
            Order::Random => ((u64::from(self.draw()) * u64::from(self.flows)) >> 32) as u32,
        })
    }

    /// Writes the next destination MAC address, if the addresses rotate.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn rotate<const N: usize>(&mut self, headers: &mut [u8; N]) {
        if self.rotate {
            if let Some((to, mac)) = headers.first_chunk_mut::<6>().zip(ROTATION.get(usize::from(self.turn))) {
                *to = mac.0;
            }
            self.turn = if self.turn == 9 { 0 } else { self.turn + 1 };
        }
    }

    /// Returns the next number of the generator xorshift64*. It is cheap and seeded, and good
    /// enough to spread addresses.
    #[inline(always)]
    pub(super) fn draw(&mut self) -> u32 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }
}
