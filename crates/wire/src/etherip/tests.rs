//! The header of RFC 3378 3, written by hand.

use super::*;

#[test]
fn only_version_three_and_zeros() {
    assert_eq!(check(&[0x30, 0, 1, 2]), Ok(()));
    assert!(matches!(check(&[0x30]), Err(Malformed::Truncated { .. })));
    assert_eq!(check(&[0x03, 0]), Err(Malformed::BadVersion { layer: Layer::EtherIp, found: 0 }), "nibbles swapped");
    assert_eq!(check(&[0x30, 1]), Err(Malformed::BadFlags { layer: Layer::EtherIp, found: 0x3001 }));
}
