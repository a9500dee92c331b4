//! Numbered slots for connections, up to a configured maximum. A new connection gets the lowest
//! free slot.
//!
//! The number of connections per peer is limited. When all slots are taken, the connection that has
//! been idle for longest is evicted, so that unused connections do not block a service.

use linerate::stack::Instant;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// Minimum time for which a connection must be idle before it may be evicted.
pub const IDLE_MIN: Duration = Duration::from_secs(1);

/// A connection in a slot, with the properties on which the limits depend.
pub trait Connection {
    /// Returns the IP address of the peer.
    fn peer(&self) -> IpAddr;

    /// Returns the time of the last activity.
    fn moved(&self) -> Instant;
}

/// Slot available for a new connection: a free one, or one whose connection may be evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// At least one slot is free.
    Free,
    /// All slots are taken, but the connection in this slot may be evicted.
    Of(u32),
    None,
}

/// Limits on the number of a server's connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of connections.
    pub most: usize,
    /// Maximum number of connections from one IP address. A value of `most` or more has no effect.
    pub per_peer: usize,
}

impl Limits {
    /// Returns limits that permit one peer to use all `most` connections.
    pub const fn shared_by_one(most: usize) -> Limits {
        Limits { most, per_peer: most }
    }
}

/// Returns which slot is available for a new connection from `peer` in addition to the connections
/// `all`, given the maximum number of connections in total and per peer.
pub fn room<'c, C: Connection + 'c>(
    all: impl Iterator<Item = (u32, &'c C)> + Clone,
    (most, per_peer): (usize, usize),
    peer: IpAddr,
    now: Instant,
) -> Room {
    // `::ffff:1.0.0.2` counts as 1.0.0.2.
    let peer = peer.to_canonical();
    if per_peer < most && all.clone().filter(|(_, one)| one.peer().to_canonical() == peer).count() >= per_peer {
        return Room::None;
    }
    if all.clone().count() < most {
        return Room::Free;
    }
    let oldest = all.map(|(at, one)| (one.moved(), at)).min();
    match oldest.filter(|(moved, _)| moved.after(IDLE_MIN) <= now) {
        Some((_, at)) => Room::Of(at),
        None => Room::None,
    }
}

/// A collection of at most `most` values in numbered slots.
#[derive(Debug)]
pub struct Slots<T> {
    values: Vec<Option<T>>,
    free: BTreeSet<u32>,
    most: u32,
    len: usize,
}

impl<T> Slots<T> {
    /// Creates slots for at most `most` values.
    pub fn new(most: usize) -> Slots<T> {
        Slots { values: Vec::new(), free: BTreeSet::new(), most: most.min(1 << 18) as u32, len: 0 }
    }

    /// Inserts a value into the lowest free slot.
    ///
    /// # Errors
    /// Returns the value if all slots are taken.
    pub fn insert(&mut self, value: T) -> Result<u32, T> {
        let at = match self.free.pop_first() {
            Some(at) => at,
            None if (self.values.len() as u32) < self.most => {
                self.values.push(None);
                (self.values.len() - 1) as u32
            }
            None => return Err(value),
        };
        if let Some(place) = self.values.get_mut(at as usize) {
            *place = Some(value);
            self.len += 1;
        }
        Ok(at)
    }

    pub fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.values.get_mut(at as usize)?.take()?;
        self.free.insert(at);
        self.len -= 1;
        Some(value)
    }

    /// Returns the value in a slot.
    pub fn get(&self, at: u32) -> Option<&T> {
        self.values.get(at as usize)?.as_ref()
    }

    /// Returns a mutable reference to the value in a slot.
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.values.get_mut(at as usize)?.as_mut()
    }

    /// Returns all values with their slot numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> + Clone {
        self.values.iter().enumerate().filter_map(|(at, value)| Some((at as u32, value.as_ref()?)))
    }

    /// Returns mutable references to all values, with their slot numbers.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.values.iter_mut().enumerate().filter_map(|(at, value)| Some((at as u32, value.as_mut()?)))
    }

    /// Returns the number of slots used so far, including those that are free again. All slot
    /// numbers are below this number.
    pub fn places(&self) -> u32 {
        self.values.len() as u32
    }

    /// Returns the maximum number of values.
    pub fn most(&self) -> usize {
        self.most as usize
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    struct One(IpAddr, Instant);

    impl Connection for One {
        fn peer(&self) -> IpAddr {
            self.0
        }

        fn moved(&self) -> Instant {
            self.1
        }
    }

    #[test]
    fn a_full_table_evicts_the_longest_idle() {
        let ip = |last: u8| IpAddr::from(Ipv4Addr::new(1, 0, 0, last));
        let at = Instant::from_millis;
        let mut all = Slots::new(3);
        for (last, moved) in [(2, 3_000), (2, 1_000), (3, 2_000)] {
            assert!(all.insert(One(ip(last), at(moved))).is_ok());
        }
        let room_of = |peer, (most, per_peer), now| room(all.iter(), (most, per_peer), peer, at(now));
        assert_eq!(room_of(ip(4), (4, 3), 3_000), Room::Free);
        assert_eq!(room_of(ip(4), (3, 3), 3_000), Room::Of(1));
        assert_eq!(room_of(ip(4), (3, 3), 2_000), Room::Of(1), "idle for a second");
        assert_eq!(room_of(ip(4), (3, 3), 1_999), Room::None, "all of them are in use");
        assert_eq!(room_of(ip(2), (4, 2), 9_000), Room::None, "as many of that peer as there may be");
        let mapped = IpAddr::from(Ipv4Addr::new(1, 0, 0, 2).to_ipv6_mapped());
        assert_eq!(room_of(mapped, (4, 2), 9_000), Room::None, "the same peer");
        assert_eq!(room_of(ip(3), (3, 2), 9_000), Room::Of(1));
    }
}
