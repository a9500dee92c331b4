//! Invariants for arbitrary bytes: the bodies of the fuzz targets. The unit tests run them too.
//!
//! Each function takes arbitrary bytes and panics only if an invariant of this crate is broken.
//! `cargo xtask fuzz` calls them with the corpora under `fuzz/corpus/wire_*`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken invariant must panic; built for tests and fuzzing only"
)]

use crate::checksum::{self, Kind, Partial};
use crate::control::ControlClass;
use crate::eth::EtherType;
use crate::filter::Filter;
use crate::flow::whose::{Fragments, flow, peer};
use crate::icmp6::{self, nd};
use crate::{Malformed, Proto, arp, bpdu, dissect as dissector, eth, etherip, gre, gso, icmp4, igmp, ip4, ip6, mld};
use crate::{tcp, udp, vlan, vxlan};
use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};

/// Checks that a DNS response is parsed or rejected without a panic. The query is taken from the
/// question of the response. A valid parsed name can be used in a query again, and chains of
/// aliases end.
pub fn dns(data: &[u8]) {
    crate::dns::names(data).iter().for_each(|name| assert!(crate::dns::is_name(name)));
    let Some(requested) = crate::dns::Query::of_message(data) else { return };
    let Ok(answer) = requested.parse_answer(data) else { return };
    // A name has at most 255 octets, each shown in at most four characters.
    assert!(answer.records.iter().all(|record| record.name.len() <= 4 * 255));
    for record in &answer.records {
        let mut query = Vec::new();
        if (crate::dns::Query { id: 1, name: record.name.clone(), ty: 1 }).emit(&mut query).is_some() {
            assert!(query.len() <= 12 + 255 + 5);
        }
        assert!(answer.addresses(&record.name).0.len() <= answer.records.len());
    }
}

/// Checks that a stream of FPM is split and parsed or rejected without a panic.
///
/// Invariants: the frames before the end of the stream are those that [`crate::fpm::whole_frames`]
/// counts; a prefix is no longer than its address; paths and members are found again.
pub fn fpm(data: &[u8]) {
    use crate::fpm::{FRAME_MAX, HEADER_LEN, split, whole_frames};
    use crate::rtnetlink::{Message, NextHop, messages};
    let (mut rest, whole) = (data, whole_frames(data).unwrap_or_else(|(whole, _)| whole));
    while let Ok(Some(frame)) = split(&mut rest) {
        assert!(frame.len() + HEADER_LEN <= FRAME_MAX);
        for message in messages(frame).filter_map(Result::ok) {
            let (Message::NewRoute(route) | Message::DelRoute(route)) = message else { continue };
            assert!(route.dst_len <= if route.dst.is_ipv4() { 32 } else { 128 });
            let NextHop::Multipath(paths) = route.to else { continue };
            assert!(paths.paths().all(|(_, weight)| (1..=256).contains(&weight)));
        }
    }
    assert_eq!(data.len() - rest.len(), whole);
}

/// Runs every parser on a frame, layer by layer as in a host. Also runs the parsers of each layer
/// on all bytes of the frame, regardless of its headers.
///
/// Invariants: no panic; a view never exceeds its bytes; parse, emit and parse again gives the same
/// value.
pub fn frame(data: &[u8]) {
    if let Ok(header) = eth::Header::parse(data) {
        let mut out = [0; eth::HEADER_LEN];
        header.emit(&mut out);
        assert_eq!(out, data[..eth::HEADER_LEN]);
        after_eth(&data[eth::HEADER_LEN..]);
        let class = ControlClass::of_frame(header.ethertype, &data[eth::HEADER_LEN..]);
        assert!(!matches!(header.ethertype, EtherType::IPV4 | EtherType::IPV6) || class.is_none());
    }
    after_eth(data);
    whose(data);
    let _ = crate::bfd::Packet::parse(data);
    let is_whole = ip4::Header::parse(data).is_ok() || ip6::Header::parse(data).is_ok();
    assert!(is_whole || ControlClass::of_packet(data).is_none());
}

/// Checks the conversation hashes of a packet of either IP version: a repeated call returns the
/// same hash, and `flow` returns a hash exactly if `peer` does.
fn whose(data: &[u8]) {
    let _ = crate::flow::whose::is_for_all(data);
    let (key, mut fragments) = (crate::hash::Key::seeded(1), Fragments::default());
    for from in [0, eth::HEADER_LEN] {
        let packet = data.get(from..).unwrap_or_default();
        let of = flow(key, packet, &mut fragments);
        assert_eq!(flow(key, packet, &mut fragments), of);
        assert_eq!(peer(key, packet).is_some(), of.is_some());
    }
}

/// Runs the parsers of all protocols that may follow an Ethernet header, regardless of its
/// EtherType.
fn after_eth(data: &[u8]) {
    if let Ok(tag) = vlan::Tag::parse(data) {
        let mut out = [0; vlan::TAG_LEN];
        tag.emit(&mut out);
        assert_eq!(out, data[..vlan::TAG_LEN]);
    }
    if let Ok(packet) = arp::Packet::parse(data) {
        assert_eq!(packet.emit(), data[..arp::PACKET_LEN]);
    }
    bpdu(data);
    packet4(data);
    packet6(data);
    upper(data);
    large(data);
}

/// Splits a large TCP segment over IPv4 or IPv6. Checks that each piece is a packet with at most
/// the requested payload, and that together the pieces contain the whole payload.
fn large(data: &[u8]) {
    let size = u16::from_be_bytes([0, data.last().copied().unwrap_or(0)]);
    let Some(mut segment) = gso::Segment::read(data, 0, size) else { return };
    let (l4, text) = segment.places();
    let end = packet_of(data).0;
    let mut cut = 0;
    while let Some(len) = segment.next_len() {
        assert!(len <= segment.longest() && len - text <= usize::from(size));
        let mut piece = vec![0; len];
        segment.cut(data, &mut piece).unwrap();
        let (ends, pseudo) = packet_of(&piece);
        assert!(ends == len && tcp::checksum_ok(pseudo((len - l4) as u16), &piece[l4..]));
        assert!(ip6::is_version(&piece) || ip4::header_checksum_ok(&piece, l4));
        assert_eq!(piece[text..], data[text + cut..][..len - text]);
        cut += len - text;
    }
    assert_eq!((cut, segment.is_done()), (end - text, true));
}

/// Returns the offset of the end of a TCP packet over IPv4 or IPv6, and a function that returns the
/// sum of the pseudo header for a segment of a given length.
fn packet_of(packet: &[u8]) -> (usize, impl Fn(u16) -> Partial) {
    let (end, [src, dst]): (usize, [IpAddr; 2]) = if ip6::is_version(packet) {
        let ip = ip6::Header::parse(packet).unwrap();
        (ip6::HEADER_LEN + usize::from(ip.payload_len), [ip.src.into(), ip.dst.into()])
    } else {
        let ip = ip4::Header::parse(packet).unwrap();
        (ip.total_len.into(), [ip.src.into(), ip.dst.into()])
    };
    let pseudo = move |len: u16| match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Partial::pseudo4(src, dst, Proto::TCP, len),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Partial::pseudo6(src, dst, Proto::TCP, len.into()),
        _ => unreachable!("both have the same IP version"),
    };
    (end, pseudo)
}

fn bpdu(data: &[u8]) {
    for bpdu in [bpdu::Bpdu::parse_llc(data), bpdu::Bpdu::parse(data)].into_iter().flatten() {
        let frame = bpdu.emit_frame(eth::Mac::ZERO);
        assert_eq!(bpdu::Bpdu::parse_frame(&frame), Ok(bpdu));
    }
}

fn packet4(data: &[u8]) {
    let Ok(header) = ip4::Header::parse(data) else { return };
    assert!((20..=60).contains(&header.ihl_len) && header.ihl_len <= usize::from(header.total_len));
    assert_eq!(header.payload(data).len(), usize::from(header.total_len) - header.ihl_len);
    assert!(header.options(data).count() <= 40);
    let naive = naive(&data[..header.ihl_len]) == 0xffff;
    assert_eq!(ip4::header_checksum_ok(data, header.ihl_len), naive);

    let mut copy = data.to_vec();
    header.emit(copy.first_chunk_mut().unwrap());
    ip4::fill_checksum(&mut copy[..header.ihl_len]);
    assert!(ip4::header_checksum_ok(&copy, header.ihl_len));
    let again = ip4::Header::parse(&copy).unwrap();
    assert_eq!(ip4::Header { checksum: 0, ..header }, ip4::Header { checksum: 0, ..again });
    assert_eq!(ip4::decrement_ttl(&mut copy), header.ttl.checked_sub(1));
    assert!(ip4::header_checksum_ok(&copy, header.ihl_len));
    upper(header.payload(data));
}

fn packet6(data: &[u8]) {
    let Ok(header) = ip6::Header::parse(data) else { return };
    assert_eq!(header.payload(data).len(), usize::from(header.payload_len));
    let mut out = [0; ip6::HEADER_LEN];
    header.emit(&mut out);
    assert_eq!(out, data[..ip6::HEADER_LEN]);
    let Ok(chain) = ip6::Chain::walk(&header, data) else { return };
    assert!(chain.extensions().count() <= ip6::MAX_EXTENSIONS);
    assert_eq!(chain.payload(&header, data).len(), chain.payload_len(&header));
    let end = chain.extensions().fold(ip6::HEADER_LEN, |offset, extension| {
        assert_eq!(extension.offset, offset);
        assert!(extension.options(data).is_none_or(|options| options.count() <= extension.len));
        offset + extension.len
    });
    assert_eq!(end, chain.offset);
    assert_eq!(data[chain.next_at], chain.upper.0);
    upper(chain.payload(&header, data));
}

/// Parses tunnel headers from any bytes that may follow an IP or a UDP header.
fn tunnels(data: &[u8]) {
    if let Ok(header) = gre::Header::parse(data) {
        let mut copy = data.to_vec();
        header.emit(&mut copy).unwrap();
        assert_eq!(gre::Header::parse(&copy), Ok(header));
        assert!(!header.has_checksum || gre::checksum_ok(&copy));
        assert_eq!(copy[header.header_len()..], data[header.header_len()..]);
    }
    if let Ok(header) = vxlan::Header::parse(data) {
        let mut out = [0; vxlan::HEADER_LEN];
        header.emit(&mut out);
        assert!(header.vni <= vxlan::VNI_MAX && vxlan::Header::parse(&out) == Ok(header));
    }
    if etherip::check(data).is_ok() {
        assert_eq!(data[..etherip::HEADER_LEN], etherip::HEADER);
    }
    let mut copy = data.to_vec();
    if let Ok(header) = ip4::Header::parse(data) {
        ip4::fill_checksum(&mut copy[..header.ihl_len]);
        ip4::set_tos(&mut copy, !header.tos).unwrap();
        assert!(ip4::header_checksum_ok(&copy, header.ihl_len) && copy[1] == !header.tos);
    }
}

/// Runs the parsers of all protocols that may follow an IP header, regardless of its protocol
/// field.
fn upper(data: &[u8]) {
    tunnels(data);
    if let Ok(header) = udp::Header::parse(data) {
        assert_eq!(header.payload(data).len() + udp::HEADER_LEN, usize::from(header.len));
        let mut out = [0; udp::HEADER_LEN];
        header.emit(&mut out);
        assert_eq!(out, data[..udp::HEADER_LEN]);
        let datagram = &data[..usize::from(header.len)];
        let pseudo = Partial::pseudo4([1, 2, 3, 4].into(), [5, 6, 7, 8].into(), Proto::UDP, header.len);
        let sealed = header.with_checksum(pseudo, header.payload(data));
        let mut copy = datagram.to_vec();
        sealed.emit(copy.first_chunk_mut().unwrap());
        assert!(sealed.checksum != 0 && udp::checksum_ok(pseudo, &copy));
    }
    if let Ok(header) = tcp::Header::parse(data) {
        assert!((20..=60).contains(&header.header_len));
        assert_eq!(header.payload(data).len(), data.len() - header.header_len);
        assert!(header.options(data).count() <= tcp::MAX_OPTIONS_LEN);
        let mut copy = data.to_vec();
        header.emit(copy.first_chunk_mut().unwrap());
        assert_eq!(tcp::Header::parse(&copy), Ok(header));
        let pseudo = Partial::pseudo4([1, 2, 3, 4].into(), [5, 6, 7, 8].into(), Proto::TCP, data.len() as u16);
        tcp::fill_checksum(pseudo, &mut copy);
        assert!(tcp::checksum_ok(pseudo, &copy));
    }
    control(data);
}

fn control(data: &[u8]) {
    match icmp4::Message::parse(data) {
        Ok(icmp4::Message::EchoRequest { ident, seq, payload }) => {
            let mut copy = data.to_vec();
            assert_eq!(icmp4::echo_reply_in_place(&mut copy), Some(()));
            assert!(
                matches!(icmp4::Message::parse(&copy), Ok(icmp4::Message::EchoReply { ident: i, seq: s, payload: p })
                if (i, s, p) == (ident, seq, payload))
            );
        }
        Ok(
            icmp4::Message::Unreachable { inner, .. }
            | icmp4::Message::TimeExceeded { inner, .. }
            | icmp4::Message::Redirect { inner, .. }
            | icmp4::Message::ParameterProblem { inner, .. },
        ) => {
            assert!(inner.payload.len() >= icmp4::MIN_QUOTED_PAYLOAD);
            assert!(inner.header.ihl_len + inner.payload.len() <= usize::from(inner.header.total_len));
        }
        Ok(_) => assert!(checksum::sum(data).verifies()),
        Err(Malformed::Truncated { need, have, .. }) => assert!(have < need),
        Err(_) => {}
    }
    let _ = icmp4::Inner::parse(data);
    if let Ok(message) = igmp::Message::parse(data) {
        assert_eq!(igmp::Message::parse(&message.emit()), Ok(message));
    }
    listeners(data);
}

/// Parses IGMPv3 and MLD reports, unchanged and with a corrected checksum.
fn listeners(data: &[u8]) {
    if let Ok(records) = igmp::v3::report(data) {
        assert_eq!(records.count(), usize::from(u16::from_be_bytes([data[6], data[7]])));
    }
    let (src, dst) = ([0xfe; 16].into(), [0xff; 16].into());
    let _ = mld::Message::parse(data, src, dst);
    let mut copy = data.to_vec();
    if icmp6::fill_checksum(src, dst, &mut copy).is_some() {
        discovery(&copy, (src, dst));
        match mld::Message::parse(&copy, src, dst) {
            Ok(Some(mld::Message::ReportV2(records))) => {
                assert_eq!(records.count(), usize::from(u16::from_be_bytes([data[6], data[7]])));
            }
            Err(Malformed::BadChecksum { .. }) => panic!("it was filled in"),
            _ => {}
        }
    }
}

/// Parses an ICMPv6 message after its checksum has been corrected.
fn discovery(message: &[u8], (src, dst): (Ipv6Addr, Ipv6Addr)) {
    match icmp6::Message::parse(message, src, dst) {
        Ok(icmp6::Message::EchoRequest { ident, seq, payload }) => {
            let mut copy = message.to_vec();
            assert_eq!(icmp6::echo_reply_in_place(&mut copy), Some(()));
            let reply = icmp6::Message::EchoReply { ident, seq, payload };
            assert_eq!(icmp6::Message::parse(&copy, dst, src), Ok(reply));
        }
        Ok(icmp6::Message::Error { problem, inner }) => {
            assert!(inner.payload.len() >= icmp6::MIN_QUOTED_PAYLOAD && inner.payload.len() < message.len());
            let mut out = vec![0; message.len()];
            let len = icmp6::emit_error(problem, (src, dst), &message[icmp6::HEADER_LEN..], &mut out);
            assert_eq!(len, Some(message.len()));
            assert_eq!(icmp6::Message::parse(&out, src, dst), Ok(icmp6::Message::Error { problem, inner }));
        }
        Ok(icmp6::Message::Nd(nd::Message::Solicit { target, options })) => {
            assert!(!target.is_multicast() && options.into_iter().count() * 8 <= message.len() - 24);
        }
        Ok(_) | Err(Malformed::Truncated { .. } | Malformed::BadOptionLen { .. }) => {}
        Err(Malformed::BadChecksum { .. }) => panic!("it was filled in"),
        Err(_) => {}
    }
    let _ = icmp6::Inner::parse(message);
}

/// Checks that all implementations, including those that also copy, give the naive sum, for the
/// whole input and for two parts.
///
/// The first two bytes select the position of the split; the checksum covers the bytes after them.
pub fn checksum(data: &[u8]) {
    let (at, bytes) = data.split_first_chunk::<2>().map_or((0, data), |(&at, rest)| (u16::from_be_bytes(at), rest));
    let at = usize::from(at) % (bytes.len() + 1);
    let (left, right) = bytes.split_at(at);
    let expected = naive(bytes);
    let folded = |partial: Partial| !partial.finish();
    assert_eq!(folded(checksum::sum(bytes)), expected);
    assert_eq!(folded(checksum::sum(left).add_at(at, checksum::sum(right))), expected);
    for kind in Kind::available() {
        assert_eq!(folded(checksum::sum_with(kind, bytes)), expected, "{kind}");
        let split = checksum::sum_with(kind, left).add_at(at, checksum::sum_with(kind, right));
        assert_eq!(folded(split), expected, "{kind} split at {at}");
        assert_eq!(folded(checksum::sum_with(kind, &bytes[..at])), naive(left), "{kind} prefix");
    }
    let mut copy = vec![0; bytes.len()];
    assert_eq!(folded(checksum::copy_and_sum(&mut copy, bytes)), expected);
    assert_eq!(copy, bytes);
    if let Some(header) = bytes.first_chunk::<20>() {
        assert_eq!(folded(checksum::header20(header)), naive(header));
    }
}

/// Checks that the output is one line of printable ASCII, shorter than 4096 characters.
pub fn dissect(data: &[u8]) {
    let mut text = String::new();
    write!(text, "{}", dissector::line(data)).unwrap();
    write!(text, "{}", dissector::packet_line(data)).unwrap();
    assert!(!text.is_empty() && text.len() < 4096, "{}", text.len());
    assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text:?}");
}

/// Compiles the first line of `data` as a filter expression, and applies the filter to the bytes
/// after it as a frame.
///
/// Invariants: an error position lies within the text, and the message quotes the text; a frame
/// that matches does not match the negated filter, at any length.
pub fn filter(data: &[u8]) {
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (text, frame) = (String::from_utf8_lossy(&data[..at]), data.get(at + 1..).unwrap_or(&[]));
    let filter = match Filter::compile(&text) {
        Ok(filter) => filter,
        Err(why) => {
            assert!(why.position() <= text.len());
            assert_eq!(why.to_string().lines().count(), 3);
            return;
        }
    };
    let negated = Filter::compile(&format!("not ({text})"));
    for len in 0..=frame.len().min(80) {
        let matches = filter.matches(&frame[..len]);
        filter.matches_captured(&frame[..len], frame.len());
        assert!(!negated.as_ref().is_ok_and(|negated| matches && negated.matches(&frame[..len])), "{text}");
    }
    filter.matches(frame);
}

/// Computes the sum as RFC 1071 4.1 describes it, as the reference for all implementations. The sum
/// is folded to 16 bits, but not complemented.
pub(crate) fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | word.get(1).copied().map_or(0, u32::from);
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Parses lines of text with every implementation. All must return the same frames and errors, and
/// make progress each time.
pub fn text(data: &[u8]) {
    use crate::text::{self, Kind, Next};
    let mut frame = vec![0; text::MAX_FRAME + text::SLACK];
    let mut rest = data;
    loop {
        let next = text::next(rest, &mut frame);
        for kind in Kind::available() {
            let mut other = vec![0; text::MAX_FRAME + text::SLACK];
            assert_eq!(text::next_with(kind, rest, &mut other), next);
            if let Next::Frame { len, .. } = next {
                assert_eq!(other.get(..len), frame.get(..len));
            }
        }
        match next {
            Next::Partial => return,
            Next::Blank { used } | Next::Bad { used, .. } => rest = rest.get(used..).unwrap_or_default(),
            Next::Frame { len, stamp, used } => {
                let read = frame.get(..len).unwrap_or_default();
                let mut line = vec![0; text::MAX_LINE + text::SLACK];
                let written = text::encode(read, stamp, &mut line).unwrap_or_default();
                let mut again = vec![0; text::MAX_FRAME + text::SLACK];
                assert_eq!(text::next(&line, &mut again), Next::Frame { len, stamp, used: written });
                assert_eq!(again.get(..len), frame.get(..len));
                rest = rest.get(used..).unwrap_or_default();
            }
        }
    }
}
