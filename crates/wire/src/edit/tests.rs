//! Applies every setter to every sample, untagged, tagged once and twice: correct checksums stay
//! correct, wrong ones stay wrong.

use super::*;
use crate::samples;
use proptest::prelude::*;
use std::collections::HashSet;

/// Returns the samples with 0, 1 and 2 VLAN tags.
fn frames() -> Vec<Vec<u8>> {
    let plain = samples::frames().into_iter().map(|(_, frame)| frame).filter(|frame| frame.len() >= eth::HEADER_LEN);
    let tag = |frame: &Vec<u8>, tpid| {
        let mut tagged = frame.clone();
        tagged.splice(TAG_AT..TAG_AT, tag_bytes(tpid, 3, 100));
        tagged
    };
    plain
        .flat_map(|frame| {
            let one = tag(&frame, EtherType::VLAN);
            let two = tag(&one, EtherType::QINQ);
            [frame, one, two]
        })
        .collect()
}

/// Returns the checksums of a frame and whether each is correct.
fn state(frame: &[u8]) -> Vec<(Covered, bool)> {
    let found = Layout::of(frame).checksums(frame);
    found.into_iter().flatten().map(|checksum| (checksum.of, checksum.verifies())).collect()
}

fn edit(frame: &mut [u8], which: u8, value: u128) -> bool {
    let layout = Layout::of(frame);
    let side = if which & 0x80 == 0 { Side::Src } else { Side::Dst };
    match which & 0x0f {
        0 => layout.set_ip4(frame, side, 0, value as u32),
        1 => layout.set_ip4(frame, side, 0x00ff_ffff, (value as u32) & 0xff00_0000),
        2 => layout.set_ip6(frame, side, 0, value),
        3 => layout.set_ip6(frame, side, u128::MAX >> 32, value & !(u128::MAX >> 32)),
        4 => layout.swap_ip(frame),
        5 => layout.set_port(frame, side, L4Port(value as u16)),
        6 => layout.swap_ports(frame),
        7 => layout.set_dscp(frame, value as u8 & 0x3f),
        8 => layout.set_ip_id(frame, value as u16),
        9 => layout.change_ttl(frame, |_| Some(value as u8)) == Changed::Done,
        10 => layout.change_ttl(frame, |ttl| ttl.checked_sub(1)) == Changed::Done,
        11 => layout.set_icmp_id(frame, value as u16),
        12 => {
            let turn = |quoted: &mut [u8]| quoted.iter_mut().take(3).for_each(|byte| *byte ^= value as u8);
            layout.change_quoted(frame, turn).is_some()
        }
        _ => swap_macs(frame),
    }
}

#[test]
fn the_samples_have_every_kind_and_all_verify() {
    let mut kinds = HashSet::new();
    for frame in frames() {
        for (of, verifies) in state(&frame) {
            assert!(verifies, "{of:?} {frame:02x?}");
            kinds.insert(of);
        }
    }
    for of in [Covered::Ip4, Covered::Tcp, Covered::Udp, Covered::Icmp, Covered::Igmp] {
        assert!(kinds.contains(&of), "{of:?}");
    }
}

#[test]
fn the_single_pass_parser_agrees_with_the_walk() {
    let mut plain = 0;
    for frame in frames() {
        if let Some(found) = Layout::plain(&frame) {
            assert_eq!(found, Layout::walk(&frame));
            plain += 1;
        }
    }
    assert!(plain > 3);
}

#[test]
fn ttl_edits_do_not_depend_on_parsing_the_rest() {
    for frame in frames() {
        for new in [Some(7), None] {
            let (mut one, mut other) = (frame.clone(), frame.clone());
            let changed = Layout::of(&one).change_ttl(&mut one, |_| new);
            assert_eq!(change_ttl(&mut other, |_| new), changed);
            assert_eq!(one, other);
        }
    }
}

#[test]
fn a_zero_udp_checksum_stays_zero() {
    let mut frame = samples::rump_frame();
    let layout = Layout::of(&frame);
    let before = layout.checksums(&frame)[1].unwrap();
    before.write(&mut frame, 0);
    assert!(
        layout.set_port(&mut frame, Side::Dst, L4Port(9)) && layout.set_addr4(&mut frame, Side::Src, [9; 4].into())
    );
    let after = layout.checksums(&frame)[1].unwrap();
    assert!(after.found == 0 && after.verifies());
}

proptest! {
    #[test]
    fn edits_keep_checksums_valid_or_invalid(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<u8>(), any::<u128>()), 1..5),
        spoil in prop::option::of((0..2_usize, 1..0xffff_u16)),
    ) {
        let frames = frames();
        let mut frame = which.get(&frames).clone();
        let layout = Layout::of(&frame);
        if let Some((index, by)) = spoil
            && let Some(checksum) = layout.checksums(&frame)[index]
        {
            // Neither the other form of zero, nor the UDP value for "not computed".
            let wrong = (u32::from(checksum.right) + u32::from(by)) % 0xffff;
            checksum.write(&mut frame, wrong as u16);
            prop_assume!(wrong != 0);
        }
        let before = state(&frame);
        for (which, value) in edits {
            edit(&mut frame, which, value);
        }
        prop_assert_eq!(&before, &state(&frame));
        for checksum in Layout::of(&frame).checksums(&frame).into_iter().flatten() {
            prop_assert!(spoil.is_some() || checksum.found == checksum.right, "{:?}", checksum);
        }
    }

    #[test]
    fn arbitrary_bytes_are_handled(
        mut frame in prop::collection::vec(any::<u8>(), 0..120),
        ethertype in prop::sample::select(vec![0x0800_u16, 0x86dd, 0x8100, 0x88a8]),
        first in prop::sample::select(vec![0x45_u8, 0x46, 0x60]),
        proto in prop::sample::select(vec![1_u8, 2, 6, 17, 58, 44]),
        which in any::<u8>(), value in any::<u128>(),
    ) {
        if frame.len() > 24 {
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
            frame[14] = first;
            frame[if first == 0x60 { 20 } else { 23 }] = proto;
        }
        let len = frame.len();
        for which in (0..16).flat_map(|low| [which & 0x80 | low, low]) {
            edit(&mut frame, which, value);
            for checksum in Layout::of(&frame).checksums(&frame).into_iter().flatten() {
                checksum.write(&mut frame, checksum.right);
            }
            let _ = (tag(&frame), Layout::of(&frame).ports(&frame));
        }
        prop_assert_eq!(len, frame.len());
    }
}
