use super::*;
use crate::Proto;
use crate::fuzz::{self, naive};
use proptest::prelude::*;

/// Returns the naive sum as a checksum field.
fn field(bytes: &[u8]) -> u16 {
    !naive(bytes)
}

/// RFC 1071 3: the bytes 00 01 f2 03 f4 f5 f6 f7 sum to ddf2.
#[test]
fn the_rfcs_example() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(!sum(&bytes).finish(), 0xddf2);
}

/// Tests all lengths up to beyond the widest unrolled loop, all alignments and all implementations,
/// with random bytes and with all zeros and ones.
#[test]
fn every_length_every_alignment_every_kind() {
    let random: Vec<u8> = (0..700u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for bytes in [&random[..], &[0xff; 700], &[0; 700]] {
        for len in 0..600 {
            for start in [0, 1, 2, 3, 7, 31, 63] {
                let bytes = &bytes[start..start + len];
                assert_eq!(sum(bytes).finish(), field(bytes));
                for kind in Kind::available() {
                    assert_eq!(sum_with(kind, bytes).finish(), field(bytes), "{kind}, {len} bytes at {start}");
                }
            }
        }
    }
}

/// The longest IP payload, and much longer inputs: no lane overflows.
#[test]
fn long_inputs() {
    for bytes in [vec![0xff; 65_535], vec![0xff; 4 << 20], vec![0x01; (1 << 20) + 1]] {
        for kind in Kind::ALL {
            assert_eq!(sum_with(kind, &bytes).finish(), field(&bytes), "{kind}");
        }
    }
}

/// One's complement has two zeros: only bytes that are all zero sum to +0, which does not verify.
#[test]
fn the_two_zeros() {
    for kind in Kind::ALL {
        assert!(!sum_with(kind, &[0; 100]).verifies());
        assert!(sum_with(kind, &[0xff; 100]).verifies());
        assert_eq!(sum_with(kind, &[0; 100]).finish(), 0xffff);
        assert_eq!(sum_with(kind, &[0xff; 100]).finish_nonzero(), 0xffff);
    }
}

#[test]
fn kinds_have_names_and_one_is_chosen() {
    let best = Kind::available().last().unwrap();
    assert_eq!(kind(), best);
    for kind in Kind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        assert_eq!(select(kind).is_ok(), kind.is_available());
    }
    select(best).unwrap();
    assert_eq!("fast".parse::<Kind>(), Err(Unavailable));
    assert!(Unavailable.to_string().ends_with(best.name()));
}

/// RFC 1624 4: the case where equation 2 of RFC 1141 is wrong.
#[test]
fn rfc_1624_example() {
    assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn copying_stops_at_the_shorter() {
    let mut dst = [0; 3];
    assert_eq!(copy_and_sum(&mut dst, &[1, 2, 3, 4]).finish(), field(&[1, 2, 3]));
    assert_eq!(dst, [1, 2, 3]);
    let mut dst = [9; 4];
    assert_eq!(copy_and_sum(&mut dst, &[1, 2, 3]).finish(), field(&[1, 2, 3]));
    assert_eq!(dst, [1, 2, 3, 9]);
}

#[test]
fn plain_copies_of_every_short_length() {
    let src: Vec<u8> = (0..200).collect();
    for len in 0..200 {
        let mut dst = [0xee; 200];
        copy(&mut dst[..len], &src);
        assert_eq!(dst[..len], src[..len]);
        assert!(dst[len..].iter().all(|&byte| byte == 0xee));
        let mut dst = [0xee; 200];
        copy(&mut dst, &src[..len]);
        assert_eq!(dst[..len], src[..len]);
        assert!(dst[len..].iter().all(|&byte| byte == 0xee));
    }
}

proptest! {
    #[test]
    fn one_split(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        fuzz::checksum(&bytes);
    }

    /// A datagram in pieces of any number and length, as in an mbuf chain.
    #[test]
    fn chains(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..12), kind in any::<prop::sample::Index>()) {
        let kinds: Vec<_> = Kind::available().collect();
        let kind = *kind.get(&kinds);
        let whole = pieces.concat();
        let (total, len) = pieces.iter().fold((Partial::ZERO, 0), |(total, at), piece| {
            (total.add_at(at, sum_with(kind, piece)), at + piece.len())
        });
        prop_assert_eq!(len, whole.len());
        prop_assert_eq!(total.finish(), field(&whole));
        prop_assert_eq!(total, sum(&whole));
    }

    #[test]
    fn pseudo_headers(src4: [u8; 4], dst4: [u8; 4], src6: [u8; 16], dst6: [u8; 16], proto: u8, len: u16, long: u32) {
        let [l0, l1] = len.to_be_bytes();
        let bytes = [&src4[..], &dst4, &[0, proto, l0, l1]].concat();
        prop_assert_eq!(Partial::pseudo4(src4.into(), dst4.into(), Proto(proto), len).finish(), field(&bytes));
        let bytes = [&src6[..], &dst6, &long.to_be_bytes(), &[0, 0, 0, proto]].concat();
        prop_assert_eq!(Partial::pseudo6(src6.into(), dst6.into(), Proto(proto), long).finish(), field(&bytes));
    }

    #[test]
    fn words(words in prop::collection::vec(any::<u16>(), 0..50)) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let total = words.iter().fold(Partial::ZERO, |total, &word| total.add_u16(word));
        prop_assert_eq!(total.finish(), field(&bytes));
    }

    /// An updated checksum equals the computed one, except for the two zeros, which both verify.
    #[test]
    fn incremental_updates(mut bytes in prop::collection::vec(any::<u8>(), 8..60), new: u32) {
        let old_sum = field(&bytes);
        let old = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        bytes[4..8].copy_from_slice(&new.to_be_bytes());
        let mended = update32(old_sum, old, new);
        prop_assert!(sum(&bytes).add_u16(mended).verifies());
        let halfway = update16(old_sum, (old >> 16) as u16, (new >> 16) as u16);
        prop_assert_eq!(update16(halfway, old as u16, new as u16), mended);
    }

    #[test]
    fn headers_of_twenty(header: [u8; 20]) {
        prop_assert_eq!(header20(&header).finish(), field(&header));
    }

    #[test]
    fn copies(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        let mut copy = vec![0; bytes.len()];
        prop_assert_eq!(copy_and_sum(&mut copy, &bytes).finish(), field(&bytes));
        prop_assert_eq!(copy, bytes);
    }
}
