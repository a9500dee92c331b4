use super::*;
use crate::hash::Key;
use proptest::prelude::*;
use std::net::Ipv6Addr;

const KEY: fn() -> Key = || Key::seeded(5);
const US: [u8; 4] = [10, 0, 0, 2];
const PEER: [u8; 4] = [10, 0, 0, 9];

fn packet4(proto: u8, from: [u8; 4], to: [u8; 4], options: usize, fragment: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45 + options as u8, 0, 0, 0, 0, 0, 0, 0, 64, proto, 0, 0];
    packet[4..6].copy_from_slice(&fragment.0.to_be_bytes());
    packet[6..8].copy_from_slice(&fragment.1.to_be_bytes());
    packet.extend([from, to].concat());
    packet.extend(vec![1; options * 4]);
    packet.extend(payload);
    packet
}

fn ports(from: u16, to: u16) -> Vec<u8> {
    [from.to_be_bytes(), to.to_be_bytes(), [0, 8], [0, 0]].concat()
}

fn number(packet: &[u8]) -> u64 {
    flow(KEY(), packet, &mut Fragments::default()).unwrap()
}

#[test]
fn a_conversation_is_recognized_in_every_encapsulation() {
    let plain = packet4(6, PEER, US, 0, (0, 0), &ports(7000, 80));
    let is_same = |packet: &[u8]| number(packet) == number(&plain);
    assert!(is_same(&packet4(6, PEER, US, 3, (77, 0x4000), &ports(7000, 80))), "options and DF do not matter");
    assert!(!is_same(&packet4(6, PEER, US, 0, (0, 0), &ports(7001, 80))));
    assert!(!is_same(&packet4(17, PEER, US, 0, (0, 0), &ports(7000, 80))));
    assert!(!is_same(&packet4(6, [10, 0, 0, 8], US, 0, (0, 0), &ports(7000, 80))));
    let (from, to) = (SocketAddr::from((PEER, 7000)), SocketAddr::from((US, 80)));
    assert_eq!(of_ends(KEY(), from, to, Proto::TCP), number(&plain), "the hash of the endpoints, before any packet");
    assert_eq!(Some(of_peer(KEY(), PEER.into(), US.into())), peer(KEY(), &plain));
    // A router's error about a packet that we sent.
    for kind in [3, 4, 5, 11, 12] {
        let ours = packet4(6, US, PEER, 2, (1, 0x4000), &ports(80, 7000));
        let error = [vec![kind, 4, 0, 0, 0, 0, 5, 0xdc], ours].concat();
        let router = [192, 0, 2, 1];
        assert!(is_same(&packet4(1, router, US, 0, (0, 0), &error)), "{kind}");
        assert_eq!(peer(KEY(), &packet4(1, router, US, 0, (0, 0), &error)), peer(KEY(), &plain));
    }
    let echo = packet4(1, PEER, US, 0, (0, 0), &[8, 0, 0, 0, 0, 1, 0, 1]);
    assert!(!is_same(&echo) && peer(KEY(), &echo) == peer(KEY(), &plain));
}

#[test]
fn fragments_follow_their_first_one() {
    let mut fragments = Fragments::default();
    let mut of = |packet: &[u8]| flow(KEY(), packet, &mut fragments).unwrap();
    let whole = packet4(17, PEER, US, 0, (0, 0), &ports(7000, 53));
    let first = packet4(17, PEER, US, 0, (9, 0x2000), &ports(7000, 53));
    let later = packet4(17, PEER, US, 0, (9, 0x2001), &ports(1, 2));
    let last = packet4(17, PEER, US, 0, (9, 0x0002), &ports(3, 4));
    let before = of(&last);
    assert_ne!(before, of(&whole), "the first fragment has not arrived");
    assert_eq!([of(&first), of(&later), of(&last)], [of(&whole); 3]);
    let other = packet4(17, PEER, US, 0, (10, 0x2001), &ports(1, 2));
    assert_ne!(of(&other), of(&whole));
    // More datagrams than slots: the table keeps its size.
    for id in 0..5000u16 {
        of(&packet4(17, PEER, US, 0, (id, 0x2000), &ports(id, 53)));
    }
    assert_eq!((fragments.slots.len(), fragments.strays), (FRAGMENTS, 2));
}

fn packet6(next: u8, from: u8, to: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    packet.extend([[0, 0, 0, 0, 0, 0, 0, from], [0; 8], [0, 0, 0, 0, 0, 0, 0, to], [0; 8]].concat());
    packet.extend(payload);
    packet
}

#[test]
fn ipv6_conversations_are_recognized() {
    let plain = packet6(6, 9, 2, &ports(7000, 80));
    let hop = [vec![6, 0, 0, 0, 0, 0, 0, 0], ports(7000, 80)].concat();
    assert_eq!(number(&packet6(0, 9, 2, &hop)), number(&plain));
    let at = |host: u8, port| SocketAddr::from((Ipv6Addr::from_bits(u128::from(host) << 64), port));
    assert_eq!(
        of_ends(KEY(), at(9, 7000), at(2, 80), Proto::TCP),
        number(&plain),
        "the hash of the endpoints, before any packet"
    );
    assert_eq!(Some(of_peer(KEY(), at(9, 0).ip(), at(2, 0).ip())), peer(KEY(), &plain));
    let ours = packet6(6, 2, 9, &ports(80, 7000));
    let error = [vec![2, 0, 0, 0, 0, 0, 5, 0], ours].concat();
    assert_eq!(number(&packet6(58, 1, 2, &error)), number(&plain));
    let mut fragments = Fragments::default();
    let mut of = |packet: &[u8]| flow(KEY(), packet, &mut fragments).unwrap();
    let first = [vec![6, 0, 0, 1, 0, 0, 0, 3], ports(7000, 80)].concat();
    let later = [vec![6, 0, 0, 9, 0, 0, 0, 3], ports(1, 2)].concat();
    assert_eq!([of(&packet6(44, 9, 2, &first)), of(&packet6(44, 9, 2, &later))], [of(&plain); 2]);
    let frame = |ethertype: [u8; 2], packet: &[u8]| [&[0; 12], &ethertype[..], packet].concat();
    assert!(is_for_all(&frame([0x86, 0xdd], &packet6(58, 9, 2, &[135]))));
    assert!(is_for_all(&frame([0x86, 0xdd], &packet6(0, 9, 2, &[58, 0, 5, 2, 0, 0, 1, 0, 130]))));
    assert!(!is_for_all(&frame([0x86, 0xdd], &packet6(58, 9, 2, &[128]))));
    assert!(is_for_all(&frame([8, 6], &[])) && is_for_all(&frame([8, 0], &packet4(2, PEER, US, 1, (0, 0), &[]))));
    assert!(!is_for_all(&frame([8, 0], &packet4(6, PEER, US, 0, (0, 0), &[]))) && !is_for_all(&[]));
}

proptest! {
    /// Nothing panics, and the table keeps its size.
    #[test]
    fn arbitrary_frames_are_handled(packets: Vec<(bool, Vec<u8>)>) {
        let mut fragments = Fragments::default();
        for (six, mut packet) in packets {
            if let Some(first) = packet.first_mut() {
                *first = if six { 0x60 } else { 0x40 } | *first & 0x0f;
            }
            let _ = (flow(KEY(), &packet, &mut fragments), peer(KEY(), &packet), is_for_all(&packet));
            prop_assert!(fragments.slots.len() == FRAGMENTS);
        }
    }
}
