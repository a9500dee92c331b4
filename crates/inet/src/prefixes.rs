//! Prefixes of either family, and a table of values by prefix.
//!
//! The table maps prefixes to the forwarders of a host. A host has few of them, so the table is a
//! list, with the longest prefixes first.

use crate::demux::Addr;
use crate::zone;
use fib::{Prefix, Prefix6};

/// A prefix of either family, or all addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AnyPrefix {
    /// All addresses of both families.
    All,
    /// The addresses of an IPv4 prefix.
    V4(Prefix),
    /// The addresses of an IPv6 prefix.
    V6(Prefix6),
}

impl AnyPrefix {
    /// Parses a prefix such as `10.0.0.0/8` or `2001:db8::/32`. Returns `None` for any other text,
    /// and for a prefix of IPv4-mapped addresses, which no packet has.
    pub fn parse(text: &str) -> Option<AnyPrefix> {
        let four = text.parse().ok().map(AnyPrefix::V4);
        let is_mapped = |prefix: &Prefix6| prefix.len() >= 96 && wire::ip6::is_v4_mapped(prefix.addr());
        four.or_else(|| text.parse().ok().filter(|prefix| !is_mapped(prefix)).map(AnyPrefix::V6))
    }

    /// Returns whether the prefix contains `addr`.
    pub(crate) fn contains(self, addr: Addr) -> bool {
        match (self, addr.to_v4()) {
            (AnyPrefix::All, _) => true,
            (AnyPrefix::V4(prefix), Some(v4)) => prefix.contains(v4),
            (AnyPrefix::V6(prefix), None) => prefix.contains(zone::split(addr.0).0),
            (AnyPrefix::V4(_), None) | (AnyPrefix::V6(_), Some(_)) => false,
        }
    }

    /// Returns the precedence of this prefix. Of the prefixes that contain an address, the one with
    /// the highest precedence applies.
    fn rank(self) -> u16 {
        match self {
            AnyPrefix::All => 0,
            AnyPrefix::V4(prefix) => 1 + u16::from(prefix.len()),
            AnyPrefix::V6(prefix) => 1 + u16::from(prefix.len()),
        }
    }
}

/// Values by prefix.
#[derive(Debug)]
pub(crate) struct PrefixTable<T>(Vec<(AnyPrefix, T)>);

impl<T> Default for PrefixTable<T> {
    fn default() -> PrefixTable<T> {
        PrefixTable(Vec::new())
    }
}

impl<T> PrefixTable<T> {
    /// Adds a value. If `prefix` already has a value, adds nothing and returns `false`.
    pub(crate) fn add(&mut self, prefix: AnyPrefix, value: T) -> bool {
        if self.0.iter().any(|(other, _)| *other == prefix) {
            return false;
        }
        let at = self.0.partition_point(|(other, _)| other.rank() >= prefix.rank());
        self.0.insert(at, (prefix, value));
        true
    }

    /// Removes and returns the value of `prefix`.
    pub(crate) fn remove(&mut self, prefix: AnyPrefix) -> Option<T> {
        let at = self.0.iter().position(|(other, _)| *other == prefix)?;
        Some(self.0.remove(at).1)
    }

    /// Removes the values for which `keep` returns `false`.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.0.retain(|(_, value)| keep(value));
    }

    /// Returns the value of exactly `prefix`.
    pub(crate) fn get_mut(&mut self, prefix: AnyPrefix) -> Option<&mut T> {
        self.iter_mut().find(|(other, _)| *other == prefix).map(|(_, value)| value)
    }

    /// Returns the value of the longest prefix that contains `addr`.
    pub(crate) fn lookup_mut(&mut self, addr: Addr) -> Option<&mut T> {
        self.iter_mut().find(|(prefix, _)| prefix.contains(addr)).map(|(_, value)| value)
    }

    /// Returns all prefixes with their values.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (AnyPrefix, &mut T)> {
        self.0.iter_mut().map(|(prefix, value)| (*prefix, value))
    }

    /// Removes and returns all values.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        self.0.drain(..).map(|(_, value)| value).collect()
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> AnyPrefix {
        AnyPrefix::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn the_longest_prefix_of_the_family_applies() {
        let mut table = PrefixTable::default();
        for (text, value) in [("10.0.0.0/8", 'a'), ("10.1.0.0/16", 'b'), ("2001:db8::/32", 'c'), ("::/0", 'd')] {
            assert!(table.add(of(text), value));
        }
        assert!(table.add(AnyPrefix::All, 'e') && !table.add(of("10.1.2.3/16"), 'x'));
        let four = |text: &str| Addr::v4(text.parse().unwrap());
        let six = |text: &str| Addr(text.parse::<std::net::Ipv6Addr>().unwrap().to_bits());
        let found = |table: &mut PrefixTable<char>, addr| table.lookup_mut(addr).copied();
        assert_eq!(found(&mut table, four("10.1.9.9")), Some('b'));
        assert_eq!(found(&mut table, four("10.2.0.1")), Some('a'));
        assert_eq!(found(&mut table, four("192.0.2.1")), Some('e'), "::/0 is of the other family");
        assert_eq!(found(&mut table, six("2001:db8::1")), Some('c'));
        assert_eq!(found(&mut table, six("2001:db9::1")), Some('d'));
        assert_eq!((table.remove(of("10.1.0.0/16")), table.remove(of("10.1.0.0/16"))), (Some('b'), None));
        table.retain(|value| *value != 'e');
        assert_eq!((found(&mut table, four("10.1.9.9")), found(&mut table, four("192.0.2.1"))), (Some('a'), None));
        assert_eq!(table.get_mut(of("::/0")), Some(&mut 'd'));
        assert_eq!(table.len(), 3);
        assert_eq!((table.take_all(), table.len()), (vec!['c', 'a', 'd'], 0));
    }

    #[test]
    fn a_prefix_is_parsed() {
        assert_eq!(AnyPrefix::parse("10.1.2.3/8"), Some(of("10.0.0.0/8")));
        for text in ["", "10.0.0.1", "10.0.0.0/33", "::/129", "default", "example.org/8", "::ffff:10.0.0.0/104"] {
            assert_eq!(AnyPrefix::parse(text), None, "{text:?}");
        }
    }
}
