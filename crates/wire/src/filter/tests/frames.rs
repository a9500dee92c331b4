//! Frames for the filter's tests: the crate's samples, plus tagged, encapsulated, truncated and
//! malformed ones.

use crate::eth::EtherType;
use crate::samples::{self, A4, B4};
use crate::{Proto, ip4};

/// A frame as captured, and its length on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Captured {
    pub name: String,
    pub frame: Vec<u8>,
    pub wire_len: usize,
}

/// Returns all frames, including truncated ones.
pub(super) fn all() -> Vec<Captured> {
    let whole = whole();
    let mut all: Vec<Captured> = whole.iter().map(|(name, frame)| captured(name, frame, frame.len())).collect();
    for (name, frame) in &whole {
        // Truncated within the headers, and after them.
        for kept in [13, 14, 15, 20, 23, 24, 26, 34, 35, 37, 38, 42, 54, 56, 60] {
            if kept < frame.len() && (name.len() + kept) % 5 < 2 {
                all.push(captured(&format!("{name}, first {kept}"), &frame[..kept], frame.len()));
            }
        }
    }
    for kept in 0..14 {
        all.push(captured(&format!("{kept} bytes"), &whole[0].1[..kept], kept));
    }
    all
}

fn captured(name: &str, frame: &[u8], wire_len: usize) -> Captured {
    Captured { name: name.to_owned(), frame: frame.to_vec(), wire_len }
}

/// Returns complete frames with their names.
pub(super) fn whole() -> Vec<(String, Vec<u8>)> {
    let mut frames: Vec<(String, Vec<u8>)> =
        samples::frames().into_iter().map(|(name, frame)| (name.to_owned(), frame)).collect();
    frames.extend(ports());
    frames.extend(fragments());
    frames.extend(others());
    let plain = frames.clone();
    for (name, frame) in plain.iter().step_by(3) {
        frames.push((format!("vlan {name}"), between(frame, &[0x81, 0, 0x20, 100])));
        frames.push((format!("qinq {name}"), between(frame, &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7])));
        frames.push((format!("pppoe {name}"), pppoe(frame)));
        frames.push((format!("mpls {name}"), mpls(frame, &[1024])));
    }
    for (name, frame) in plain.iter().step_by(7) {
        frames.push((format!("91 {name}"), between(frame, &[0x91, 0, 0x0f, 0xff])));
        frames.push((format!("mpls twice {name}"), mpls(frame, &[100_000, 1024])));
        frames.push((format!("vlan pppoe {name}"), between(&pppoe(frame), &[0x81, 0, 0, 9])));
        frames.push((format!("vlan mpls {name}"), between(&mpls(frame, &[16]), &[0x81, 0, 0, 100])));
    }
    frames
}

/// Inserts `tag` between the addresses and the EtherType.
fn between(frame: &[u8], tag: &[u8]) -> Vec<u8> {
    [&frame[..12], tag, &frame[12..]].concat()
}

fn mpls(frame: &[u8], labels: &[u32]) -> Vec<u8> {
    let mut made = [&frame[..12], &[0x88, 0x47]].concat();
    for (nth, label) in labels.iter().enumerate() {
        let bottom = u32::from(nth + 1 == labels.len());
        made.extend((label << 12 | bottom << 8 | 64).to_be_bytes());
    }
    made.extend(&frame[14..]);
    made
}

fn pppoe(frame: &[u8]) -> Vec<u8> {
    let proto: [u8; 2] = match frame[12..14] {
        [0x08, 0x00] => [0, 0x21],
        [0x86, 0xdd] => [0, 0x57],
        _ => [0xc0, 0x21],
    };
    let len = (frame.len() - 12) as u16;
    [&frame[..12], &[0x88, 0x64, 0x11, 0, 0x12, 0x34], &len.to_be_bytes(), &proto, &frame[14..]].concat()
}

fn v4(proto: Proto, payload: &[u8]) -> Vec<u8> {
    samples::ethernet(EtherType::IPV4, &samples::packet4(proto, B4, payload))
}

fn v6(proto: Proto, payload: &[u8]) -> Vec<u8> {
    samples::ethernet(EtherType::IPV6, &samples::packet6(proto, payload))
}

/// Segments and datagrams of the transports with ports, over IPv4 and IPv6, to and from ports that
/// the expressions use.
fn ports() -> Vec<(String, Vec<u8>)> {
    let mut frames = Vec::new();
    for (proto, name) in [(Proto::TCP, "tcp"), (Proto::UDP, "udp"), (Proto::SCTP, "sctp")] {
        for (src, dst) in [(443u16, 40000u16), (40000, 443), (80, 80), (22, 53), (79, 90), (0, 65535)] {
            let mut payload = [&src.to_be_bytes()[..], &dst.to_be_bytes(), &[0; 9], &[0x12]].concat();
            payload.extend([0xab; 10]);
            frames.push((format!("{name} {src} {dst}"), v4(proto, &payload)));
            frames.push((format!("{name}6 {src} {dst}"), v6(proto, &payload)));
        }
    }
    for flags in [0x01, 0x02, 0x04, 0x08, 0x10, 0x12, 0x20, 0xc2] {
        let payload = [&[0x9c, 0x40, 0x01, 0xbb][..], &[0; 8], &[0x50, flags], &[0; 6]].concat();
        frames.push((format!("tcp flags {flags:#x}"), v4(Proto::TCP, &payload)));
    }
    frames
}

/// First, middle and last fragments, and headers that are longer than usual or have a wrong length.
fn fragments() -> Vec<(String, Vec<u8>)> {
    let mut frames = Vec::new();
    let payload = [&443u16.to_be_bytes()[..], &443u16.to_be_bytes(), &[0x5a; 28]].concat();
    for proto in [Proto::TCP, Proto::UDP, Proto::ICMP] {
        for (offset, what) in [([0x20, 0], "first"), ([0x20, 9], "middle"), ([0, 9], "last"), ([0x40, 0], "whole")] {
            let mut frame = v4(proto, &payload);
            frame[20..22].copy_from_slice(&offset);
            frames.push((format!("{what} {proto}"), frame));
        }
        for ihl in [0x40, 0x44, 0x46, 0x4f, 0x65] {
            let mut frame = v4(proto, &payload);
            frame[14] = ihl;
            frames.push((format!("ihl {ihl:#x} {proto}"), frame));
        }
        let header = [proto.0, 0, 0, 1, 0, 0, 0, 1];
        frames.push((format!("fragment6 {proto}"), v6(Proto::FRAGMENT, &[&header[..], &payload].concat())));
        frames.push((format!("options6 {proto}"), v6(Proto::DEST_OPTIONS, &[&header[..], &payload].concat())));
    }
    frames
}

/// Other addresses, other protocols, and 802.3.
fn others() -> Vec<(String, Vec<u8>)> {
    let mut frames = Vec::new();
    for address in [[10, 0, 0, 1], [10, 1, 2, 3], [192, 168, 1, 77], [224, 0, 0, 1], [255; 4], [0; 4], [0, 0, 0, 9]] {
        for (at, to) in [(26, "from"), (30, "to")] {
            let mut frame = samples::rump_frame();
            frame[at..at + 4].copy_from_slice(&address);
            ip4::fill_checksum(&mut frame[14..34]);
            frames.push((format!("{to} {address:?}"), frame));
        }
        let mut arp = samples::frames().into_iter().find(|(name, _)| *name == "arp_request").unwrap().1;
        arp[28..32].copy_from_slice(&address);
        frames.push((format!("arp from {address:?}"), arp.clone()));
        arp[12..14].copy_from_slice(&[0x80, 0x35]);
        frames.push((format!("rarp from {address:?}"), arp));
    }
    for (nth, mac) in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1], [0, 0x11, 0x22, 0x33, 0x44, 0x55]]
        .into_iter()
        .enumerate()
    {
        let mut frame = samples::rump_frame();
        let at = if nth == 3 { 6 } else { 0 };
        frame[at..at + 6].copy_from_slice(&mac);
        frames.push((format!("mac {mac:x?}"), frame));
    }
    for last in [1, 2, 0xff] {
        let mut frame = v6(Proto::IPV6_ICMP, &[135, 0, 0, 0, 0, 0, 0, 0]);
        frame[22..38].copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        frame[38..54].copy_from_slice(&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        frames.push((format!("neighbor {last}"), frame));
    }
    for proto in [2, 4, 9, 47, 50, 51, 58, 89, 103, 112, 255] {
        frames.push((format!("ip proto {proto}"), v4(Proto(proto), &[0x81; 20])));
        frames.push((format!("ip6 proto {proto}"), v6(Proto(proto), &[0x81; 20])));
    }
    for ethertype in [0x0600, 0x6001, 0x6002, 0x6003, 0x6004, 0x6007, 0x809b, 0x80f3, 0x8137, 0x8863, 0x88cc, 0x9000] {
        frames.push((format!("type {ethertype:#x}"), samples::ethernet(EtherType(ethertype), &[0x45; 40])));
    }
    for (what, head) in [
        ("stp", &[0x42, 0x42, 0x03, 0, 0][..]),
        ("raw ipx", &[0xff, 0xff, 0, 30]),
        ("ipx", &[0xe0, 0xe0, 0x03]),
        ("netbeui", &[0xf0, 0xf0, 0x7f]),
        ("ip over llc", &[0x06, 0x06, 0x03]),
        ("receiver ready", &[0x04, 0x04, 0x01, 0x01]),
        ("not ready", &[0x04, 0x04, 0x05, 0x01]),
        ("information", &[0x04, 0x04, 0x00, 0x01]),
        ("xid", &[0x00, 0x01, 0xaf, 0x81]),
        ("test", &[0x00, 0x01, 0xf3]),
        ("es-is", &[0xfe, 0xfe, 0x03, 0x82]),
        ("clnp", &[0xfe, 0xfe, 0x03, 0x81]),
        ("snap aarp", &[0xaa, 0xaa, 0x03, 0, 0, 0, 0x80, 0xf3]),
        ("snap atalk", &[0xaa, 0xaa, 0x03, 8, 0, 7, 0x80, 0x9b]),
        ("snap ipx", &[0xaa, 0xaa, 0x03, 0, 0, 0, 0x81, 0x37]),
        ("snap ip", &[0xaa, 0xaa, 0x03, 0, 0, 0, 0x08, 0x00]),
    ] {
        let payload = [head, &[0x45; 36]].concat();
        frames.push((what.to_owned(), samples::ethernet(EtherType(payload.len() as u16), &payload)));
    }
    for pdu in [15, 16, 17, 18, 20, 24, 25, 26, 27, 30] {
        let payload = [&[0xfe, 0xfe, 0x03, 0x83, 0, 0, 0, pdu][..], &[0; 30]].concat();
        frames.push((format!("is-is {pdu}"), samples::ethernet(EtherType(38), &payload)));
    }
    for len in [60, 100, 128, 200, 576, 1514] {
        let payload = vec![0x11; len - 14 - 20];
        frames.push((format!("{len} bytes from {A4}"), v4(Proto::UDP, &payload)));
    }
    frames.push(("empty payload".into(), samples::ethernet(EtherType::IPV4, &[])));
    frames
}
