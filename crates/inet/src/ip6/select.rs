//! Which of our addresses a packet is to come from: RFC 6724 5, as much of it as a host without temporary or home addresses has a choice in.
//!
//! Rule 1 (the destination itself), 2 (scope: as wide as needed and no wider), 3 (deprecated addresses last), 5 (the outgoing iface, before
//! others' addresses) and 8 (the longest common prefix). Candidates of other ifaces are asked when the outgoing one has none that reaches: routers number links sparsely.

use crate::Stack;
use crate::iface::Iface;
use lock::{Cx, Locks};
use std::cmp::Reverse;
use std::net::Ipv6Addr;
use wire::ip6;

impl<L: Locks> Stack<L> {
    /// The source address for packets to `dst` through `iface`.
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
    /// Returns the best of its valid addresses that `takes` accepts.
    fn best_source6(&self, cx: Cx, dst: Ipv6Addr, takes: impl Fn(&Candidate) -> bool) -> Option<Candidate> {
        if !self.speaks6() {
            return None;
        }
        let six = self.six.lock(cx);
        let valid = six.addrs.iter().filter(|own| own.state.is_valid());
        best(valid.map(|own| Candidate { addr: own.addr, is_deprecated: own.is_deprecated(cx.now) }).filter(takes), dst)
    }
}

/// An address that a packet may come from.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Candidate {
    addr: Ipv6Addr,
    is_deprecated: bool,
}

/// Returns the best of these for packets to `dst`.
fn best(candidates: impl Iterator<Item = Candidate>, dst: Ipv6Addr) -> Option<Candidate> {
    candidates.min_by_key(|of| rank(*of, dst))
}

/// Rank of a candidate for packets to `dst`, by the rules in their order; the least is the best.
fn rank(of: Candidate, dst: Ipv6Addr) -> (bool, (bool, Reverse<u8>, u8), bool, Reverse<u32>) {
    let (have, need) = (ip6::scope(of.addr), ip6::scope(dst));
    let reaches = have >= need;
    // Rule 2: of those that reach, the least scope; of those that do not, the greatest.
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

    /// RFC 6724 10.1's examples, where they do not turn on what we do not have.
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
