//! The bridge's own querier, for networks without a router. It sends general queries in each VLAN
//! (RFC 3376 6.1, RFC 3810 7.1), and group-specific queries after a leave (RFC 3376 6.6.3.1).
//!
//! The querier creates bytes, not frames: the owner of the bridge takes them
//! ([`super::Bridge::take_query`]) and sends them. If there are several queriers, the one with the
//! lowest address is elected (RFC 3376 6.6.2); this querier sends nothing while another one has a
//! lower address.

use super::routers::{Domain, Routers};
use clock::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::eth::{EtherType, HEADER_LEN, Header};
use wire::{Mac, Proto, igmp, ip4, ip6, mld};

/// Configuration of the querier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Querier {
    /// Source MAC address of the queries.
    pub mac: Mac,
    /// Source IPv4 address; `None` disables IPv4 queries. A querier with 0.0.0.0 yields to any
    /// other querier.
    pub v4: Option<Ipv4Addr>,
    /// Link-local source IPv6 address; `None` disables IPv6 queries.
    pub v6: Option<Ipv6Addr>,
    /// VLANs in which queries are sent; only VLAN 0 without VLAN filtering. Only the first 64 are
    /// used.
    pub vids: Vec<u16>,
    /// Query interval (RFC 3376 8.2: 125 s).
    pub interval: Duration,
}

/// A query: the bytes of an untagged frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// VLAN in which to send the query.
    pub vid: u16,
    bytes: [u8; LONGEST],
    len: usize,
}

impl Query {
    /// Returns the bytes of the frame.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Length of the longest query, which is an MLD query: Ethernet, IPv6, hop-by-hop options, query.
const LONGEST: usize = HEADER_LEN + ip6::HEADER_LEN + 8 + mld::QUERY_LEN;
/// Maximum number of VLANs in which a querier sends queries.
pub const MOST_VLANS: usize = 64;
const MOST_GROUPS: usize = 256;
/// Robustness variable (RFC 3376 8.1). The times below follow from it (8.3, 8.7, 8.8).
const ROBUSTNESS: u8 = 2;
const MAX_RESP: Duration = Duration::from_secs(10);
const LAST_MEMBER: Duration = Duration::from_secs(1);
/// Time after which the listeners of a group expire if they do not answer its queries (RFC 3376
/// 8.10).
pub(super) const LAST_MEMBER_TIME: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct About {
    vid: u16,
    group: IpAddr,
    at: Instant,
    left: u8,
}

#[derive(Debug)]
pub(super) struct Asker {
    querier: Querier,
    /// Time of the next general query and number of startup queries left, for each domain. Startup
    /// queries are sent at intervals of a quarter of the query interval.
    general: BTreeMap<Domain, (Instant, u8)>,
    about: VecDeque<About>,
    out: VecDeque<Query>,
}

impl Asker {
    pub fn new(mut querier: Querier, now: Instant) -> Asker {
        querier.vids.truncate(MOST_VLANS);
        querier.interval = querier.interval.max(Duration::from_secs(1));
        let families = [(false, querier.v4.is_some()), (true, querier.v6.is_some())];
        let of = |vid: u16| {
            families
                .into_iter()
                .filter(|(_, asks)| *asks)
                .map(move |(six, _)| (Domain { vid, six }, (now, ROBUSTNESS - 1)))
        };
        let general = querier.vids.iter().flat_map(|vid| of(*vid)).collect();
        Asker { querier, general, about: VecDeque::new(), out: VecDeque::new() }
    }

    /// Returns whether the querier is configured to send queries in this domain. It does so only
    /// while elected.
    pub fn asks(&self, domain: Domain) -> bool {
        self.general.contains_key(&domain)
    }

    fn address(&self, domain: Domain) -> Option<IpAddr> {
        if domain.six { self.querier.v6.map(IpAddr::V6) } else { self.querier.v4.map(IpAddr::V4) }
    }

    pub fn is_elected(&self, routers: &Routers, domain: Domain, now: Instant) -> bool {
        let ours = self.address(domain).filter(|_| self.asks(domain));
        let other = routers.querier(domain, now);
        ours.is_some_and(|ours| other.is_none_or(|other| !ours.is_unspecified() && ours < other))
    }

    /// Schedules two queries for a group after a leave: one now, and one a second later. Does
    /// nothing if the group is already scheduled, or if too many groups are.
    pub fn ask_about(&mut self, vid: u16, group: IpAddr, now: Instant) {
        let is_asked = self.about.iter().any(|about| (about.vid, about.group) == (vid, group));
        if !is_asked && self.about.len() < MOST_GROUPS {
            self.about.push_back(About { vid, group, at: now, left: ROBUSTNESS });
        }
    }

    /// Creates the queries that are due, and returns their number.
    pub fn poll(&mut self, routers: &Routers, now: Instant) -> u64 {
        let before = self.out.len();
        let due: Vec<Domain> =
            self.general.iter().filter(|(_, (at, _))| *at <= now).map(|(domain, _)| *domain).collect();
        for domain in due {
            let interval = self.querier.interval;
            if let Some((at, first)) = self.general.get_mut(&domain) {
                *at = now.after(if *first > 0 { interval / 4 } else { interval });
                *first = first.saturating_sub(1);
            }
            if self.is_elected(routers, domain, now) {
                self.make(domain, None, MAX_RESP);
            }
        }
        self.poll_about(now);
        (self.out.len() - before) as u64
    }

    fn poll_about(&mut self, now: Instant) {
        for _ in 0..self.about.len() {
            let Some(mut about) = self.about.pop_front() else { return };
            if about.at <= now {
                self.make(Domain::of(about.vid, about.group), Some(about.group), LAST_MEMBER);
                (about.at, about.left) = (now.after(LAST_MEMBER), about.left - 1);
            }
            if about.left > 0 {
                self.about.push_back(about);
            }
        }
    }

    pub fn take(&mut self) -> Option<Query> {
        self.out.pop_front()
    }

    /// Queues a query. The queue is bounded, because the owner of the bridge might not take the
    /// queries.
    fn make(&mut self, domain: Domain, group: Option<IpAddr>, max_resp: Duration) {
        let Some(address) = self.address(domain).filter(|_| self.out.len() < MOST_GROUPS + 2 * MOST_VLANS) else {
            return;
        };
        let made = match (address, group) {
            (IpAddr::V4(src), None) => self.query4(src, Ipv4Addr::UNSPECIFIED, max_resp),
            (IpAddr::V4(src), Some(IpAddr::V4(group))) => self.query4(src, group, max_resp),
            (IpAddr::V6(src), None) => self.query6(src, Ipv6Addr::UNSPECIFIED, max_resp),
            (IpAddr::V6(src), Some(IpAddr::V6(group))) => self.query6(src, group, max_resp),
            _ => None,
        };
        if let Some((bytes, len)) = made {
            self.out.push_back(Query { vid: domain.vid, bytes, len });
        }
    }

    fn interval_s(&self) -> u16 {
        u16::try_from(self.querier.interval.as_secs()).unwrap_or(u16::MAX)
    }

    /// Builds an IGMP query with the router alert option (RFC 2113), TTL 1 and precedence
    /// internetwork control (RFC 3376 4).
    fn query4(&self, src: Ipv4Addr, group: Ipv4Addr, max_resp: Duration) -> Option<([u8; LONGEST], usize)> {
        const IHL: usize = 24;
        let dst = if group.is_unspecified() { Ipv4Addr::new(224, 0, 0, 1) } else { group };
        let message = igmp::v3::query(group, (max_resp.as_millis() / 100) as u16, ROBUSTNESS, self.interval_s());
        let total_len = (IHL + message.len()) as u16;
        let plain = ip4::Header::new(src, dst, Proto::IGMP, message.len())?;
        let header = ip4::Header { ihl_len: IHL, total_len, ttl: 1, tos: 0xc0, ..plain };
        let (mut frame, len) = self.frame(Mac::multicast4(dst), EtherType::IPV4, IHL + message.len());
        let packet = frame.get_mut(HEADER_LEN..len)?;
        header.emit(packet.first_chunk_mut()?);
        packet.get_mut(ip4::HEADER_LEN..IHL)?.copy_from_slice(&[0x94, 4, 0, 0]);
        ip4::fill_checksum(packet.get_mut(..IHL)?);
        packet.get_mut(IHL..)?.copy_from_slice(&message);
        Some((frame, len))
    }

    /// Builds an MLD query with the router alert option (RFC 2711) and hop limit 1 (RFC 3810 5).
    fn query6(&self, src: Ipv6Addr, group: Ipv6Addr, max_resp: Duration) -> Option<([u8; LONGEST], usize)> {
        const OPTIONS: [u8; 8] = [Proto::IPV6_ICMP.0, 0, 5, 2, 0, 0, 1, 0];
        let dst = if group.is_unspecified() { Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1) } else { group };
        let [.., a, b, c, d] = dst.octets();
        let message = mld::query((src, dst), group, max_resp.as_millis() as u16, ROBUSTNESS, self.interval_s());
        let payload_len = (OPTIONS.len() + message.len()) as u16;
        let next = Proto::HOP_BY_HOP;
        let header = ip6::Header { traffic_class: 0, flow_label: 0, payload_len, next, hop_limit: 1, src, dst };
        let (mut frame, len) =
            self.frame(Mac([0x33, 0x33, a, b, c, d]), EtherType::IPV6, ip6::HEADER_LEN + usize::from(payload_len));
        let (head, rest) = frame.get_mut(HEADER_LEN..len)?.split_first_chunk_mut()?;
        header.emit(head);
        let (options, rest) = rest.split_first_chunk_mut()?;
        *options = OPTIONS;
        rest.copy_from_slice(&message);
        Some((frame, len))
    }

    /// Returns a buffer with an Ethernet header, and the frame length for `payload` bytes.
    fn frame(&self, dst: Mac, ethertype: EtherType, payload: usize) -> ([u8; LONGEST], usize) {
        let mut frame = [0; LONGEST];
        if let Some(head) = frame.first_chunk_mut() {
            Header { dst, src: self.querier.mac, ethertype }.emit(head);
        }
        (frame, HEADER_LEN + payload)
    }
}
