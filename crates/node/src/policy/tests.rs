//! The core of policies: decisions, quotas, names, fragments, and the limits of tables.

mod packet;

use super::*;
use crate::fuzz::tests::hold_bytes;
use buf::PoolConfig;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use wire::{icmp4, ip4, ip6, tcp, udp};

const STATION: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// Address of the host that has the policy.
const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn ethernet(ethertype: [u8; 2], payload: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], &ethertype[..], payload].concat()
}

/// Returns an IPv4 packet; `fragment` has its offset in bytes and the flag MF.
fn ip(src: Ipv4Addr, dst: Ipv4Addr, proto: Proto, fragment: (u16, bool), payload: &[u8]) -> Vec<u8> {
    let header = ip4::Header::new(src, dst, proto, payload.len()).unwrap();
    let is_fragment = fragment != (0, false);
    let header = ip4::Header { frag_off: fragment.0, mf: fragment.1, df: !is_fragment, id: 7, ..header };
    let mut bytes = [0; ip4::HEADER_LEN];
    header.emit(&mut bytes);
    [&bytes, payload].concat()
}

fn datagram(src_port: u16, dst_port: u16, payload: &[u8]) -> Vec<u8> {
    let len = (udp::HEADER_LEN + payload.len()) as u16;
    [&src_port.to_be_bytes()[..], &dst_port.to_be_bytes(), &len.to_be_bytes(), &[0, 0], payload].concat()
}

fn segment(src_port: u16, dst_port: u16, flags: tcp::Flags) -> Vec<u8> {
    let ports = [src_port.to_be_bytes(), dst_port.to_be_bytes()].concat();
    [&ports[..], &[0; 8], &[0x50, flags.0], &[0; 6]].concat()
}

/// Returns a frame with a UDP datagram from the station.
fn up(dst: Ipv4Addr, dst_port: u16, payload: &[u8]) -> Vec<u8> {
    ethernet([8, 0], &ip(STATION, dst, Proto::UDP, (0, false), &datagram(1000, dst_port, payload)))
}

/// Returns a frame with a UDP datagram to the station.
fn down(src: Ipv4Addr, src_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = ethernet([8, 0], &ip(src, STATION, Proto::UDP, (0, false), &datagram(src_port, 1000, payload)));
    (frame[5], frame[11]) = (2, 1); // MAC addresses of the other direction
    frame
}

struct Rig {
    policy: Policy,
    pool: buf::Pool,
    now: Instant,
}

impl Rig {
    fn new(policy: Policy) -> Rig {
        let pool = buf::Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap();
        Rig { policy, pool, now: Instant::from_millis(1) }
    }

    fn frame(&self, bytes: &[u8]) -> Frame {
        let mut frame = self.pool.get().unwrap();
        frame.extend(bytes).unwrap();
        frame
    }

    /// Passes a frame of the station. Returns `None` if it is admitted, and otherwise the reason and
    /// the notice to the sender.
    fn sends(&self, bytes: &[u8]) -> Option<(DropReason, Notice)> {
        let (mut burst, mut rejected) = (Burst::of(self.frame(bytes)), None);
        self.policy.admit(
            &mut burst,
            self.now,
            |addr| addr.is_multicast() || addr == HOST,
            |_, why, notice| rejected = Some((why, notice)),
        );
        assert_eq!(burst.is_empty(), rejected.is_some());
        rejected
    }

    /// Passes a frame to the station. Returns whether it is sent.
    fn receives(&self, bytes: &[u8]) -> bool {
        let mut burst = Burst::of(self.frame(bytes));
        self.policy.limit(&mut burst, 0, self.now) == 0
    }

    fn wait(&mut self, seconds: u64) {
        self.now = self.now.after(Duration::from_secs(seconds));
    }
}

const DENIED: Option<(DropReason, Notice)> = Some((DropReason::PolicyDenied, Notice::Silent));
const REFUSED: Option<(DropReason, Notice)> = Some((DropReason::PolicyDenied, Notice::Refusal));
const QUOTA: Option<(DropReason, Notice)> = Some((DropReason::PolicyQuota, Notice::Silent));

/// Neighbor discovery, MLD and IGMP need no decision, unless the stack might forward them.
#[test]
fn packets_of_the_link_pass_only_to_addresses_here() {
    let rig = Rig::new(Policy::new(|_| Decision::Drop));
    let igmp = |dst, fragment| ethernet([8, 0], &ip(STATION, dst, Proto::IGMP, fragment, &[0x22; 16]));
    assert_eq!(rig.sends(&igmp(Ipv4Addr::new(224, 0, 0, 22), (0, false))), None);
    assert_eq!(rig.sends(&igmp(FAR, (0, false))), DENIED);
    assert_eq!(rig.sends(&igmp(Ipv4Addr::new(224, 0, 0, 22), (8, false))), DENIED);
    let solicitation = |dst: &str, hop_limit| {
        let message = [&[135, 0, 0, 0][..], &[0; 20]].concat();
        let (src, dst) = ("2001:db8::2".parse().unwrap(), dst.parse().unwrap());
        let (traffic_class, flow_label, payload_len) = (0, 0, message.len() as u16);
        let header =
            ip6::Header { traffic_class, flow_label, payload_len, next: Proto::IPV6_ICMP, hop_limit, src, dst };
        let mut bytes = [0; ip6::HEADER_LEN];
        header.emit(&mut bytes);
        ethernet([0x86, 0xdd], &[&bytes[..], &message].concat())
    };
    assert_eq!(rig.sends(&solicitation("ff02::1:ff00:1", 255)), None);
    assert_eq!(rig.sends(&solicitation("ff02::1:ff00:1", 254)), DENIED);
    assert_eq!(rig.sends(&solicitation("2001:db8:1::1", 255)), DENIED);
    // Those of a remote sender count for the quota of the station; those of the stack do not.
    let rig = Rig::new(Policy::allow_all().download(Quota::total(100)));
    assert!((0..5).all(|_| rig.receives(&solicitation("2001:db8::3", 255))));
    assert_eq!((0..5).filter(|_| rig.receives(&solicitation("2001:db8::3", 254))).count(), 1);
}

#[test]
fn the_hook_is_asked_once_for_each_flow_and_again_on_request() {
    let asked = Arc::new(AtomicU64::new(0));
    let allowed = Arc::new(AtomicU64::new(53));
    let (count, port) = (asked.clone(), allowed.clone());
    let mut rig = Rig::new(Policy::new(move |flow| {
        count.fetch_add(1, Ordering::Relaxed);
        match flow.destination.port() {
            9 => Decision::Drop,
            port_of_it if u64::from(port_of_it) == port.load(Ordering::Relaxed) => Decision::Allow,
            _ => Decision::Refuse,
        }
    }));
    for _ in 0..3 {
        assert_eq!(rig.sends(&up(FAR, 53, b"x")), None);
        assert!(rig.receives(&down(FAR, 53, b"y")));
        assert_eq!(rig.sends(&up(FAR, 80, b"x")), REFUSED);
        assert_eq!(rig.sends(&up(FAR, 9, b"x")), DENIED);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    let counts = rig.policy.counts();
    assert_eq!([counts.allowed.get(), counts.refused.get(), counts.dropped.get(), counts.denied.get()], [1, 1, 1, 6]);

    allowed.store(80, Ordering::Relaxed);
    assert_eq!(rig.sends(&up(FAR, 53, b"x")), None, "the decision holds");
    rig.policy.recheck();
    assert_eq!([rig.sends(&up(FAR, 53, b"x")), rig.sends(&up(FAR, 80, b"x"))], [REFUSED, None]);
    // A flow that was refused is forgotten after 30 s, one of both directions after 5 minutes.
    assert!(rig.receives(&down(FAR, 80, b"y")));
    rig.wait(31);
    assert_eq!(rig.sends(&up(FAR, 80, b"x")), None);
    assert_eq!(asked.load(Ordering::Relaxed), 5);
    assert_eq!(rig.sends(&up(FAR, 53, b"x")), REFUSED);
    assert_eq!(asked.load(Ordering::Relaxed), 6);
    rig.wait(301);
    assert_eq!(rig.sends(&up(FAR, 80, b"x")), None);
    assert_eq!(asked.load(Ordering::Relaxed), 7);

    let flows = rig.policy.flows();
    assert_eq!(flows.len(), 1, "{flows:#?}");
    assert_eq!((flows[0].decision, flows[0].by_station, flows[0].sent.packets), (Decision::Allow, true, 1));
    assert_eq!(flows[0].sent.bytes, up(FAR, 80, b"x").len() as u64);
}

#[test]
fn flows_of_the_other_side_pass_and_their_replies_too() {
    let rig = Rig::new(Policy::new(|_| Decision::Drop));
    assert!(rig.receives(&down(FAR, 4000, b"hello")));
    assert_eq!(rig.sends(&up(FAR, 4000, b"reply")), None);
    assert_eq!(rig.sends(&up(FAR, 4001, b"other")), DENIED);
    assert!(!rig.policy.flows()[0].by_station);
}

/// A station that answers itself under a foreign address does not create a flow.
#[test]
fn a_flow_between_two_stations_needs_a_decision_in_each_direction() {
    let rig =
        Rig::new(Policy::new(
            |flow| if flow.destination.ip() == IpAddr::V4(FAR) { Decision::Drop } else { Decision::Allow },
        ));
    assert_eq!(rig.sends(&up(FAR, 25, b"x")), DENIED);
    let rig =
        Rig::new(Policy::new(
            |flow| if flow.destination.ip() == IpAddr::V4(FAR) { Decision::Drop } else { Decision::Allow },
        ));
    let spoofed = down(FAR, 25, b"x");
    assert_eq!(rig.sends(&spoofed), None, "from FAR to the station, which the hook allows");
    assert!(rig.receives(&spoofed), "the host forwards it back");
    assert_eq!(rig.sends(&up(FAR, 25, b"x")), DENIED);
}

/// A flow that the hook refuses stays refused, whatever the other side sends and however long the
/// station waits.
#[test]
fn the_other_side_does_not_revive_a_flow_of_the_station() {
    let allowed = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let hook = allowed.clone();
    let decide = move |_: &Flow| if hook.load(Ordering::Relaxed) { Decision::Allow } else { Decision::Refuse };
    let mut rig = Rig::new(Policy::new(decide));
    let tcp = |src, dst, flags| ethernet([8, 0], &ip(src, dst, Proto::TCP, (0, false), &segment(7, 7, flags)));
    let (to, from) = (|flags| tcp(STATION, FAR, flags), |flags| tcp(FAR, STATION, flags));
    let syn_ack = tcp::Flags(tcp::Flags::SYN.0 | tcp::Flags::ACK.0);
    assert_eq!([rig.sends(&to(tcp::Flags::SYN)), rig.sends(&up(FAR, 53, b"x"))], [None, None]);
    assert!(rig.receives(&from(syn_ack)) && rig.receives(&down(FAR, 53, b"y")));
    allowed.store(false, Ordering::Relaxed);
    rig.policy.recheck();
    for seconds in [0, 31, 301, 10_000] {
        rig.wait(seconds);
        assert!(rig.receives(&from(tcp::Flags::ACK)) && rig.receives(&down(FAR, 53, b"y")));
        assert_eq!([rig.sends(&to(tcp::Flags::ACK)), rig.sends(&up(FAR, 53, b"x"))], [REFUSED; 2], "{seconds}");
    }
    // Nor does a SYN-ACK that the station did not ask for open one.
    assert!(rig.receives(&ethernet([8, 0], &ip(FAR, STATION, Proto::TCP, (0, false), &segment(25, 9, syn_ack)))));
    let reply = ethernet([8, 0], &ip(STATION, FAR, Proto::TCP, (0, false), &segment(9, 25, tcp::Flags::ACK)));
    assert_eq!(rig.sends(&reply), REFUSED);
    // A connection of the other side is allowed, until the station opens one with the same ports.
    assert!(
        rig.receives(&ethernet([8, 0], &ip(FAR, STATION, Proto::TCP, (0, false), &segment(80, 8, tcp::Flags::SYN))))
    );
    let station = |flags| ethernet([8, 0], &ip(STATION, FAR, Proto::TCP, (0, false), &segment(8, 80, flags)));
    assert_eq!([rig.sends(&station(syn_ack)), rig.sends(&station(tcp::Flags::SYN))], [None, REFUSED]);
    assert_eq!(rig.sends(&station(tcp::Flags::ACK)), REFUSED);
}

/// A station that sends itself a response, under the address of its server, gets no name by it.
#[test]
fn a_reflected_response_gives_no_name() {
    let rig = Rig::new(Policy::allow_all());
    let datagram_of =
        |src, dst, payload: &[u8]| ethernet([8, 0], &ip(src, dst, Proto::UDP, (0, false), &datagram(53, 53, payload)));
    let forged = datagram_of(FAR, STATION, &response("example.org", &[FAR]));
    assert_eq!(rig.sends(&datagram_of(STATION, FAR, b"query")), None);
    assert_eq!(rig.sends(&forged), None, "the hook allows it");
    assert!(rig.receives(&forged));
    assert_eq!(rig.policy.counts().names.get(), 0);
}

#[test]
fn a_decision_during_a_change_of_the_rules_is_made_again() {
    let policy = Arc::new(std::sync::OnceLock::<Policy>::new());
    let (inner, calls) = (policy.clone(), Arc::new(AtomicU64::new(0)));
    let made = Policy::new(move |_| {
        // The rules change while the first call decides by the old ones.
        match calls.fetch_add(1, Ordering::Relaxed) {
            0 => {
                inner.get().unwrap().recheck();
                Decision::Allow
            }
            _ => Decision::Refuse,
        }
    });
    policy.set(made.clone()).unwrap();
    let rig = Rig::new(made);
    assert_eq!(rig.sends(&up(FAR, 53, b"x")), None);
    assert_eq!(rig.sends(&up(FAR, 53, b"x")), REFUSED);
}

#[test]
fn a_connection_with_the_ports_of_a_closed_one_is_another_flow() {
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    let mut rig = Rig::new(Policy::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Decision::Allow
    }));
    let tcp = |src, dst, flags| ethernet([8, 0], &ip(src, dst, Proto::TCP, (0, false), &segment(7, 7, flags)));
    let (to, from) = (|flags| tcp(STATION, FAR, flags), |flags| tcp(FAR, STATION, flags));
    let syn_ack = tcp::Flags(tcp::Flags::SYN.0 | tcp::Flags::ACK.0);
    assert_eq!(rig.sends(&to(tcp::Flags::SYN)), None);
    // Forgotten after 30 s: neither a SYN alone nor its answer is a connection.
    rig.wait(31);
    assert_eq!(rig.sends(&to(tcp::Flags::SYN)), None);
    assert!(rig.receives(&from(syn_ack)));
    rig.wait(31);
    assert_eq!(rig.sends(&to(tcp::Flags::SYN)), None);
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert!(rig.receives(&from(syn_ack)));
    assert_eq!(rig.sends(&to(tcp::Flags::ACK)), None);
    rig.wait(7000);
    assert_eq!(rig.sends(&to(tcp::Flags::ACK)), None);
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert_eq!(rig.sends(&to(tcp::Flags::FIN)), None);
    assert!(rig.receives(&from(tcp::Flags::FIN)));
    assert_eq!(rig.sends(&to(tcp::Flags::ACK)), None);
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert_eq!(rig.sends(&to(tcp::Flags::SYN)), None);
    assert_eq!(asked.load(Ordering::Relaxed), 4);
    assert_eq!(rig.policy.flows()[0].sent.packets, 1);
}

#[test]
fn icmp_errors_pass_with_the_flow_that_they_are_about() {
    let rig =
        Rig::new(Policy::new(|flow| if flow.destination.port() == 53 { Decision::Allow } else { Decision::Drop }));
    let error_to = |to: Ipv4Addr, port: u16| {
        // From a router behind the port, about a datagram that was sent to the station.
        let quoted = ip(FAR, STATION, Proto::UDP, (0, false), &datagram(port, 1000, b"01234567"));
        let message = [&[icmp4::ty::UNREACHABLE, icmp4::unreachable::PORT, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
        ethernet([8, 0], &ip(Ipv4Addr::new(10, 0, 0, 9), to, Proto::ICMP, (0, false), &message))
    };
    let error = |port| error_to(FAR, port);
    assert_eq!(rig.sends(&error(53)), DENIED);
    assert_eq!(rig.sends(&up(FAR, 53, b"x")), None);
    assert_eq!(rig.sends(&error(53)), None);
    assert_eq!(rig.sends(&error_to(Ipv4Addr::new(198, 51, 100, 9), 53)), DENIED, "to someone else");
    let quoted = ip(FAR, STATION, Proto::UDP, (0, false), &datagram(53, 1000, b"01234567"));
    let message = [&[icmp4::ty::UNREACHABLE, icmp4::unreachable::PORT, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
    assert_eq!(rig.sends(&ethernet([8, 0], &ip(STATION, FAR, Proto::ICMP, (0, true), &message))), DENIED, "a fragment");
    assert_eq!(rig.sends(&up(FAR, 54, b"x")), DENIED);
    assert_eq!(rig.sends(&error(54)), DENIED);
    assert_eq!(rig.policy.counts().errors.get(), 1, "the other error belongs to a flow that is denied");
}

#[test]
fn fragments_follow_their_first_one() {
    let rig =
        Rig::new(Policy::new(|flow| if flow.destination.port() == 53 { Decision::Allow } else { Decision::Drop }));
    let fragment = |offset, more, port: u16| {
        let first = datagram(1000, port, &[0; 8]);
        let payload = if offset == 0 { first } else { vec![0; 16] };
        ethernet([8, 0], &ip(STATION, FAR, Proto::UDP, (offset, more), &payload))
    };
    assert_eq!(rig.sends(&fragment(16, true, 0)), DENIED);
    assert_eq!(rig.policy.counts().fragments.get(), 1);
    assert_eq!([rig.sends(&fragment(0, true, 53)), rig.sends(&fragment(16, false, 0))], [None, None]);
    assert_eq!([rig.sends(&fragment(0, true, 54)), rig.sends(&fragment(16, false, 0))], [DENIED, DENIED]);
}

/// Returns a response to a query for `name`, with an A record for each of `addrs`.
fn response(name: &str, addrs: &[Ipv4Addr]) -> Vec<u8> {
    let mut message = Vec::new();
    dns::Query { id: 77, name: name.to_owned(), ty: dns::ty::A }.emit(&mut message).unwrap();
    (message[2], message[7]) = (0x80, addrs.len() as u8);
    for addr in addrs {
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]); // the name of the question; 60 s
        message.extend(addr.octets());
    }
    message
}

#[test]
fn names_come_from_responses_in_allowed_flows() {
    let [good, evil] = [Ipv4Addr::new(198, 51, 100, 1), Ipv4Addr::new(198, 51, 100, 2)];
    let server = Ipv4Addr::new(10, 0, 0, 1);
    let mut rig = Rig::new(Policy::new(move |flow| match (flow.destination.ip(), flow.name.as_deref()) {
        (addr, _) if addr == server => Decision::Allow,
        (_, Some("example.org")) => Decision::Allow,
        _ => Decision::Refuse,
    }));
    assert_eq!(rig.sends(&up(server, 53, b"query")), None);
    assert!(rig.receives(&down(server, 53, &response("Example.ORG", &[good]))));
    assert_eq!(rig.policy.counts().names.get(), 1);
    // A server that the hook does not allow, and a response from which a byte is missing.
    assert_eq!(rig.sends(&up(FAR, 53, b"query")), REFUSED);
    assert!(rig.receives(&down(FAR, 53, &response("example.org", &[evil]))));
    // A response that the station did not ask for.
    assert!(rig.receives(&down(Ipv4Addr::new(10, 0, 0, 3), 53, &response("example.org", &[evil]))));
    let damaged = response("example.org", &[evil]);
    assert!(rig.receives(&down(server, 53, &damaged[..damaged.len() - 1])));
    assert_eq!(rig.policy.counts().names.get(), 1);
    assert_eq!([rig.sends(&up(good, 443, b"x")), rig.sends(&up(evil, 443, b"x"))], [None, REFUSED]);
    assert_eq!(rig.policy.flows().iter().filter(|state| state.flow.name.as_deref() == Some("example.org")).count(), 1);
    // Known for five minutes, although the TTL is one minute.
    rig.wait(250);
    assert_eq!(rig.sends(&up(good, 444, b"x")), None);
    rig.wait(51);
    assert_eq!(rig.sends(&up(good, 445, b"x")), REFUSED);
}

#[test]
fn a_rate_limits_bytes_for_each_station_and_direction() {
    let len = up(FAR, 9, &[0; 958]).len() as u64;
    assert_eq!(len, 1000);
    let mut rig = Rig::new(Policy::allow_all().upload(Quota::rate(10_000).burst(5_000)));
    let send = |rig: &Rig, count: usize| (0..count).filter(|_| rig.sends(&up(FAR, 9, &[0; 958])).is_none()).count();
    assert_eq!(send(&rig, 20), 5);
    assert_eq!(rig.sends(&up(FAR, 9, &[0; 958])), QUOTA);
    assert!((0..20).all(|_| rig.receives(&down(FAR, 9, &[0; 958]))), "the other direction has no limit");
    let other = ethernet([8, 0], &ip(Ipv4Addr::new(10, 0, 0, 3), FAR, Proto::UDP, (0, false), &datagram(1, 9, b"")));
    assert_eq!(rig.sends(&other), None);
    // 10 kB a second: in ten seconds at most 105 packets of 1000 bytes.
    let mut admitted = 0;
    for _ in 0..100 {
        rig.now = rig.now.after(Duration::from_millis(100));
        admitted += send(&rig, 20);
    }
    assert_eq!(admitted, 100);
    assert_eq!(rig.policy.counts().over_rate.get(), 16 + 1900);
    // A packet larger than the burst passes whole.
    let rig = Rig::new(Policy::allow_all().upload(Quota::rate(1_000).burst(10)));
    assert_eq!(send(&rig, 2), 1);
    let rig = Rig::new(Policy::allow_all().upload(Quota::rate(0)));
    assert_eq!(send(&rig, 2), 0);
}

#[test]
fn a_total_is_never_exceeded() {
    let mut rig = Rig::new(Policy::allow_all().download(Quota::total(2_500)));
    let received = |rig: &Rig| (0..5).filter(|_| rig.receives(&down(FAR, 9, &[0; 958]))).count();
    assert_eq!((received(&rig), rig.policy.counts().over_total.get()), (2, 3));
    rig.wait(100_000);
    assert_eq!(received(&rig), 0);
    assert!(rig.policy.flows().is_empty(), "the flow of then is forgotten");
}

#[test]
fn a_full_table_of_flows_drops_new_ones_until_others_are_forgotten() {
    let mut rig = Rig::new(Policy::allow_all().max_flows(3));
    let sent =
        |rig: &Rig, ports: std::ops::Range<u16>| ports.map(|port| rig.sends(&up(FAR, port, b""))).collect::<Vec<_>>();
    assert_eq!(sent(&rig, 1..6), [None, None, None, DENIED, DENIED]);
    assert_eq!(sent(&rig, 1..4), [None, None, None]);
    assert_eq!(rig.policy.counts().flows_full.get(), 2);
    rig.wait(31); // nothing was received
    assert_eq!(sent(&rig, 4..8), [None, None, None, DENIED]);
}

#[test]
fn a_table_of_stations_is_bounded() {
    let mut rig = Rig::new(Policy::allow_all().max_flows(10_000).upload(Quota::rate(1_000_000)));
    let from = |rig: &Rig, station: u32| {
        let src = Ipv4Addr::from_bits(10 << 24 | station);
        rig.sends(&ethernet([8, 0], &ip(src, FAR, Proto::UDP, (0, false), &datagram(1, 9, b""))))
    };
    let limited = (0..SOURCES_MAX as u32 + 10).filter(|station| from(&rig, *station) == QUOTA).count();
    assert_eq!((limited as u64, rig.policy.counts().sources_full.get()), (10, 10));
    rig.wait(61);
    assert_eq!(from(&rig, 5000), None);
    // Addresses of one IPv6 prefix are one station, which a mapped table of addresses would not see.
    let six = |last: u16| std::net::IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
    let mut sources = Sources::new(Both { sent: Some(Quota::total(150)), received: None });
    assert!(sources.take(six(1), Direction::Sent, 100, rig.now).is_ok());
    assert_eq!(sources.take(six(2), Direction::Sent, 100, rig.now), Err(Exceeded::Total));
}

#[test]
fn frames_that_the_port_did_not_accept_are_not_counted_twice() {
    let rig = Rig::new(Policy::allow_all().download(Quota::total(2_000)));
    let mut burst = Burst::new();
    for _ in 0..3 {
        burst.push(rig.frame(&down(FAR, 9, &[0; 958]))).unwrap();
    }
    assert_eq!(rig.policy.limit(&mut burst, 0, rig.now), 1);
    assert_eq!(rig.policy.limit(&mut burst, 2, rig.now), 0);
    assert_eq!(burst.len(), 2);
}

#[test]
fn seeds_hold_the_invariants() {
    let record = |kind: u8, frame: Vec<u8>| [&[kind][..], &(frame.len() as u16).to_be_bytes(), &frame].concat();
    let fragment = |offset, more| {
        let payload = if offset == 0 { datagram(1000, 54, &[0; 8]) } else { vec![0; 16] };
        ethernet([8, 0], &ip(STATION, FAR, Proto::UDP, (offset, more), &payload))
    };
    let tcp = |flags| ethernet([8, 0], &ip(STATION, FAR, Proto::TCP, (0, false), &segment(1, 2, flags)));
    let seeds = [
        ("names", vec![record(0, up(FAR, 54, b"query")), record(1, down(FAR, 53, &response("example.org", &[FAR])))]),
        ("fragments", vec![record(0, fragment(0, true)), record(0, fragment(16, false))]),
        (
            "segments",
            vec![record(0, tcp(tcp::Flags::SYN)), record(0, tcp(tcp::Flags::FIN)), record(255, tcp(tcp::Flags::RST))],
        ),
        ("flows", (0..12).map(|port| record(port as u8 * 16, up(FAR, port, &[0; 900]))).collect()),
    ];
    let seeds = seeds.map(|(name, records)| (name, records.concat()));
    hold_bytes("node_policy", &seeds, crate::fuzz::policy);
}
