//! Conversations about source filters, the same in both families: RFC 3376, RFC 3810, RFC 3678.

use crate::common::kin::*;
use crate::common::packets::Ip;
use crate::common::six::Ip6;
use crate::common::*;
use clock::Duration;
use linerate_inet::groups::{FilterMode, SOURCES_MAX, SourceFilter};
use linerate_inet::raw::RawKind;
use linerate_inet::udp::{BindError, SourceChange};
use lock::Locks;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::igmp::v3;
use wire::{Mac, Proto, igmp, mld};

conversations! {
    sources_are_joined_and_left_one_by_one
    sources_are_blocked_and_unblocked
    modes_change_with_the_filters_of_all_sockets
    a_datagram_reaches_sockets_that_accept_its_source
    raw_sockets_filter_what_they_have_joined
    a_filter_is_set_as_a_whole
    invalid_filter_changes_are_rejected
    changes_are_reported_twice
    closing_a_socket_leaves_its_sources
    a_general_query_is_answered_with_every_filter
    a_query_for_sources_is_answered_for_those
    an_old_querier_is_answered_with_igmpv2
    long_lists_are_split_and_exclusions_truncated
    malformed_queries_are_harmless
}

const IS_IN: u8 = 1;
const IS_EX: u8 = 2;
const TO_IN: u8 = 3;
const TO_EX: u8 = 4;
const ALLOW: u8 = 5;
const BLOCK: u8 = 6;

type Record = (u8, IpAddr, Vec<IpAddr>);

impl Kin {
    fn group(self) -> IpAddr {
        self.pick("239.1.2.3".parse().unwrap(), "ff05::1:3".parse().unwrap())
    }

    /// Returns a source address beyond the link.
    fn source(self, n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        self.pick(Ipv4Addr::new(192, 0, high, low).into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n).into())
    }

    fn sources(self, numbers: impl IntoIterator<Item = u16>) -> Vec<IpAddr> {
        numbers.into_iter().map(|n| self.source(n)).collect()
    }
}

/// Returns the records in a frame if it is a report, after checking its IGMP or MLD checksum.
fn records_of(frame: &[u8]) -> Option<Vec<Record>> {
    let (message, len) = if wire::ip6::is_version(&frame[14..]) {
        let (link, header, payload) = six::ip6_of(frame);
        if header.next != Proto::HOP_BY_HOP || payload.get(8) != Some(&143) {
            return None;
        }
        assert_eq!((header.dst, header.hop_limit), (wire::ip6::ALL_MLD2_ROUTERS, 1));
        assert_eq!(link.dst, Mac::multicast6(header.dst));
        assert!(mld::Message::parse(&payload[8..], header.src, header.dst).is_ok());
        (payload[8..].to_vec(), 16)
    } else {
        let (link, header, payload) = packets::ip_of(frame);
        if header.proto != Proto::IGMP || payload[0] != v3::REPORT {
            return None;
        }
        assert_eq!((header.dst, header.ttl, header.tos), ([224, 0, 0, 22].into(), 1, 0xc0));
        assert_eq!((link.dst, header.ihl_len), (Mac::multicast4(header.dst), 24));
        assert!(v3::report(payload).is_ok());
        (payload.to_vec(), 4)
    };
    let addr = |bytes: &[u8]| match len {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).unwrap()),
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).unwrap()),
    };
    let (mut at, mut records) = (8, Vec::new());
    for _ in 0..u16::from_be_bytes([message[6], message[7]]) {
        let n = usize::from(u16::from_be_bytes([message[at + 2], message[at + 3]]));
        let addrs: Vec<IpAddr> = message[at + 4..][..(n + 1) * len].chunks(len).map(addr).collect();
        records.push((message[at], addrs[0], addrs[1..].to_vec()));
        at += 4 + (n + 1) * len;
    }
    assert_eq!(at, message.len());
    Some(records)
}

impl<L: Locks> Host<L> {
    /// Returns the records that were reported for the group.
    fn reported(&self, kin: Kin) -> Vec<(u8, Vec<IpAddr>)> {
        let records = self.sent(EM0).iter().filter_map(|frame| records_of(frame)).flatten().collect::<Vec<_>>();
        records.into_iter().filter(|record| record.1 == kin.group()).map(|record| (record.0, record.2)).collect()
    }

    fn change(&self, kin: Kin, s: usize, change: SourceChange, n: u16) -> Result<(), BindError> {
        self.stack.udp_change_source(self.cx(), s, change, (kin.group(), kin.source(n)), Some(EM0))
    }

    fn joins(&self, kin: Kin, s: usize) -> Result<(), BindError> {
        self.stack.udp_join(self.cx(), s, kin.group(), Some(EM0))
    }

    fn leaves(&self, kin: Kin, s: usize) -> Result<(), BindError> {
        self.stack.udp_leave(self.cx(), s, kin.group(), Some(EM0))
    }

    /// Waits until the repeated report of a change has been sent.
    fn settled(&self) {
        self.advance_secs(2);
        self.sent(EM0);
    }

    fn shared_of(&self, kin: Kin, l4port: u16) -> usize {
        let s = self.stack.udp_open(self.cx(), kin.domain()).unwrap();
        self.options(s, |options| options.reuse_port = true);
        self.stack.udp_bind(self.cx(), s, SocketAddr::new(kin.any(), l4port)).unwrap();
        s
    }

    /// Receives a datagram to the group from source `n`.
    fn datagram(&self, kin: Kin, n: u16) {
        let mut packet = Pkt { src: kin.source(n), dst: kin.group(), ..kin.udp(5, 9, b"text") };
        packet.payload[6..8].fill(0);
        let pseudo = pseudo(packet.src, packet.dst, Proto::UDP, packet.payload.len() as u32);
        let sum = pseudo.add(wire::checksum::sum(&packet.payload)).finish_nonzero();
        packet.payload[6..8].copy_from_slice(&sum.to_be_bytes());
        self.receives(&packet);
    }

    fn queried(&self, kin: Kin, group: IpAddr, sources: &[IpAddr]) {
        let count = (sources.len() as u16).to_be_bytes();
        match (kin, group) {
            (Kin::Four, IpAddr::V4(group)) => {
                let mut query = v3::query(group, 10, 2, 125).to_vec();
                query[10..12].copy_from_slice(&count);
                sources.iter().for_each(|source| match source {
                    IpAddr::V4(source) => query.extend(source.octets()),
                    IpAddr::V6(_) => {}
                });
                self.igmp(query);
            }
            (_, IpAddr::V6(group)) => {
                let (from, to) = (six::PEER6.near, wire::ip6::ALL_NODES);
                let query = mld::query((from, to), group, 1000, 2, 125);
                let query = Ip6::new(from, to, Proto::IPV6_ICMP, query.to_vec()).hops(1);
                let alert = [0, 0, 5, 2, 0, 0, 1, 0];
                let frame = query.with(Proto::HOP_BY_HOP, &alert).frame(Mac::multicast6(to), PEER.mac);
                self.inject(EM0, frame);
            }
            _ => unreachable!(),
        }
    }

    fn igmp(&self, mut message: Vec<u8>) {
        message[2..4].fill(0);
        let sum = wire::checksum::sum(&message).finish();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let all = Ipv4Addr::new(224, 0, 0, 1);
        self.inject(EM0, Ip::new(PEER.ip, all, Proto::IGMP, message).ttl(1).frame(Mac::multicast4(all), PEER.mac));
    }
}

fn sources_are_joined_and_left_one_by_one<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.bound_of(kin, 9);
        for n in [1, 2] {
            assert_eq!(h.change(kin, s, SourceChange::Join, n), Ok(()));
            assert_eq!(h.reported(kin), [(ALLOW, kin.sources(1..=n))], "the unfinished report is repeated");
        }
        h.settled();
        assert_eq!(h.change(kin, s, SourceChange::Join, 1), Err(BindError::NotOurs));
        assert_eq!(h.change(kin, s, SourceChange::Leave, 3), Err(BindError::NotOurs));
        h.datagram(kin, 1);
        h.datagram(kin, 3);
        assert_eq!(h.recv(s).unwrap().1, SocketAddr::new(kin.source(1), 5));
        assert_eq!(h.recv(s), None);
        assert_eq!(h.change(kin, s, SourceChange::Leave, 1), Ok(()));
        assert_eq!(h.reported(kin), [(BLOCK, kin.sources([1]))]);
        h.datagram(kin, 1);
        assert_eq!(h.recv(s), None);
        h.settled();
        // When the last source is removed, the group is left.
        assert_eq!(h.change(kin, s, SourceChange::Leave, 2), Ok(()));
        assert_eq!(h.reported(kin), [(BLOCK, kin.sources([2]))]);
        assert_eq!(h.leaves(kin, s), Err(BindError::NotOurs));
        h.settled();
        h.forget_counters();
        h.datagram(kin, 2);
        let ip = kin.pick("ip4", "ip6");
        h.assert_counters(&format!("in 1, {ip}.received 1, {ip}.in.not_member 1"));
        h.stack.udp_close(h.cx(), s);
    }
}

fn sources_are_blocked_and_unblocked<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.bound_of(kin, 9);
        assert_eq!(h.change(kin, s, SourceChange::Block, 1), Err(BindError::Invalid), "the group is not joined");
        h.joins(kin, s).unwrap();
        assert_eq!(h.reported(kin), [(TO_EX, vec![])]);
        h.settled();
        assert_eq!(h.change(kin, s, SourceChange::Block, 1), Ok(()));
        assert_eq!(h.reported(kin), [(BLOCK, kin.sources([1]))]);
        assert_eq!(h.change(kin, s, SourceChange::Block, 1), Err(BindError::NotOurs));
        assert_eq!(h.change(kin, s, SourceChange::Unblock, 2), Err(BindError::NotOurs));
        assert_eq!(h.change(kin, s, SourceChange::Join, 2), Err(BindError::Invalid), "the filter is in the other mode");
        h.datagram(kin, 1);
        assert_eq!(h.recv(s), None);
        h.datagram(kin, 2);
        assert!(h.recv(s).is_some());
        h.settled();
        assert_eq!(h.change(kin, s, SourceChange::Unblock, 1), Ok(()));
        assert_eq!(h.reported(kin), [(ALLOW, kin.sources([1]))]);
        h.datagram(kin, 1);
        assert!(h.recv(s).is_some());
        h.settled();
        h.leaves(kin, s).unwrap();
        assert_eq!(h.reported(kin), [(TO_IN, vec![])]);
        h.stack.udp_close(h.cx(), s);
    }
}

/// RFC 3376 3.2: the interface excludes the sources that all excluding sockets exclude and that no
/// other socket includes.
fn modes_change_with_the_filters_of_all_sockets<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let sockets: Vec<usize> = (0..3).map(|_| h.shared_of(kin, 9)).collect();
        let [one, two, three] = sockets[..] else { unreachable!() };
        let step = |done: Result<(), BindError>, expected: &[(u8, Vec<IpAddr>)]| {
            done.unwrap();
            assert_eq!(h.reported(kin), expected, "{kin:?}");
            h.settled();
        };
        let set = |s, mode, numbers: &[u16]| {
            let sources = kin.sources(numbers.iter().copied()).into_iter().collect();
            h.stack.udp_set_filter(h.cx(), s, kin.group(), Some(EM0), SourceFilter { mode, sources })
        };
        use FilterMode::{Exclude, Include};
        step(set(one, Exclude, &[1, 2, 3, 4]), &[(TO_EX, kin.sources([1, 2, 3, 4]))]);
        step(set(two, Exclude, &[2, 3, 4, 5]), &[(ALLOW, kin.sources([1]))]);
        step(set(three, Include, &[4, 6]), &[(ALLOW, kin.sources([4]))]);
        step(set(two, Exclude, &[2]), &[(ALLOW, kin.sources([3]))]);
        step(set(one, Include, &[]), &[]);
        step(set(two, Include, &[7]), &[(TO_IN, kin.sources([4, 6, 7]))]);
        step(set(three, Exclude, &[7, 8]), &[(TO_EX, kin.sources([8]))]);
        step(h.leaves(kin, three), &[(TO_IN, kin.sources([7]))]);
        step(h.change(kin, two, SourceChange::Leave, 7), &[(BLOCK, kin.sources([7]))]);
        sockets.into_iter().for_each(|s| assert!(h.stack.udp_close(h.cx(), s)));
        assert_eq!(h.reported(kin), []);
    }
}

fn a_datagram_reaches_sockets_that_accept_its_source<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let [all, one, not_one, none] = [0; 4].map(|_| h.shared_of(kin, 9));
        h.joins(kin, all).unwrap();
        h.change(kin, one, SourceChange::Join, 1).unwrap();
        h.joins(kin, not_one).unwrap();
        h.change(kin, not_one, SourceChange::Block, 1).unwrap();
        let takes = |n| {
            h.datagram(kin, n);
            [all, one, not_one, none].map(|s| h.recv(s).is_some())
        };
        assert_eq!((takes(1), takes(2)), ([true, true, false, false], [true, false, true, false]));
        h.leaves(kin, all).unwrap();
        h.leaves(kin, not_one).unwrap();
        h.forget_counters();
        assert_eq!((takes(1), takes(2)), ([false, true, false, false], [false; 4]));
        assert_eq!(h.counter("inet.udp.in.no_socket_broadcast"), kin.pick(1, 2));
        for s in [all, one, not_one, none] {
            h.stack.udp_close(h.cx(), s);
        }
    }
}

fn raw_sockets_filter_what_they_have_joined<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let [member, other] = [0; 2].map(|_| h.stack.raw_open(h.cx(), kin.domain(), RawKind::Raw(Proto(253))).unwrap());
        h.change(kin, member, SourceChange::Join, 1).unwrap();
        let takes = |n| {
            h.receives(&Pkt { src: kin.source(n), dst: kin.group(), ..kin.packet(Proto(253), *b"text") });
            [member, other].map(|s| h.recv(s).is_some())
        };
        assert_eq!((takes(1), takes(2)), ([true, true], [false, true]));
        assert!(h.stack.udp_close(h.cx(), member) && h.stack.udp_close(h.cx(), other));
    }
}

fn a_filter_is_set_as_a_whole<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.bound_of(kin, 9);
        let get = || h.stack.udp_filter(h.cx(), s, kin.group(), Some(EM0));
        let set = |filter: &SourceFilter| h.stack.udp_set_filter(h.cx(), s, kin.group(), Some(EM0), filter.clone());
        assert_eq!(get(), Err(BindError::NotOurs));
        for (mode, numbers) in [(FilterMode::Include, 1..4), (FilterMode::Exclude, 2..6), (FilterMode::Include, 9..10)]
        {
            let filter = SourceFilter { mode, sources: kin.sources(numbers).into_iter().collect() };
            assert_eq!((set(&filter), get()), (Ok(()), Ok(filter)));
        }
        assert_eq!(set(&SourceFilter::default()), Ok(()));
        assert_eq!(get(), Err(BindError::NotOurs));
        h.joins(kin, s).unwrap();
        assert_eq!(get(), Ok(SourceFilter::any()));
        h.stack.udp_close(h.cx(), s);
    }
}

fn invalid_filter_changes_are_rejected<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.bound_of(kin, 9);
        let alien = kin.pick(Kin::Six, Kin::Four).source(1);
        let join = |group, source| h.stack.udp_change_source(h.cx(), s, SourceChange::Join, (group, source), Some(EM0));
        for source in [alien, kin.group(), kin.any()] {
            assert_eq!(join(kin.group(), source), Err(BindError::Invalid));
        }
        assert_eq!(join(kin.peer(), kin.source(1)), Err(BindError::Invalid), "no group");
        assert_eq!(h.change(kin, s, SourceChange::Leave, 1), Err(BindError::NotOurs));
        assert_eq!(h.change(kin, s, SourceChange::Unblock, 1), Err(BindError::Invalid));
        for n in 0..SOURCES_MAX as u16 {
            assert_eq!(h.change(kin, s, SourceChange::Join, n + 1), Ok(()));
        }
        assert_eq!(h.change(kin, s, SourceChange::Join, 999), Err(BindError::TooMany));
        assert_eq!(h.joins(kin, s), Err(BindError::InUse));
        assert_eq!(h.change(kin, 99, SourceChange::Join, 1), Err(BindError::NoSocket));
        h.stack.udp_close(h.cx(), s);
        h.sent(EM0);
    }
}

fn changes_are_reported_twice<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.bound_of(kin, 9);
        h.change(kin, s, SourceChange::Join, 1).unwrap();
        assert_eq!(h.reported(kin), [(ALLOW, kin.sources([1]))]);
        let due = h.poll().unwrap();
        assert!(due <= h.now().after(Duration::from_secs(1)));
        h.advance_secs(1);
        assert_eq!(h.reported(kin), [(ALLOW, kin.sources([1]))], "once more");
        h.advance_secs(100);
        assert_eq!(h.reported(kin), []);
        // A change that is reverted before the second report is reported in its final state.
        h.change(kin, s, SourceChange::Join, 2).unwrap();
        h.change(kin, s, SourceChange::Leave, 2).unwrap();
        h.sent(EM0);
        h.advance_secs(1);
        assert_eq!(h.reported(kin), [(BLOCK, kin.sources([2]))]);
        h.stack.udp_close(h.cx(), s);
        h.settled();
    }
}

fn closing_a_socket_leaves_its_sources<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let (one, two) = (h.shared_of(kin, 9), h.shared_of(kin, 9));
        for (s, n) in [(one, 1), (one, 2), (two, 2)] {
            h.change(kin, s, SourceChange::Join, n).unwrap();
        }
        h.settled();
        h.stack.udp_close(h.cx(), one);
        assert_eq!(h.reported(kin), [(BLOCK, kin.sources([1]))]);
        h.settled();
        h.stack.udp_close(h.cx(), two);
        assert_eq!(h.reported(kin), [(BLOCK, kin.sources([2]))]);
        h.settled();
        assert_eq!(h.poll(), h.poll());
    }
}

fn a_general_query_is_answered_with_every_filter<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.bound_of(kin, 9);
        let answer = |group: IpAddr| {
            h.queried(kin, group, &[]);
            assert_eq!(h.reported(kin), [], "not at once");
            h.advance_secs(1);
            h.reported(kin)
        };
        let general = kin.any();
        assert_eq!(answer(general), [], "no group");
        h.change(kin, s, SourceChange::Join, 1).unwrap();
        h.settled();
        assert_eq!(answer(general), [(IS_IN, kin.sources([1]))]);
        h.leaves(kin, s).unwrap();
        h.settled();
        h.joins(kin, s).unwrap();
        h.change(kin, s, SourceChange::Block, 2).unwrap();
        h.settled();
        assert_eq!(answer(general), [(IS_EX, kin.sources([2]))]);
        assert_eq!(answer(kin.group()), [(IS_EX, kin.sources([2]))], "for this group");
        h.stack.udp_close(h.cx(), s);
        h.settled();
    }
}

/// RFC 3376 5.2: the answer is IS_IN with those of the queried sources that are received. MLD
/// answers with the whole filter.
fn a_query_for_sources_is_answered_for_those<L: Locks>() {
    let (h, kin) = (Host::<L>::six_and_neighbors(), Kin::Four);
    let s = h.bound_of(kin, 9);
    for n in [1, 2, 3] {
        h.change(kin, s, SourceChange::Join, n).unwrap();
    }
    h.settled();
    let answer = |queries: &[&[u16]]| {
        queries.iter().for_each(|numbers| h.queried(kin, kin.group(), &kin.sources(numbers.iter().copied())));
        h.advance_secs(1);
        h.reported(kin)
    };
    assert_eq!(answer(&[&[2, 9]]), [(IS_IN, kin.sources([2]))]);
    assert_eq!(answer(&[&[9]]), []);
    assert_eq!(answer(&[&[1], &[3, 9]]), [(IS_IN, kin.sources([1, 3]))], "queries are answered together");
    assert_eq!(answer(&[&[1], &[]]), [(IS_IN, kin.sources([1, 2, 3]))], "together with a query for the whole group");
    assert_eq!(answer(&[&[], &[1]]), [(IS_IN, kin.sources([1, 2, 3]))]);
    h.leaves(kin, s).unwrap();
    h.settled();
    h.joins(kin, s).unwrap();
    h.change(kin, s, SourceChange::Block, 2).unwrap();
    h.settled();
    assert_eq!(answer(&[&[1, 2]]), [(IS_IN, kin.sources([1]))]);
    let many: Vec<u16> = (1000..1360).collect();
    assert_eq!(answer(&[&many]), [(IS_EX, kin.sources([2]))], "more than are remembered: the whole group");
}

/// RFC 3376 7.2.1.
fn an_old_querier_is_answered_with_igmpv2<L: Locks>() {
    let (h, kin) = (Host::<L>::six_and_neighbors(), Kin::Four);
    let IpAddr::V4(group) = kin.group() else { unreachable!() };
    let (one, two) = (h.shared_of(kin, 9), h.shared_of(kin, 9));
    h.change(kin, one, SourceChange::Join, 1).unwrap();
    h.settled();
    let old = || -> Vec<igmp::Message> { h.sent(EM0).iter().map(|frame| packets::igmp_of(frame)).collect() };
    let query = igmp::Message::Query { max_resp_ds: 10, group: Ipv4Addr::UNSPECIFIED };
    h.igmp(query.emit().to_vec());
    h.advance_secs(1);
    assert_eq!(old(), [igmp::Message::Report { group }]);
    // IGMPv2 has no source filters: the first join and the last leave are reported.
    h.change(kin, one, SourceChange::Join, 2).unwrap();
    h.joins(kin, two).unwrap();
    h.leaves(kin, two).unwrap();
    assert_eq!(old(), []);
    h.leaves(kin, one).unwrap();
    assert_eq!(old(), [igmp::Message::Leave { group }]);
    h.joins(kin, two).unwrap();
    assert_eq!(old(), [igmp::Message::Report { group }]);
    h.datagram(kin, 1);
    assert!(h.recv(two).is_some());
    // The old querier has timed out.
    h.advance_secs(260);
    h.sent(EM0);
    h.leaves(kin, two).unwrap();
    assert_eq!(h.reported(kin), [(TO_IN, vec![])]);
}

fn long_lists_are_split_and_exclusions_truncated<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        // The sources of many sockets do not fit into one report.
        let mut numbers = 1..;
        for _ in 0..10 {
            let s = h.shared_of(kin, 9);
            let sources = kin.sources(numbers.by_ref().take(SOURCES_MAX)).into_iter().collect();
            let filter = SourceFilter { mode: FilterMode::Include, sources };
            h.stack.udp_set_filter(h.cx(), s, kin.group(), Some(EM0), filter).unwrap();
        }
        h.settled();
        h.queried(kin, kin.any(), &[]);
        h.advance_secs(1);
        let records = h.reported(kin);
        assert!(records.len() > 1 && records.iter().all(|(kind, _)| *kind == IS_IN));
        let mut all: Vec<IpAddr> = records.into_iter().flat_map(|(_, sources)| sources).collect();
        all.sort();
        assert_eq!(all, kin.sources(1..=640));
    }
}

fn malformed_queries_are_harmless<L: Locks>() {
    let (h, kin) = (Host::<L>::six_and_neighbors(), Kin::Four);
    let s = h.bound_of(kin, 9);
    h.change(kin, s, SourceChange::Join, 1).unwrap();
    h.settled();
    let IpAddr::V4(group) = kin.group() else { unreachable!() };
    for (count, there) in [(0xffff_u16, 0), (2, 1), (1, 3), (0, 7)] {
        let mut query = v3::query(group, 10, 2, 125).to_vec();
        query[10..12].copy_from_slice(&count.to_be_bytes());
        query.extend((0..there).flat_map(|n| [192, 0, 0, n + 1]));
        h.igmp(query);
        h.advance_secs(1);
        assert_eq!(h.reported(kin), [(IS_IN, kin.sources([1]))], "{count} {there}");
    }
    let mut rng = Rng::new(3);
    for _ in 0..2000 {
        let mut message: Vec<u8> = (0..8 + rng.below(40)).map(|_| rng.next() as u8).collect();
        message[0] = [0x11, 0x12, 0x16, 0x17, 0x22][rng.below(5)];
        if rng.below(2) == 0 {
            message[4..8].copy_from_slice(&group.octets());
        }
        h.igmp(message);
        h.advance(Duration::from_millis(10));
        h.sent(EM0);
    }
}
