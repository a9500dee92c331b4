//! Tests each edit on hand-written frames, and all edits on arbitrary frames against recomputed
//! checksums.

use super::*;
use crate::Time;
use proptest::prelude::*;
use wire::checksum::Partial;
use wire::eth::EtherType;
use wire::ip4;
use wire::{L4Port, Proto, tcp, udp};

/// Returns an IPv4 frame from 10.0.0.1 to 10.0.0.2 with correct checksums.
pub(crate) fn frame4(proto: Proto, payload: &[u8], change: impl FnOnce(&mut ip4::Header)) -> Vec<u8> {
    let mut header = ip4::Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), proto, payload.len()).unwrap();
    change(&mut header);
    let mut frame = vec![0; 34];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    header.emit(frame[14..34].first_chunk_mut().unwrap());
    frame.extend_from_slice(payload);
    let fill = Layout::of(&frame).checksums(&frame);
    fill.into_iter().flatten().for_each(|checksum| checksum.write(&mut frame, checksum.right));
    frame
}

/// Returns a UDP frame from port 1000 to port 53.
pub(crate) fn udp4(payload: &[u8]) -> Vec<u8> {
    let header = udp::Header { src: L4Port(1000), dst: L4Port(53), len: 8 + payload.len() as u16, checksum: 0 };
    let mut datagram = vec![0; 8];
    header.with_checksum(Partial::ZERO, payload).emit(datagram.first_chunk_mut().unwrap());
    datagram.extend_from_slice(payload);
    frame4(Proto::UDP, &datagram, |_| {})
}

pub(crate) fn tcp4(flags: tcp::Flags, text: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; 20];
    let (src, dst) = (L4Port(1000), L4Port(80));
    let header = tcp::Header { src, dst, seq: 1, ack: 2, header_len: 20, flags, window: 9, checksum: 0, urgent: 0 };
    header.emit(segment.first_chunk_mut().unwrap());
    segment.extend_from_slice(text);
    frame4(Proto::TCP, &segment, |_| {})
}

/// Returns a UDP frame over IPv6 with a Hop-by-Hop header.
pub(crate) fn udp6() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 0, 64];
    frame.extend_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    frame.extend_from_slice(&[17, 0, 1, 4, 0, 0, 0, 0]);
    frame.extend_from_slice(&[3, 0xe8, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
    let fill = Layout::of(&frame).checksums(&frame);
    fill.into_iter().flatten().for_each(|checksum| checksum.write(&mut frame, checksum.right));
    frame
}

/// Applies `exprs` to a frame. Returns the result unless the frame was dropped, and the counters.
fn edited(exprs: &[&str], frame: &[u8]) -> (Option<Vec<u8>>, Counts) {
    let mut stage = Rewrite::new(exprs).unwrap();
    let mut frames = Frames::new();
    assert!(frames.push(frame, Time::None));
    stage.run(&mut frames).unwrap();
    (frames.get(0).map(|(bytes, _)| bytes.to_vec()), stage.counts())
}

#[track_caller]
fn check(exprs: &[&str], frame: &[u8], change: impl FnOnce(&mut Vec<u8>)) {
    let mut expected = frame.to_vec();
    change(&mut expected);
    let (got, counts) = edited(exprs, frame);
    assert_eq!(got.as_deref(), Some(&expected[..]), "{exprs:?}");
    assert_eq!(counts.edited, 1, "{exprs:?}");
    assert_right(&expected);
}

#[track_caller]
fn assert_right(frame: &[u8]) {
    for checksum in Layout::of(frame).checksums(frame).into_iter().flatten() {
        assert_eq!(checksum.found, checksum.right, "{checksum:?}");
    }
}

/// Overwrites bytes and recomputes the checksums.
fn put(frame: &mut [u8], at: usize, bytes: &[u8]) {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    let fill = Layout::of(frame).checksums(frame);
    fill.into_iter().flatten().for_each(|checksum| checksum.write(frame, checksum.right));
}

#[test]
fn edits_set_fields_and_update_checksums() {
    let udp = udp4(b"hello");
    check(&["dst=00:11:22:33:44:55"], &udp, |f| f[..6].copy_from_slice(&[0, 0x11, 0x22, 0x33, 0x44, 0x55]));
    check(&["dst=001122334455"], &udp, |f| f[..6].copy_from_slice(&[0, 0x11, 0x22, 0x33, 0x44, 0x55]));
    check(&["src=00:11:22:*:*:*"], &udp, |f| f[6..9].copy_from_slice(&[0, 0x11, 0x22]));
    check(&["src=*:*:*:*:*:ff", "dst=*:*:*:*:*:aa"], &udp, |f| (f[11], f[5]) = (0xff, 0xaa));
    check(&["dst=01:02:*:*:*:*", "dst=*:03:04:*:*:*"], &udp, |f| f[..3].copy_from_slice(&[1, 3, 4]));
    check(&["type=0x88b5"], &udp, |f| f[12..14].copy_from_slice(&[0x88, 0xb5]));
    check(&["swap=mac"], &udp, |f| f[..12].rotate_left(6));
    check(&["swap=ip"], &udp, |f| f[26..34].rotate_left(4));
    check(&["swap=port"], &udp, |f| f[34..38].rotate_left(2));
    check(&["ip.src=192.0.2.7"], &udp, |f| put(f, 26, &[192, 0, 2, 7]));
    check(&["ip.dst=192.168.0.0/16"], &udp, |f| put(f, 30, &[192, 168, 0, 2]));
    check(&["ip.dst=0.0.0.0/0"], &udp, |_| {});
    check(&["ip.ttl=7"], &udp, |f| put(f, 22, &[7]));
    check(&["ip.ttl-=1"], &udp, |f| put(f, 22, &[63]));
    check(&["ip.dscp=46"], &udp, |f| put(f, 15, &[46 << 2]));
    check(&["ip.id=0x1234"], &udp, |f| put(f, 18, &[0x12, 0x34]));
    check(&["sport=1"], &udp, |f| put(f, 34, &[0, 1]));
    check(&["udp.dport=65535"], &udp, |f| put(f, 36, &[255, 255]));
    let tcp = tcp4(tcp::Flags::ACK, b"text");
    check(&["tcp.sport=2", "dport=3", "ip.src=1.2.3.4"], &tcp, |f| {
        put(f, 34, &[0, 2, 0, 3]);
        put(f, 26, &[1, 2, 3, 4]);
    });
    let six = udp6();
    check(&["ip.src=2001:db8::/32"], &six, |f| put(f, 22, &[0x20, 1, 0x0d, 0xb8]));
    check(&["ip.dst=::5", "dport=99"], &six, |f| {
        put(f, 38, &[0; 16]);
        put(f, 53, &[5]);
        put(f, 64, &[0, 99]);
    });
    check(&["ip.ttl-=63", "ip.dscp=63", "swap=ip"], &six, |f| {
        (f[14], f[15], f[21]) = (0x6f, 0xc0, 1);
        f[22..54].rotate_left(16);
    });
    check(&["byte[0:2]=0x1234", "byte[5]=9"], &udp, |f| (f[0], f[1], f[5]) = (0x12, 0x34, 9));
    check(&["byte[0:10]=0x0102", "byte[2:9]=258"], &udp, |f| {
        f[..10].copy_from_slice(&[0; 10]);
        f[9..11].copy_from_slice(&[1, 2]);
    });
}

#[test]
fn vlan_tags_are_pushed_popped_and_changed() {
    let udp = udp4(b"x");
    let tag = |f: &mut Vec<u8>, bytes: [u8; 4]| drop(f.splice(12..12, bytes));
    check(&["vlan.push=5"], &udp, |f| tag(f, [0x81, 0, 0, 5]));
    check(&["vlan.push=5,7"], &udp, |f| tag(f, [0x81, 0, 0xe0, 5]));
    check(&["vlan.push=5,0x8100", "vlan.push=0x7ff,1,0x88a8"], &udp, |f| {
        tag(f, [0x81, 0, 0, 5]);
        tag(f, [0x88, 0xa8, 0x27, 0xff]);
    });
    let mut tagged = udp.clone();
    tag(&mut tagged, [0x81, 0, 0x10, 10]);
    check(&["vlan.pop"], &tagged, |f| drop(f.drain(12..16)));
    check(&["vlan.id=20"], &tagged, |f| f[15] = 20);
    check(&["vlan.id=10->20", "vlan.id=10->30"], &tagged, |f| f[15] = 20);
    check(&["vlan.pcp=3"], &tagged, |f| f[14] = 0x70);
    check(&["ip.ttl-=4", "dport=5"], &tagged, |f| {
        put(f, 26, &[60]);
        put(f, 40, &[0, 5]);
    });
    check(&["vlan.push=6", "type=0x0801", "vlan.pop", "vlan.pop"], &tagged, |f| {
        f.drain(12..16);
        f[13] = 1;
    });
    for absent in ["vlan.pop", "vlan.id=5", "vlan.pcp=1", "ip.src=::1", "tcp.sport=1", "byte[60:4]=1"] {
        let (got, counts) = edited(&[absent], &udp);
        assert_eq!((got, counts.edited), (Some(udp.clone()), 0), "{absent}");
    }
    let (got, counts) = edited(&["vlan.id=11->20"], &tagged);
    assert_eq!((got, counts.edited), (Some(tagged), 0));
}

#[test]
fn ports_are_edited_in_first_fragments_only() {
    let datagram = udp4(&[7; 64])[34..].to_vec();
    let later = frame4(Proto::UDP, &datagram, |header| header.frag_off = 64);
    check(&["ip.src=9.9.9.9", "sport=5"], &later, |f| put(f, 26, &[9, 9, 9, 9]));
    let first = frame4(Proto::UDP, &datagram, |header| header.mf = true);
    let whole = frame4(Proto::UDP, &datagram, |_| {});
    let edits = &["ip.src=9.9.9.9", "sport=5"];
    let (first, whole) = (edited(edits, &first).0.unwrap(), edited(edits, &whole).0.unwrap());
    // The checksum in the first fragment covers the whole datagram.
    assert_right(&first);
    assert_eq!(first[34..], whole[34..]);
}

#[test]
fn expired_and_too_long_frames_are_dropped() {
    for (ttl, left) in [(0, false), (1, false), (2, true)] {
        let frame = frame4(Proto(99), b"", |header| header.ttl = ttl);
        let (got, counts) = edited(&["ip.ttl-=1"], &frame);
        assert_eq!((got.is_some(), counts.ttl), (left, u64::from(!left)));
    }
    let (got, counts) = edited(&["vlan.push=1"], &vec![0; 262_141]);
    assert_eq!((got, counts.too_long, counts.frames), (None, 1, 1));
    let mut stage = Rewrite::new(&["ip.ttl-=1"]).unwrap();
    let mut fork = stage.fork().unwrap();
    for stage in [&mut stage as &mut dyn Stage, fork.as_mut()] {
        let mut frames = Frames::new();
        assert!(frames.push(&frame4(Proto(99), b"", |header| header.ttl = 1), Time::None));
        stage.run(&mut frames).unwrap();
    }
    assert_eq!(stage.report().unwrap(), "rewrite: 0 of 2 frames edited; 2 dropped: TTL expired");
}

#[test]
fn invalid_expressions_show_a_caret() {
    for (expr, picture, why) in [
        ("ip.ttl", "ip.ttl\n      ^", "expected FIELD=VALUE"),
        ("ip.tll=3", "ip.tll=3\n^", "unknown field; fields: dst src"),
        ("ip.src=10.0.0.300", "ip.src=10.0.0.300\n       ^", "expected an address or a network"),
        ("ip.src=10.0.0.0/33", "ip.src=10.0.0.0/33\n                ^", "from 0 to 32"),
        ("ip.ttl-=0", "ip.ttl-=0\n        ^", "from 1 to 255"),
        ("ip.id-=1", "ip.id-=1\n     ^", "only ip.ttl"),
        ("dst=00:11:22:3x:44:55", "dst=00:11:22:3x:44:55\n             ^", "two hexadecimal digits"),
        ("dst=00:11", "dst=00:11\n         ^", "six bytes"),
        ("dst=1:2:3:4:5:6", "dst=1:2:3:4:5:6\n    ^", "two hexadecimal digits"),
        ("src=0a:0a:0a:0a:0a:0a:0a", "src=0a:0a:0a:0a:0a:0a:0a\n                      ^", "has six bytes"),
        ("vlan.push=5,8", "vlan.push=5,8\n            ^", "from 0 to 7"),
        ("vlan.push=5,1,0x800", "vlan.push=5,1,0x800\n              ^", "0x8100 or 0x88a8"),
        ("vlan.id=1->4095", "vlan.id=1->4095\n           ^", "from 0 to 4094"),
        ("byte[14=1", "byte[14=1\n       ^", "expected ]"),
        ("byte[262144]=1", "byte[262144]=1\n     ^", "from 0 to 262143"),
        ("byte[1:2]=0x12345", "byte[1:2]=0x12345\n          ^", "1 to 4 hexadecimal digits"),
        ("byte[1:2]=65536", "byte[1:2]=65536\n          ^", "from 0 to 65535"),
        ("swap=all", "swap=all\n     ^", "mac, ip or port"),
        ("udp.port=+1", "udp.port=+1\n^", "unknown field"),
        ("dport=+1", "dport=+1\n      ^", "from 0 to 65535"),
        ("dport=\u{e4}\u{1b}[1m", "dport=\u{e4}?[1m\n      ^", "from 0 to 65535"),
    ] {
        let bad = Rewrite::new(&["swap=ip", expr]).unwrap_err();
        assert_eq!(bad.picture(), picture);
        assert!(bad.to_string().contains(why) && !bad.to_string().contains('\n'), "{bad}");
    }
}

fn exprs() -> impl Strategy<Value = String> {
    prop_oneof![
        "(dst|src)=(([0-9a-f]{2}|\\*):){5}([0-9a-f]{2}|\\*)",
        "(ip\\.src|ip\\.dst)=([1-9][0-9]?\\.){3}1?[1-9](/[12][0-9])?",
        "(ip\\.src|ip\\.dst)=([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(/[1-9][0-9])?",
        "ip\\.ttl(=1?[0-9]{1,2}|-=1?[1-9])",
        "ip\\.dscp=[1-5][0-9]",
        "(ip\\.id|sport|dport|tcp\\.sport|tcp\\.dport|udp\\.sport|udp\\.dport)=[1-5]?[0-9]{1,4}",
        "swap=(mac|ip|port)",
        "vlan\\.push=[1-3][0-9]{1,3}(,[0-7])?(,0x8100|,0x88a8)?",
        "vlan\\.pop",
        "vlan\\.id=([1-3][0-9]{1,3}|100->[1-3][0-9]{1,3})",
        "vlan\\.pcp=[0-7]",
    ]
}

proptest! {
    #[test]
    fn updated_checksums_match_recomputed_ones(
        exprs in prop::collection::vec(exprs(), 1..6),
        which in 0..6_usize, text in prop::collection::vec(any::<u8>(), 0..90), tags in 0..3_usize,
    ) {
        let mut frame = match which {
            0 => udp4(&text),
            1 => tcp4(tcp::Flags::ACK, &text),
            2 => udp6(),
            3 => frame4(Proto::ICMP, &[&[8, 0, 0, 0, 0, 9, 0, 9], &text[..]].concat(), |_| {}),
            4 => frame4(Proto::UDP, &text, |header| header.frag_off = 8),
            _ => frame4(Proto(99), &text, |_| {}),
        };
        for _ in 0..tags {
            frame.splice(12..12, [0x81, 0, 0, 100]);
        }
        let exprs: Vec<&str> = exprs.iter().map(String::as_str).collect();
        if let Some(out) = edited(&exprs, &frame).0 {
            assert_right(&out);
        }
    }

    #[test]
    fn an_edit_and_its_inverse_cancel(text in prop::collection::vec(any::<u8>(), 8..90), ttl in 2..200_u8, six in any::<bool>()) {
        let mut frame = if six { udp6() } else { frame4(Proto::UDP, &udp4(&text)[34..], |header| header.ttl = ttl) };
        if !six {
            put(&mut frame, 38, &(text.len() as u16 + 8).to_be_bytes());
        }
        for pair in [
            &["swap=mac", "swap=mac"][..], &["swap=ip", "swap=ip"], &["swap=port", "swap=port"],
            &["vlan.push=5,1,0x88a8", "vlan.pop"],
            &["ip.src=1.2.3.4", "ip.dst=4.3.2.1", "ip.src=10.0.0.1", "ip.dst=10.0.0.2"],
            &["ip.src=2001::/16", "ip.src=fd00::/16"],
            &["sport=7", "dport=9", "dport=53", "sport=1000"],
            &["vlan.push=5", "vlan.id=5->6", "swap=ip", "vlan.id=6->5", "swap=ip", "vlan.pop"],
        ] {
            let (got, _) = edited(pair, &frame);
            prop_assert_eq!(got.as_deref(), Some(&frame[..]), "{:?}", pair);
        }
    }

    #[test]
    fn parsing_any_expression_does_not_panic(text in "\\PC{0,30}", field in "(byte|ip.src|dst|vlan.push|ip.ttl-)", value in "[0-9a-fx:.*,/\\[\\]-]{0,20}") {
        let _ = Rewrite::new(&[&text]).map_err(|bad| bad.picture());
        let _ = Rewrite::new(&[format!("{field}={value}")]).map_err(|bad| bad.picture());
        let _ = Rewrite::new(&[format!("byte[{value}={value}")]).map_err(|bad| bad.picture());
    }
}

#[test]
fn type_edit_changes_later_parsing() {
    let mut frame = udp4(b"abc");
    frame[12..14].copy_from_slice(&[0x12, 0x34]);
    check(&["type=0x0800", "ip.ttl=3"], &frame, |f| {
        f[12..14].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
        put(f, 22, &[3]);
    });
}
