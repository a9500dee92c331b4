//! The header of RFC 7348 5, written by hand.

use super::*;

#[test]
fn round_trip() {
    let mut out = [0xff; HEADER_LEN];
    Header { vni: 0x12_3456 }.emit(&mut out);
    assert_eq!(out, [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
    assert_eq!(Header::parse(&out), Ok(Header { vni: 0x12_3456 }));
    assert_eq!(Header::parse(&[0xff; 9]), Ok(Header { vni: VNI_MAX }), "reserved bits are ignored");
    assert_eq!(Header::parse(&[0xf7; 8]), Err(Malformed::BadFlags { layer: Layer::Vxlan, found: 0xf7 }));
    assert!(matches!(Header::parse(&out[..7]), Err(Malformed::Truncated { .. })));
}
