//! Source address selection (RFC 6724 5), without the rules for temporary and home addresses.
//!
//! Implemented are rule 1 (prefer the destination itself), rule 2 (prefer the smallest sufficient
//! scope), rule 3 (avoid deprecated addresses), rule 5 (prefer addresses of the outgoing interface)
//! and rule 8 (prefer the longest common prefix). Addresses of other interfaces are candidates only
//! if the outgoing interface has none of sufficient scope, since links between routers often have
//! no global addresses.

use crate::Stack;
use crate::iface::Iface;
use lock::{Cx, Locks};
use std::cmp::Reverse;
use std::net::Ipv6Addr;
use wire::ip6;

impl<L: Locks> Stack<L> {
    /// Returns the source address for packets to `dst` that leave by `iface`; `None` if there is no
    /// valid address.
    pub(crate) fn source6_for(&self, cx: Cx, iface: &Iface<L>, dst: Ipv6Addr) -> Option<Ipv6Addr> {
        let reaches = |of: &Candidate| ip6::scope(of.addr) >= ip6::scope(dst).min(14);
        let own = iface.best_source6(cx, dst, |_| true);
        let others = || {
            let others = self.ifaces.iter().filter(|other| other.id != iface.id);
            let takes = |of: &Candidate| !ip6::is_link_local(of.addr) && reaches(of);
            best(others.filter_map(|other| other.best_source6(cx, dst, takes)), dst)
        };
        let found = || own.filter(reaches).or_else(others).or(own).map(|of| of.addr);
        iface.own_towards6(cx, dst).or_else(found)
    }
}

impl<L: Locks> Iface<L> {
    /// Returns the best of the interface's valid addresses for which `takes` returns true.
    fn best_source6(&self, cx: Cx, dst: Ipv6Addr, takes: impl Fn(&Candidate) -> bool) -> Option<Candidate> {
        if !self.has_ip6() {
            return None;
        }
        let six = self.six.lock(cx);
        let valid = six.addrs.iter().filter(|own| own.state.is_valid());
        best(valid.map(|own| Candidate { addr: own.addr, is_deprecated: own.is_deprecated(cx.now) }).filter(takes), dst)
    }
}

/// A candidate for the source address.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Candidate {
    addr: Ipv6Addr,
    is_deprecated: bool,
}

/// Returns the best candidate for packets to `dst`.
fn best(candidates: impl Iterator<Item = Candidate>, dst: Ipv6Addr) -> Option<Candidate> {
    candidates.min_by_key(|of| rank(*of, dst))
}

/// Returns the rank of a candidate for packets to `dst`, by the rules in their order. The candidate
/// with the lowest rank is the best.
fn rank(of: Candidate, dst: Ipv6Addr) -> (bool, (bool, Reverse<u8>, u8), bool, Reverse<u32>) {
    let (have, need) = (ip6::scope(of.addr), ip6::scope(dst));
    let reaches = have >= need;
    // Rule 2 prefers the smallest sufficient scope or, if none is sufficient, the largest one.
    let scope = if reaches { (false, Reverse(0), have) } else { (true, Reverse(have), 0) };
    let common = (of.addr.to_bits() ^ dst.to_bits()).leading_zeros();
    (of.addr != dst, scope, of.is_deprecated, Reverse(common))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    fn all(candidates: &[&str], deprecated: &[&str]) -> Vec<Candidate> {
        let of = |text: &&str| Candidate { addr: of(text), is_deprecated: deprecated.contains(text) };
        candidates.iter().map(of).collect()
    }

    #[test]
    fn a_deprecated_address_comes_after_others_of_its_scope() {
        let (near, far) = ("2001:db8:1::2", "2001:db8:3::2");
        for (deprecated, dst, expected) in [
            (&[near][..], "2001:db8:1::1", far),
            (&[near, far], "2001:db8:1::1", near),
            (&[near], near, near),
            (&[near, far], "fe80::9", "fe80::1"),
        ] {
            let candidates = all(&[near, far, "fe80::1"], deprecated);
            assert_eq!(
                best(candidates.into_iter(), of(dst)).map(|best| best.addr),
                Some(of(expected)),
                "{deprecated:?} {dst}"
            );
        }
    }

    /// The examples of RFC 6724 10.1, except those with kinds of addresses that this stack does not
    /// support.
    #[test]
    fn the_rfcs_examples() {
        for (candidates, dst, expected) in [
            (&["2001:db8:1::2", "fe80::1"][..], "2001:db8:1::1", "2001:db8:1::2"),
            (&["fec0::1", "fe80::1"], "ff05::1", "fec0::1"),
            (&["2001:db8:1::2", "fe80::1"], "ff02::1", "fe80::1"),
            (&["2001:db8:1::2", "fe80::1"], "fe80::9", "fe80::1"),
            (&["2001:db8:1::1", "2001:db8:2::2"], "2001:db8:1::1", "2001:db8:1::1"),
            (&["2001:db8:1::2", "2001:db8:3::2"], "2001:db8:1::1", "2001:db8:1::2"),
            (&["2001:db8:1:d5e3::1", "2001:db8:1:7953::1"], "2001:db8:1:7950::1", "2001:db8:1:7953::1"),
            (&["fe80::1"], "2001:db8::1", "fe80::1"),
        ] {
            let best = best(all(candidates, &[]).into_iter(), of(dst)).map(|best| best.addr);
            assert_eq!(best, Some(of(expected)), "{dst}");
        }
        assert_eq!(best(std::iter::empty(), of("::1")), None);
    }
}
