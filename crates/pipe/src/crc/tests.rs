//! Compares the stage with checksums computed separately, word by word.

use super::*;
use crate::Time;

/// Computes the checksum of RFC 1071, word by word.
fn sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |byte| u32::from(*byte)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns a 43-byte UDP frame without checksums.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend_from_slice(&[0x45, 0, 0, 29, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend_from_slice(&[0, 7, 0, 9, 0, 9, 0, 0, 0xab]);
    frame
}

fn run(stage: &mut Crc, frame: &[u8]) -> Vec<u8> {
    let mut frames = Frames::new();
    assert!(frames.push(frame, Time::None));
    stage.run(&mut frames).unwrap();
    frames.get(0).unwrap().0.to_vec()
}

fn right(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let header = sum(&[&frame[14..34]]);
    let datagram = sum(&[&frame[26..34], &[0, 17, 0, 9], &frame[34..43]]);
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    frame[40..42].copy_from_slice(&datagram.to_be_bytes());
    frame
}

#[test]
fn wrong_checksums_are_counted_and_corrected() {
    let mut stage = Crc::new(Action::Set, false);
    let set = run(&mut stage, &frame());
    assert_eq!(set, right(&frame()));
    assert_eq!(stage.report().unwrap(), "crc: 1 of 2 checksums in 1 frames were wrong (IPv4 1)");
    let mut wrong = set.clone();
    wrong[41] ^= 1;
    assert_eq!(run(&mut stage, &wrong), set);
    assert_eq!(stage.report().unwrap(), "crc: 2 of 4 checksums in 2 frames were wrong (IPv4 1, UDP 1)");
    assert!(!stage.failed());
}

#[test]
fn udp_checksums_can_be_set_to_zero() {
    let set = run(&mut Crc::new(Action::SetUdpZero, true), &frame());
    let mut expected = right(&frame());
    expected[40..42].fill(0);
    expected.resize(60, 0);
    assert_eq!(set, expected);
}

#[test]
fn check_leaves_frames_unchanged_and_reports_failure() {
    let mut stage = Crc::new(Action::Check, false);
    let good = right(&frame());
    let mut none = good.clone();
    none[40..42].fill(0);
    assert_eq!((run(&mut stage, &good), run(&mut stage, &none)), (good, none));
    assert!(!stage.failed());
    let mut fork = stage.fork().unwrap();
    let mut frames = Frames::new();
    assert!(frames.push(&frame(), Time::None));
    fork.run(&mut frames).unwrap();
    assert_eq!(frames.get(0).unwrap().0, frame());
    assert!(stage.failed());
    assert_eq!(stage.report().unwrap(), "crc: 1 of 6 checksums in 3 frames are wrong (IPv4 1)");
}
