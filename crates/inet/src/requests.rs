//! Requests of forwarders. A request holds the first packets from a new peer, to any address, until
//! the application decides about them.
//!
//! A request is the SYN of a connection or the first datagrams between two addresses. It is
//! reported to the application once and decided once. The number of undecided requests is limited,
//! and each expires after [`LIFETIME`].

use crate::demux::Tuple;
use clock::{Duration, Instant};
use std::collections::{HashMap, VecDeque};

/// Time after which an undecided request is dropped. A connecting host retransmits its SYN for
/// about as long.
pub const LIFETIME: Duration = Duration::from_secs(60);
/// Maximum number of undecided requests of a forwarder.
pub const REQUESTS_MAX: usize = 1024;

/// Decision of an application about a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Decision {
    /// The connection is established, or a socket is opened for the datagrams.
    Accept,
    /// The sender gets a RST, or an ICMP error (port unreachable).
    Refuse,
    /// The sender gets no answer.
    Ignore,
}

/// Identity of a request. The time distinguishes it from later requests between the same addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestKey {
    /// Destination of the packet as the local address, and its source as the remote one.
    pub tuple: Tuple,
    /// Time at which the packet was received.
    at: Instant,
}

/// Undecided requests of a forwarder.
#[derive(Debug)]
pub(crate) struct Requests<T> {
    entries: HashMap<Tuple, Entry<T>>,
    /// Requests that were not reported yet, the oldest first. The queue may also contain requests
    /// that have ended.
    waiting: VecDeque<RequestKey>,
    /// All requests, the oldest first. The queue may also contain requests that have ended.
    ages: VecDeque<RequestKey>,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    at: Instant,
    /// True once the application has decided, while the decision is carried out.
    is_decided: bool,
}

impl<T> Default for Requests<T> {
    fn default() -> Requests<T> {
        Requests { entries: HashMap::new(), waiting: VecDeque::new(), ages: VecDeque::new() }
    }
}

impl<T> Requests<T> {
    /// Returns the request between these addresses.
    pub(crate) fn get_mut(&mut self, tuple: &Tuple) -> Option<&mut T> {
        self.entries.get_mut(tuple).map(|entry| &mut entry.value)
    }

    fn has(&self, key: &RequestKey) -> bool {
        self.entries.get(&key.tuple).is_some_and(|entry| entry.at == key.at)
    }

    /// Adds a request between addresses that have none. Returns `value` as `Err` if there are
    /// already [`REQUESTS_MAX`] requests.
    pub(crate) fn add(&mut self, tuple: Tuple, now: Instant, value: T) -> Result<(), T> {
        if self.entries.len() >= REQUESTS_MAX {
            return Err(value);
        }
        let key = RequestKey { tuple, at: now };
        self.entries.insert(tuple, Entry { value, at: now, is_decided: false });
        self.waiting.push_back(key);
        self.ages.push_back(key);
        if self.ages.len() > 2 * REQUESTS_MAX {
            let ages = std::mem::take(&mut self.ages);
            self.ages = ages.into_iter().filter(|key| self.has(key)).collect();
            let waiting = std::mem::take(&mut self.waiting);
            self.waiting = waiting.into_iter().filter(|key| self.has(key)).collect();
        }
        Ok(())
    }

    /// Returns the oldest request that was not returned before; `None` if there is none.
    pub(crate) fn next(&mut self) -> Option<RequestKey> {
        while let Some(key) = self.waiting.pop_front() {
            if self.has(&key) {
                return Some(key);
            }
        }
        None
    }

    /// Marks a request as decided. Returns `false` if it has expired or was decided before.
    pub(crate) fn decide(&mut self, key: &RequestKey, now: Instant) -> bool {
        let entry = self.entries.get_mut(&key.tuple).filter(|entry| entry.at == key.at && !entry.is_decided);
        let Some(entry) = entry.filter(|entry| now.since(entry.at) < LIFETIME) else { return false };
        entry.is_decided = true;
        true
    }

    /// Removes and returns a request.
    pub(crate) fn take(&mut self, key: &RequestKey) -> Option<T> {
        if !self.has(key) {
            return None;
        }
        self.entries.remove(&key.tuple).map(|entry| entry.value)
    }

    /// Removes and returns the requests that have expired.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<T> {
        let mut expired = Vec::new();
        while let Some(key) = self.ages.front().copied().filter(|key| now.since(key.at) >= LIFETIME) {
            self.ages.pop_front();
            expired.extend(self.take(&key));
        }
        expired
    }

    /// Removes and returns all requests.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        self.waiting.clear();
        self.ages.clear();
        self.entries.drain().map(|(_, entry)| entry.value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::L4Port;

    fn tuple(port: u16) -> Tuple {
        Tuple { remote_port: L4Port(port), ..Tuple::default() }
    }

    fn at(secs: u64) -> Instant {
        Instant::from_nanos(secs * 1_000_000_000)
    }

    fn key(port: u16, secs: u64) -> RequestKey {
        RequestKey { tuple: tuple(port), at: at(secs) }
    }

    #[test]
    fn a_request_is_reported_once_and_decided_once() {
        let mut requests = Requests::default();
        requests.add(tuple(1), at(0), 'a').unwrap();
        requests.add(tuple(2), at(0), 'b').unwrap();
        assert_eq!(requests.next(), Some(key(1, 0)));
        assert_eq!(requests.get_mut(&tuple(1)), Some(&mut 'a'));
        assert!(requests.decide(&key(1, 0), at(59)) && !requests.decide(&key(1, 0), at(59)));
        assert_eq!(requests.take(&key(1, 0)), Some('a'));
        assert_eq!(requests.take(&key(1, 0)), None);
        assert_eq!(requests.take(&key(2, 0)), Some('b'));
        assert_eq!(requests.next(), None, "it was decided without having been reported");
    }

    /// The decision about an expired request does not affect a later one between the same
    /// addresses.
    #[test]
    fn a_key_names_one_request() {
        let mut requests = Requests::default();
        requests.add(tuple(1), at(0), 'a').unwrap();
        let before = requests.next().unwrap();
        assert!(!requests.decide(&before, at(60)), "it is too old");
        assert_eq!(requests.expire(at(60)), ['a']);
        requests.add(tuple(1), at(61), 'b').unwrap();
        assert!(!requests.decide(&before, at(61)));
        assert_eq!(requests.take(&before), None);
        assert!(requests.decide(&key(1, 61), at(61)));
    }

    #[test]
    fn the_number_and_the_age_of_requests_are_limited() {
        let mut requests = Requests::default();
        for port in 0..REQUESTS_MAX {
            requests.add(tuple(port as u16), at(port as u64 / 512), port).unwrap();
        }
        assert_eq!(requests.add(tuple(2000), at(2), 2000), Err(2000));
        assert_eq!(requests.expire(at(59)).len(), 0);
        assert_eq!(requests.expire(at(60)).len(), 512);
        requests.add(tuple(0), at(60), 7).unwrap(); // the tuple of an expired request
        assert_eq!(requests.expire(at(61)).len(), 512);
        assert_eq!(requests.next(), Some(key(0, 60)));
        assert_eq!(requests.take_all(), [7]);
        assert_eq!((requests.expire(at(1000)).len(), requests.next()), (0, None));
        // Requests that are decided at once leave nothing behind, also if none is reported.
        for n in 0..100_000 {
            requests.add(tuple(1), Instant::from_nanos(n), 0).unwrap();
            requests.take(&RequestKey { tuple: tuple(1), at: Instant::from_nanos(n) }).unwrap();
        }
        assert!(requests.ages.len() <= 2 * REQUESTS_MAX + 1 && requests.waiting.len() <= 2 * REQUESTS_MAX + 1);
    }
}
