//! Conversations about TCP over IPv6: RFC 9293, RFC 3493, RFC 4007, RFC 8201, RFC 6437.

use crate::common::packets::*;
use crate::common::six::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::ip4::OutputError;
use linerate_inet::tcp::TcpError;
use linerate_inet::udp::Domain;
use linerate_inet::zone;
use lock::Locks;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use wire::icmp6::{Problem, unreachable};
use wire::ip6::ALL_NODES;
use wire::tcp::Flags;
use wire::{Mac, Proto, tcp};

conversations! {
    a_connection_opens_carries_text_and_closes
    connections_to_one_peer_have_their_own_labels_and_options
    cached_headers_are_not_shared_between_families
    a_listener_of_any_address_accepts_both_families
    a_listener_of_ipv6_alone_leaves_ipv4_to_others
    a_listener_offers_the_mss_of_its_family
    a_cookie_opens_a_connection
    closed_ports_are_reset_and_groups_are_not_answered
    malformed_segments_are_dropped
    link_local_peers_belong_to_their_link
    an_error_ends_a_handshake_and_a_lower_path_mtu_reduces_segments
    segments_with_extension_headers_or_in_fragments_are_accepted
    a_mapped_address_is_reached_by_ipv4
    invalid_bind_and_connect_addresses_are_rejected
    a_host_connects_to_itself
}

const ACK: Flags = Flags::ACK;

fn open<L: Locks>(h: &Host<L>, domain: Domain) -> usize {
    h.stack.tcp_open(h.cx(), domain).unwrap()
}

fn listen<L: Locks>(h: &Host<L>, at: impl Into<SocketAddr>) -> usize {
    let at = at.into();
    let id = open(h, Domain::of(&at));
    h.stack.tcp_bind(h.cx(), id, at).unwrap();
    h.stack.tcp_listen(h.cx(), id, 8).unwrap();
    id
}

/// Returns the segment that was sent: IPv6 header, TCP header, data.
#[track_caller]
fn segment<L: Locks>(h: &Host<L>, iface: linerate_inet::iface::IfaceId) -> (wire::ip6::Header, tcp::Header, Vec<u8>) {
    let (_, header, payload) = h.sent6_one(iface);
    let (segment, _, text) = tcp6_of(&header, &payload);
    (header, segment, text)
}

/// Performs the handshake of a peer's connection to port 80 of this host. Returns our next sequence
/// number and the peer's.
fn handshake<L: Locks>(h: &Host<L>, from: (Ipv6Addr, u16), to: Ipv6Addr) -> (u32, u32) {
    let mss = [2, 4, 0x05, 0xa0]; // MSS 1440
    h.inject(EM0, tcp6(from, (to, 80), |_| (), &mss, b"").between(PEER6, ME6));
    let (_, synack, _) = segment(h, EM0);
    assert_eq!((synack.flags, synack.ack), (Flags::SYN | ACK, 1001));
    let ack =
        |header: &mut tcp::Header| (header.seq, header.ack, header.flags) = (1001, synack.seq.wrapping_add(1), ACK);
    h.inject(EM0, tcp6(from, (to, 80), ack, &[], b"").between(PEER6, ME6));
    (synack.seq.wrapping_add(1), 1001)
}

fn a_connection_opens_carries_text_and_closes<L: Locks>() {
    let (a, b) = (Host::<L>::six(), Host::<L>::bare(512, 2));
    let em0 = b.add_iface("em0", PEER, 1500);
    b.stack.add_addr6(b.cx(), em0, linerate_inet::ip6::IfaceAddr6::new(PEER6.ip, 64)).unwrap();
    b.advance_secs(2);
    b.sent(em0);
    let listener = listen(&b, any6(80));
    let client = open(&a, Domain::Inet6);
    assert_eq!(a.stack.tcp_connect(a.cx(), client, (PEER6.ip, 80).into()), Ok(()));
    pump(&a, &b);
    let (server, peer) = b.stack.tcp_accept(b.cx(), listener).unwrap();
    assert_eq!(peer.ip(), std::net::IpAddr::from(ME6.ip));
    let shown = |h: &Host<L>, id| h.stack.with_sock(h.cx(), id, |sock| (sock.local_addr(), sock.peer_addr())).unwrap();
    assert_eq!(shown(&b, server), ((PEER6.ip, 80).into(), peer));
    assert_eq!(shown(&a, client), (peer, (PEER6.ip, 80).into()));
    let text: Vec<u8> = (0..40_000u32).map(|n| (n * 7 + (n >> 8)) as u8).collect();
    for (from, sender, to, receiver) in [(&a, client, &b, server), (&b, server, &a, client)] {
        let (mut sent, mut got) = (0, Vec::<u8>::new());
        let mut into = [0; 8192];
        while got.len() < text.len() {
            sent += from.stack.tcp_send(from.cx(), sender, &text[sent..], true).unwrap_or(0);
            pump(&a, &b);
            a.advance(Duration::from_millis(50));
            b.advance(Duration::from_millis(50));
            pump(&a, &b);
            while let Ok(n) = to.stack.tcp_recv(to.cx(), receiver, &mut into) {
                got.extend(&into[..n]);
            }
        }
        assert!(got == text);
    }
    a.stack.tcp_close(a.cx(), client, false);
    pump(&a, &b);
    assert_eq!(b.stack.tcp_recv(b.cx(), server, &mut [0; 8]), Ok(0));
    b.stack.tcp_close(b.cx(), server, false);
    pump(&a, &b);
    assert_eq!((a.stack.tcp_time_wait_count(a.cx()), b.stack.tcp_time_wait_count(b.cx())), (1, 0));
    a.audit();
    b.audit();
}

// RFC 6437 2: a label belongs to one flow. The headers of connections to one peer are copied from
// those of the previous connection.
fn connections_to_one_peer_have_their_own_labels_and_options<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let mut labels = Vec::new();
    let second = "fd00::1:1".parse().unwrap();
    h.stack.sysctls.dad_count.set(0);
    h.stack.add_addr6(h.cx(), EM0, linerate_inet::ip6::IfaceAddr6::new(second, 64)).unwrap();
    h.sent(EM0);
    let (me, none) = (ME6.ip, None);
    for (own, ttl, tos) in
        [(me, none, 0), (me, none, 0), (second, none, 0), (me, Some(32), 0), (me, none, 0xb8), (me, none, 0)]
    {
        let client = open(&h, Domain::Inet6);
        h.stack.tcp_bind(h.cx(), client, (own, 0).into()).unwrap();
        h.stack.tcp_set_options(h.cx(), client, |options| (options.ttl, options.tos) = (ttl, tos)).unwrap();
        h.stack.tcp_connect(h.cx(), client, (PEER6.ip, 80).into()).unwrap();
        let (link, header, syn) = {
            let (link, header, payload) = h.sent6_one(EM0);
            (link, header, tcp6_of(&header, &payload).0)
        };
        assert_eq!((link.dst, link.src, header.src, header.dst), (PEER6.mac, ME6.mac, own, PEER6.ip));
        assert_eq!(
            (header.hop_limit, header.traffic_class, syn.flags.contains(Flags::SYN)),
            (ttl.unwrap_or(64), tos, true)
        );
        labels.push(header.flow_label);
        // A retransmission has the same label.
        h.advance(Duration::from_secs(4));
        assert!(h.sent6(EM0).iter().all(|(_, again, _)| again.flow_label == header.flow_label));
        h.stack.tcp_close(h.cx(), client, true);
        h.sent(EM0);
    }
    labels.sort_unstable();
    assert!(labels.windows(2).all(|two| two[0] != two[1]) && !labels.contains(&0), "{labels:x?}");
    h.audit();
}

// The bytes of the IPv6 source address are chosen to look like an IPv4 header: at its offsets are
// the TTL and both IPv4 addresses.
fn cached_headers_are_not_shared_between_families<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    h.stack.sysctls.auto_flowlabel.set(0);
    h.stack.sysctls.dad_count.set(0);
    let (own, far) = ("2001:db8:a00:1:a00:2:0:1".parse().unwrap(), "2001:db8:a00:1::a00:2".parse().unwrap());
    h.stack.add_addr6(h.cx(), EM0, linerate_inet::ip6::IfaceAddr6::new(own, 64)).unwrap();
    h.stack.set_neighbor6(h.cx(), EM0, far, PEER6.mac);
    h.sent(EM0);
    for (domain, to, ethertype) in [
        (Domain::Inet6, (far, 80).into(), [0x86, 0xdd]),
        (Domain::Inet, at(PEER, 80), [8, 0]),
        (Domain::Inet6, (far, 80).into(), [0x86, 0xdd]),
    ] {
        let client = open(&h, domain);
        h.stack.tcp_set_options(h.cx(), client, |options| options.ttl = Some(0x20)).unwrap();
        h.stack.tcp_connect(h.cx(), client, to).unwrap();
        let frame = h.sent_one(EM0);
        assert_eq!(frame[12..14], ethertype, "{to}");
    }
    h.audit();
}

fn a_listener_of_any_address_accepts_both_families<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let listener = listen(&h, any6(80));
    handshake(&h, (PEER6.ip, 5000), ME6.ip);
    let syn = tcp_segment((PEER.ip, 5000), (ME.ip, 80), |_| (), b"");
    h.inject(EM0, Ip::new(PEER.ip, ME.ip, Proto::TCP, syn).between(PEER, ME));
    let frame = h.sent_one(EM0);
    let (_, header, segment) = ip_of(&frame);
    let synack = tcp::Header::parse(segment).unwrap();
    assert_eq!((header.dst, synack.flags), (PEER.ip, Flags::SYN | ACK));
    let ack =
        |header: &mut tcp::Header| (header.seq, header.ack, header.flags) = (1001, synack.seq.wrapping_add(1), ACK);
    let ack = tcp_segment((PEER.ip, 5000), (ME.ip, 80), ack, b"");
    h.inject(EM0, Ip::new(PEER.ip, ME.ip, Proto::TCP, ack).between(PEER, ME));
    let accepted = || h.stack.tcp_accept(h.cx(), listener).unwrap();
    let (six, four) = (accepted(), accepted());
    assert_eq!((six.1, four.1), ((PEER6.ip, 5000).into(), (PEER.ip.to_ipv6_mapped(), 5000).into()));
    let local = |id| h.stack.with_sock(h.cx(), id, |sock| sock.local_addr()).unwrap();
    assert_eq!((local(six.0), local(four.0)), ((ME6.ip, 80).into(), (ME.ip.to_ipv6_mapped(), 80).into()));
    // The port is in use in both families. Afterwards it is free in both.
    let other = open(&h, Domain::Inet);
    assert_eq!(h.stack.tcp_bind(h.cx(), other, any(80)), Err(TcpError::InUse));
    [six.0, four.0, listener].into_iter().for_each(|id| assert!(h.stack.tcp_close(h.cx(), id, true)));
    h.sent(EM0);
    assert!(h.stack.tcp_bind(h.cx(), other, any(80)).is_ok());
    h.audit();
}

fn a_listener_of_ipv6_alone_leaves_ipv4_to_others<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let six = open(&h, Domain::Inet6);
    h.stack.tcp_set_options(h.cx(), six, |options| options.v6only = true).unwrap();
    h.stack.tcp_bind(h.cx(), six, any6(80)).unwrap();
    h.stack.tcp_listen(h.cx(), six, 8).unwrap();
    let syn = || Ip::new(PEER.ip, ME.ip, Proto::TCP, tcp_segment((PEER.ip, 5000), (ME.ip, 80), |_| (), b""));
    h.inject(EM0, syn().between(PEER, ME));
    assert!(tcp::Header::parse(ip_of(&h.sent_one(EM0)).2).unwrap().flags.contains(Flags::RST));
    let four = listen(&h, any(80));
    h.inject(EM0, syn().between(PEER, ME));
    assert_eq!(tcp::Header::parse(ip_of(&h.sent_one(EM0)).2).unwrap().flags, Flags::SYN | ACK);
    handshake(&h, (PEER6.ip, 5000), ME6.ip);
    assert_eq!(h.stack.tcp_accept(h.cx(), four), Err(TcpError::WouldBlock));
    assert_eq!(h.stack.tcp_accept(h.cx(), six).unwrap().1, (PEER6.ip, 5000).into());
    h.audit();
}

fn a_listener_offers_the_mss_of_its_family<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    listen(&h, any6(80));
    let mss = |options: &[u8]| u16::from_be_bytes([options[2], options[3]]);
    h.inject(EM0, tcp6((PEER6.ip, 5000), (ME6.ip, 80), |_| (), &[], b"").between(PEER6, ME6));
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!(mss(&tcp6_of(&header, &payload).1), 1440);
    h.advance_secs(2);
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!(mss(&tcp6_of(&header, &payload).1), 1440, "said again");
    let syn = tcp_segment((PEER.ip, 5000), (ME.ip, 80), |_| (), b"");
    h.inject(EM0, Ip::new(PEER.ip, ME.ip, Proto::TCP, syn).between(PEER, ME));
    assert_eq!(mss(&ip_of(&h.sent_one(EM0)).2[20..]), 1460);
    let client = open(&h, Domain::Inet6);
    h.stack.tcp_connect(h.cx(), client, (PEER6.ip, 7).into()).unwrap();
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!(mss(&tcp6_of(&header, &payload).1), 1440);
    assert_ne!(header.flow_label, 0);
    h.audit();
}

fn a_cookie_opens_a_connection<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    h.stack.sysctls.tcp_syncookies.set(2);
    let listener = listen(&h, any6(80));
    let (ours, theirs) = handshake(&h, (PEER6.ip, 5000), ME6.ip);
    let (server, _) = h.stack.tcp_accept(h.cx(), listener).unwrap();
    let text = |header: &mut tcp::Header| (header.seq, header.ack, header.flags) = (theirs, ours, ACK | Flags::PSH);
    h.inject(EM0, tcp6((PEER6.ip, 5000), (ME6.ip, 80), text, &[], b"text").between(PEER6, ME6));
    assert_eq!(h.stack.tcp_recv(h.cx(), server, &mut [0; 8]), Ok(4));
    // A segment from another address belongs to no connection.
    h.sent(EM0);
    h.inject(EM0, tcp6((OTHER6.ip, 5000), (ME6.ip, 80), text, &[], b"text").between(OTHER6, ME6));
    assert_eq!(h.stack.tcp_accept(h.cx(), listener), Err(TcpError::WouldBlock));
    h.sent(EM0);
    h.audit();
}

fn closed_ports_are_reset_and_groups_are_not_answered<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    h.inject(EM0, tcp6((PEER6.ip, 5000), (ME6.ip, 81), |_| (), &[], b"").between(PEER6, ME6));
    let (header, reset, _) = segment(&h, EM0);
    assert_eq!((header.src, header.dst), (ME6.ip, PEER6.ip));
    assert_eq!((reset.flags, reset.ack, reset.seq), (Flags::RST | ACK, 1001, 0));
    h.forget_counters();
    listen(&h, any6(80));
    let to_all = tcp6((PEER6.ip, 5000), (ALL_NODES, 80), |_| (), &[], b"");
    h.inject(EM0, to_all.frame(Mac::multicast6(ALL_NODES), PEER6.mac));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, tcp.in.received 1, tcp.in.group 1");
    h.stack.sysctls.tcp_blackhole.set(1);
    h.inject(EM0, tcp6((PEER6.ip, 5000), (ME6.ip, 81), |_| (), &[], b"").between(PEER6, ME6));
    h.sent_nothing(EM0);
    h.audit();
}

fn malformed_segments_are_dropped<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    listen(&h, any6(80));
    let syn = || tcp6((PEER6.ip, 5000), (ME6.ip, 80), |_| (), &[], b"");
    let mut wrong = syn();
    wrong.payload[4] ^= 1;
    let mut short = syn();
    short.payload.truncate(19);
    short.header.payload_len = 19;
    let zero = tcp6((PEER6.ip, 0), (ME6.ip, 80), |_| (), &[], b"");
    for (packet, why) in [(wrong, "bad_checksum"), (short, "malformed"), (zero, "port_zero")] {
        h.forget_counters();
        h.inject(EM0, packet.between(PEER6, ME6));
        h.assert_counters(&format!("in 1, ip6.received 1, ip6.delivered 1, tcp.in.received 1, tcp.in.{why} 1"));
    }
    h.audit();
}

fn link_local_peers_belong_to_their_link<L: Locks>() {
    let h = Host::<L>::router6();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.near, PEER6.mac);
    h.stack.set_neighbor6(h.cx(), EM1, PEER6.near, FAR6.mac);
    let listener = listen(&h, any6(80));
    let from = (PEER6.near, 5000);
    h.inject(EM0, tcp6(from, (ME6.near, 80), |_| (), &[], b"").between(PEER6, ME6));
    h.inject(EM1, tcp6(from, (MY6.near, 80), |_| (), &[], b"").between(FAR6, MY6));
    for (iface, six, own) in [(EM0, PEER6, ME6), (EM1, FAR6, MY6)] {
        let (header, synack, _) = segment(&h, iface);
        assert_eq!((header.src, header.dst), (own.near, PEER6.near));
        let ack = |header: &mut tcp::Header| {
            (header.seq, header.ack, header.flags) = (1001, synack.seq.wrapping_add(1), ACK);
        };
        h.inject(iface, tcp6(from, (own.near, 80), ack, &[], b"").between(six, own));
        let scoped = SocketAddrV6::new(PEER6.near, 5000, 0, zone::scope_id(iface));
        let (server, peer) = h.stack.tcp_accept(h.cx(), listener).unwrap();
        assert_eq!(peer, scoped.into());
        h.stack.tcp_send(h.cx(), server, b"x", true).unwrap();
        assert_eq!(segment(&h, iface).2, b"x");
        h.stack.tcp_close(h.cx(), server, true);
        h.sent(iface);
    }
    let client = open(&h, Domain::Inet6);
    let plain = SocketAddr::from((PEER6.near, 7));
    assert_eq!(h.stack.tcp_connect(h.cx(), client, plain), Err(TcpError::Output(OutputError::NoRoute)));
    let scoped = SocketAddrV6::new(PEER6.near, 7, 0, zone::scope_id(EM1));
    assert_eq!(h.stack.tcp_connect(h.cx(), client, scoped.into()), Ok(()));
    assert_eq!(segment(&h, EM1).0.src, MY6.near);
    h.audit();
}

fn an_error_ends_a_handshake_and_a_lower_path_mtu_reduces_segments<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let client = open(&h, Domain::Inet6);
    h.stack.tcp_connect(h.cx(), client, (PEER6.ip, 7).into()).unwrap();
    let frame = h.sent_one(EM0);
    let port = Problem::Unreachable { code: unreachable::PORT };
    h.inject(EM0, error6(PEER6.ip, ME6.ip, port, &frame[14..]).between(PEER6, ME6));
    assert_eq!(h.stack.with_sock(h.cx(), client, |sock| sock.take_error()), Some(Some(TcpError::Refused)));
    let listener = listen(&h, any6(80));
    let (ours, _) = handshake(&h, (PEER6.ip, 5000), ME6.ip);
    let (server, _) = h.stack.tcp_accept(h.cx(), listener).unwrap();
    let wide =
        |header: &mut tcp::Header| (header.seq, header.ack, header.flags, header.window) = (1001, ours, ACK, 60_000);
    h.inject(EM0, tcp6((PEER6.ip, 5000), (ME6.ip, 80), wide, &[], b"").between(PEER6, ME6));
    // A router on the path has a smaller MTU, so retransmitted segments are shorter. An error with
    // an MTU below the minimum of IPv6 links is ignored (RFC 8201 4), and so is an error about data
    // that is not in flight (RFC 5927 4.1).
    h.stack.tcp_send(h.cx(), server, &[7; 6000], true).unwrap();
    let longest = |sent: &[(wire::eth::Header, wire::ip6::Header, Vec<u8>)]| {
        sent.iter().map(|(_, header, _)| 40 + header.payload_len).max().unwrap_or(0)
    };
    let sent = h.sent6(EM0);
    assert_eq!(longest(&sent), 1500);
    let too_big = |mtu, quoted: &[u8]| {
        h.inject(EM0, error6(PEER6.ip, ME6.ip, Problem::TooBig { mtu }, quoted).between(PEER6, ME6));
        h.advance_secs(3);
        longest(&h.sent6(EM0))
    };
    let (first, mut other) = (ip_bytes(&sent[0]), ip_bytes(&sent[0]));
    other[40 + 4] ^= 0x80;
    assert_eq!(too_big(500, &first), 1500, "no path");
    assert_eq!(too_big(1300, &other), 1500, "the quoted data is not in flight");
    assert_eq!(too_big(1300, &first), 1300);
    h.stack.tcp_close(h.cx(), server, true);
    h.sent(EM0);
    h.audit();
}

fn ip_bytes((_, header, payload): &(wire::eth::Header, wire::ip6::Header, Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0; wire::ip6::HEADER_LEN];
    header.emit(out.first_chunk_mut().unwrap());
    out.extend_from_slice(payload);
    out
}

fn segments_with_extension_headers_or_in_fragments_are_accepted<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let listener = listen(&h, any6(80));
    let (ours, theirs) = handshake(&h, (PEER6.ip, 5000), ME6.ip);
    let (server, _) = h.stack.tcp_accept(h.cx(), listener).unwrap();
    let (text, mut at) = ([5; 300], theirs);
    let mut next = || {
        let seq = at;
        at += 300;
        let change = move |header: &mut tcp::Header| (header.seq, header.ack, header.flags) = (seq, ours, ACK);
        tcp6((PEER6.ip, 5000), (ME6.ip, 80), change, &[], &text)
    };
    let options = next().with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]);
    let many =
        (0..5).fold(next(), |packet, _| packet.with(Proto::DEST_OPTIONS, &[&[0, 4, 1, 36][..], &[0; 36]].concat()));
    let cut = next();
    for packet in [options, many, cut.fragment(1, 0, 160), cut.fragment(1, 160, 160)] {
        h.inject(EM0, packet.between(PEER6, ME6));
    }
    let mut into = [0; 1000];
    assert_eq!(h.stack.tcp_recv(h.cx(), server, &mut into), Ok(900));
    assert!(into[..900].iter().all(|byte| *byte == 5));
    h.sent(EM0);
    h.audit();
}

fn a_mapped_address_is_reached_by_ipv4<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let client = open(&h, Domain::Inet6);
    h.stack.tcp_connect(h.cx(), client, (PEER.ip.to_ipv6_mapped(), 7).into()).unwrap();
    assert_eq!(ip_of(&h.sent_one(EM0)).1.dst, PEER.ip);
    let shown = h.stack.with_sock(h.cx(), client, |sock| (sock.local_addr(), sock.peer_addr())).unwrap();
    assert_eq!((shown.0.ip(), shown.1), (ME.ip.to_ipv6_mapped().into(), (PEER.ip.to_ipv6_mapped(), 7).into()));
    let other = open(&h, Domain::Inet6);
    h.stack.tcp_set_options(h.cx(), other, |options| options.v6only = true).unwrap();
    let mapped = SocketAddr::from((PEER.ip.to_ipv6_mapped(), 7));
    assert_eq!(h.stack.tcp_connect(h.cx(), other, mapped), Err(TcpError::Invalid));
    h.audit();
}

fn invalid_bind_and_connect_addresses_are_rejected<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let six = open(&h, Domain::Inet6);
    let bind = |addr: SocketAddr| h.stack.tcp_bind(h.cx(), six, addr);
    assert_eq!(bind((PEER6.ip, 9).into()), Err(TcpError::NotOurs));
    assert_eq!(bind((ALL_NODES, 9).into()), Err(TcpError::NotOurs));
    assert_eq!(bind((ME6.near, 9).into()), Err(TcpError::NotOurs), "a link-local address without a zone");
    assert_eq!(bind((Ipv4Addr::UNSPECIFIED, 9).into()), Err(TcpError::Family));
    let connect = |addr: SocketAddr| h.stack.tcp_connect(h.cx(), six, addr);
    assert_eq!(connect((ALL_NODES, 9).into()), Err(TcpError::Invalid));
    assert_eq!(connect((PEER6.ip, 0).into()), Err(TcpError::Invalid));
    assert_eq!(connect((PEER.ip, 9).into()), Err(TcpError::Family));
    let four = open(&h, Domain::Inet);
    assert_eq!(h.stack.tcp_connect(h.cx(), four, (PEER6.ip, 9).into()), Err(TcpError::Family));
    assert_eq!(bind((ME6.ip, 9).into()), Ok((ME6.ip, 9).into()));
    assert_eq!(connect((PEER.ip.to_ipv6_mapped(), 9).into()), Err(TcpError::Family), "bound to IPv6");
    h.audit();
}

fn a_host_connects_to_itself<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let listener = listen(&h, any6(80));
    for to in [SocketAddr::from((ME6.ip, 80)), SocketAddrV6::new(ME6.near, 80, 0, zone::scope_id(EM0)).into()] {
        let client = open(&h, Domain::Inet6);
        h.stack.tcp_connect(h.cx(), client, to).unwrap();
        h.pass(Duration::from_millis(10));
        let (server, peer) = h.stack.tcp_accept(h.cx(), listener).unwrap();
        assert_eq!(peer.ip(), to.ip());
        h.stack.tcp_send(h.cx(), client, b"me", true).unwrap();
        h.pass(Duration::from_millis(10));
        assert_eq!(h.stack.tcp_recv(h.cx(), server, &mut [0; 8]), Ok(2));
    }
    h.sent_nothing(EM0);
    h.audit();
}
