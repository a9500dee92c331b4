//! Numbered places for connections: as many as configured, the lowest free one next.
//!
//! A peer has a limited number of them. When all are taken the connection idle for longest gives
//! way, so that connections which are held open without use do not keep a service from others.

use clock::Instant;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// A connection on which something moved more recently does not give way.
pub const IDLE_MIN: Duration = Duration::from_secs(1);

/// A connection as it is counted and compared with others.
pub trait Connection {
    /// The peer's address.
    fn peer(&self) -> IpAddr;

    /// Returns the time of the last activity.
    fn moved(&self) -> Instant;
}

/// Place for a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// A free place.
    Free,
    /// The place of the connection with this number, once it is ended.
    Of(u32),
    /// No place.
    None,
}

/// Maximum numbers of a server's connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub most: usize,
    /// Connections of one address at a time; no limit of its own from `most` on.
    pub per_peer: usize,
}

impl Limits {
    /// Returns the limits of a server whose one peer may have all `most` connections.
    pub const fn shared_by_one(most: usize) -> Limits {
        Limits { most, per_peer: most }
    }
}

/// Returns what there is for a connection of `peer` beside `all` others, of which there may be
/// `most`, and `per_peer` of one peer.
pub fn room<'c, C: Connection + 'c>(
    all: impl Iterator<Item = (u32, &'c C)> + Clone,
    (most, per_peer): (usize, usize),
    peer: IpAddr,
    now: Instant,
) -> Room {
    // ::ffff:1.0.0.2 is 1.0.0.2.
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

/// Values by number, at most `most` of them.
#[derive(Debug)]
pub struct Slots<T> {
    values: Vec<Option<T>>,
    free: BTreeSet<u32>,
    most: u32,
    len: usize,
}

impl<T> Slots<T> {
    /// Room for `most`.
    pub fn new(most: usize) -> Slots<T> {
        Slots { values: Vec::new(), free: BTreeSet::new(), most: most.min(1 << 18) as u32, len: 0 }
    }

    /// Puts a value into the lowest free place; gives it back if there is none.
    ///
    /// # Errors
    /// The value, if all places are taken.
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

    /// Takes a value out.
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.values.get_mut(at as usize)?.take()?;
        self.free.insert(at);
        self.len -= 1;
        Some(value)
    }

    /// The value at a place.
    pub fn get(&self, at: u32) -> Option<&T> {
        self.values.get(at as usize)?.as_ref()
    }

    /// The value at a place, to be changed.
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.values.get_mut(at as usize)?.as_mut()
    }

    /// All values with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> + Clone {
        self.values.iter().enumerate().filter_map(|(at, value)| Some((at as u32, value.as_ref()?)))
    }

    /// All values with their numbers, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.values.iter_mut().enumerate().filter_map(|(at, value)| Some((at as u32, value.as_mut()?)))
    }

    /// Returns the number of places that have been in use: all numbers are below it.
    pub fn places(&self) -> u32 {
        self.values.len() as u32
    }

    /// Returns the maximum number of values.
    pub fn most(&self) -> usize {
        self.most as usize
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is there none?
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
    fn a_full_table_has_room_where_one_is_idle_for_longest() {
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
