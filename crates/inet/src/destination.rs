//! Destination address selection (RFC 6724 6): sorts the addresses of a host name, best first.

use crate::Stack;
use crate::demux::Addr;
use crate::family::Family;
use crate::ip::exit::Exit;
use lock::{Cx, Locks};
use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::ip6;

/// An entry of the policy table: (prefix, prefix length in bits, precedence, label).
type Policy = (Ipv6Addr, u32, u8, u8);

/// Default policy table (RFC 6724 2.1), the longest prefix first.
const POLICIES: [Policy; 9] = [
    (Ipv6Addr::LOCALHOST, 128, 50, 0),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 35, 4),
    (Ipv6Addr::UNSPECIFIED, 96, 1, 3),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 5, 5),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 30, 2),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, 1, 12),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, 1, 11),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 3, 13),
    (Ipv6Addr::UNSPECIFIED, 0, 40, 1),
];

/// Returns the precedence and label of an address.
fn policy(addr: Ipv6Addr) -> (u8, u8) {
    let matches = |(prefix, len, ..): &&Policy| (addr.to_bits() ^ prefix.to_bits()).leading_zeros() >= *len;
    POLICIES.iter().find(matches).map_or((0, 0), |(.., precedence, label)| (*precedence, *label))
}

/// Returns the scope value of an address. An IPv4-mapped address has the scope of RFC 6724 3.2:
/// link-local or global.
fn scope(addr: Ipv6Addr) -> u8 {
    match addr.to_ipv4_mapped() {
        Some(v4) if v4.is_loopback() || v4.is_link_local() => 2,
        Some(_) => 14,
        None => ip6::scope(addr),
    }
}

/// Rank of a destination and the source address for it; the lowest rank is the best. Implements
/// rules 1, 2, 5, 6, 8 and 9; rule 10 is fulfilled because the sort is stable. Source selection
/// already avoids deprecated sources (rule 3).
type Rank = (bool, bool, bool, Reverse<u8>, u8, Reverse<u32>);

fn rank(dst: Ipv6Addr, src: Option<Ipv6Addr>) -> Rank {
    let Some(src) = src else { return (true, true, true, Reverse(0), u8::MAX, Reverse(0)) };
    let ((precedence, label), (_, source_label)) = (policy(dst), policy(src));
    // The length of a common prefix of two IPv4 addresses is no measure of distance, so rule 9
    // applies to IPv6 only.
    let is_v4 = dst.to_ipv4_mapped().is_some();
    let common = if is_v4 { 0 } else { (dst.to_bits() ^ src.to_bits()).leading_zeros().min(64) };
    (false, scope(dst) != scope(src), label != source_label, Reverse(precedence), scope(dst), Reverse(common))
}

impl<L: Locks> Stack<L> {
    /// Sorts destinations by the rules of RFC 6724 6, best first. Those without a route or source
    /// address come last.
    pub fn sort_destinations(&self, cx: Cx, addrs: &mut [SocketAddr]) {
        addrs.sort_by_cached_key(|addr| {
            let dst = match addr.ip() {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            rank(dst, self.source_to(cx, *addr))
        });
    }

    /// Returns the source address of packets to `dst`, IPv4 as an IPv4-mapped address; `None` if
    /// there is no route or no source address.
    fn source_to(&self, cx: Cx, dst: SocketAddr) -> Option<Ipv6Addr> {
        match dst {
            SocketAddr::V4(v4) => {
                self.source_of::<u32>(cx, v4.ip().to_bits()).map(|bits| Ipv4Addr::from_bits(bits).to_ipv6_mapped())
            }
            SocketAddr::V6(v6) => {
                let Addr(bits) = Addr(crate::zone::embed(*v6.ip(), crate::zone::iface_of(v6.scope_id())));
                self.source_of::<u128>(cx, bits).map(|bits| crate::zone::split(bits).0)
            }
        }
    }

    fn source_of<F: Family>(&self, cx: Cx, dst: F) -> Option<F> {
        let exit: Exit<F::Addr> = F::exit(self, cx, dst, None).ok()?;
        F::source(self, cx, dst, &exit).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Ipv6Addr {
        match text.parse().unwrap() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        }
    }

    /// The examples of RFC 6724 10.2: the destination `first` with its source sorts before `second`
    /// with its source.
    #[test]
    fn the_rfcs_examples() {
        for (first, second) in [
            (("2001:db8:1::1", "2001:db8:1::2"), ("198.51.100.121", "169.254.13.78")),
            (("198.51.100.121", "198.51.100.117"), ("2001:db8:1::1", "fe80::1")),
            (("2001:db8:1::1", "2001:db8:1::2"), ("10.1.2.3", "10.1.2.4")),
            (("fe80::1", "fe80::2"), ("2001:db8:1::1", "2001:db8:1::2")),
            (("2001:db8:1::1", "2001:db8:1::2"), ("2002:c633:6401::1", "2001:db8:1::2")),
            (("2001:db8:1::1", "2001:db8:1::2"), ("2001:db8:3ffe::1", "2001:db8:3f44::2")),
            (("10.1.2.3", "10.1.2.4"), ("fd11:1111:1111:1::1", "fd22::2")),
        ] {
            let rank = |(dst, src): (&str, &str)| rank(of(dst), Some(of(src)));
            assert!(rank(first) < rank(second), "{first:?} {second:?}");
        }
        assert!(rank(of("10.1.2.3"), Some(of("10.1.2.4"))) < rank(of("2001:db8::1"), None));
    }

    #[test]
    fn policies_are_those_of_the_longest_prefix() {
        for (addr, expected) in [
            ("::1", (50, 0)),
            ("10.0.0.1", (35, 4)),
            ("::10.0.0.1", (1, 3)),
            ("2001::1", (5, 5)),
            ("2001:db8::1", (40, 1)),
            ("2002::1", (30, 2)),
            ("fd00::1", (3, 13)),
            ("fe80::1", (40, 1)),
        ] {
            assert_eq!(policy(of(addr)), expected, "{addr}");
        }
    }
}
