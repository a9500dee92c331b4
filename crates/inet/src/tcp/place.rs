//! A socket's domain and families, and whether it is bound, in one byte.

use crate::ends::{Domain, Families};

/// A socket's domain, the address families that it accepts, and whether it is in the table of L4
/// ports, in one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place(u8);

const BOUND: u8 = 4;

impl Place {
    pub(super) fn new(domain: Domain) -> Place {
        Place(Families::of(domain) as u8)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn families(self) -> Families {
        match self.0 & (BOUND - 1) {
            0 => Families::V4,
            1 => Families::Mapped,
            2 => Families::V6,
            _ => Families::Both,
        }
    }

    /// Records that the socket is in the table of L4 ports.
    pub(super) fn set_bound(&mut self) {
        self.0 |= BOUND;
    }

    #[inline(always)]
    pub(super) fn is_bound(self) -> bool {
        self.0 & BOUND != 0
    }

    pub(super) fn take(&mut self, families: Families) {
        self.0 = self.0 & BOUND | families as u8;
    }
}
