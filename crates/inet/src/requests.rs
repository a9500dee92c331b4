//! Requests of forwarders: first packets of strangers, for any address, that wait for a decision of
//! the application.
//!
//! A request is the SYN of a connection or the first datagrams between two addresses. It is
//! reported once, and decided once. The number of undecided requests is limited, and each expires
//! after [`LIFETIME`].

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

/// Undecided requests of a forwarder.
#[derive(Debug)]
pub(crate) struct Requests<T> {
    entries: HashMap<Tuple, Entry<T>>,
    /// Requests that were not reported yet, the oldest first. May contain tuples of expired ones.
    waiting: VecDeque<Tuple>,
    /// Times and tuples of all requests, the oldest first. May contain those of decided ones.
    ages: VecDeque<(Instant, Tuple)>,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    at: Instant,
    is_reported: bool,
}

impl<T> Default for Requests<T> {
    fn default() -> Requests<T> {
        Requests { entries: HashMap::new(), waiting: VecDeque::new(), ages: VecDeque::new() }
    }
}

impl<T> Requests<T> {
    /// Returns the undecided request of `tuple`.
    pub(crate) fn get_mut(&mut self, tuple: &Tuple) -> Option<&mut T> {
        self.entries.get_mut(tuple).map(|entry| &mut entry.value)
    }

    /// Adds a request. Returns `value` if there are too many; decided or not, requests of the same
    /// tuple must have been looked up before.
    pub(crate) fn add(&mut self, tuple: Tuple, now: Instant, value: T) -> Result<(), T> {
        if self.entries.len() >= REQUESTS_MAX {
            return Err(value);
        }
        self.entries.insert(tuple, Entry { value, at: now, is_reported: false });
        self.waiting.push_back(tuple);
        self.ages.push_back((now, tuple));
        Ok(())
    }

    /// Reports the oldest request that was not reported yet.
    pub(crate) fn next(&mut self) -> Option<Tuple> {
        while let Some(tuple) = self.waiting.pop_front() {
            if let Some(entry) = self.entries.get_mut(&tuple).filter(|entry| !entry.is_reported) {
                entry.is_reported = true;
                return Some(tuple);
            }
        }
        None
    }

    /// Removes and returns the request of `tuple`, because it was decided.
    pub(crate) fn take(&mut self, tuple: &Tuple) -> Option<T> {
        self.entries.remove(tuple).map(|entry| entry.value)
    }

    /// Removes and returns the requests that have expired.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<T> {
        let mut expired = Vec::new();
        while let Some((at, tuple)) = self.ages.front().copied().filter(|(at, _)| now.since(*at) >= LIFETIME) {
            self.ages.pop_front();
            if self.entries.get(&tuple).is_some_and(|entry| entry.at == at) {
                expired.extend(self.take(&tuple));
            }
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

    #[test]
    fn a_request_is_reported_once_and_decided_once() {
        let mut requests = Requests::default();
        requests.add(tuple(1), at(0), 'a').unwrap();
        requests.add(tuple(2), at(0), 'b').unwrap();
        assert_eq!(requests.next(), Some(tuple(1)));
        assert_eq!(requests.get_mut(&tuple(1)), Some(&mut 'a'));
        assert_eq!(requests.take(&tuple(1)), Some('a'));
        assert_eq!(requests.take(&tuple(1)), None);
        assert_eq!(requests.take(&tuple(2)), Some('b'));
        assert_eq!(requests.next(), None, "it was decided without having been reported");
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
        assert_eq!(requests.next(), Some(tuple(0)));
        assert_eq!(requests.take_all(), [7]);
        assert_eq!((requests.expire(at(1000)).len(), requests.next()), (0, None));
    }
}
