use super::*;
use crate::samples::{A, A4, B, B4};
use proptest::prelude::*;

const REQUEST: [u8; PACKET_LEN] = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2];

#[test]
fn a_known_request_with_padding() {
    let expected = Packet { op: Op::Request, sha: A, spa: A4, tha: Mac::ZERO, tpa: B4 };
    assert_eq!(expected.emit(), REQUEST);
    let padded = [&REQUEST[..], &[0; 18]].concat();
    assert_eq!(Packet::parse(&padded), Ok(expected));
    assert_ne!(Packet { tha: B, ..expected }.emit(), REQUEST);
}

#[test]
fn invalid_fields_are_rejected() {
    let with = |at: usize, value| {
        let mut bytes = REQUEST;
        bytes[at] = value;
        Packet::parse(&bytes).unwrap_err()
    };
    assert_eq!(with(1, 6), Malformed::BadHardwareType(6));
    assert_eq!(with(2, 0x86), Malformed::BadProtocolType(0x8600));
    assert_eq!(with(4, 0), Malformed::BadAddressLen { hlen: 0, plen: 4 });
    assert_eq!(with(5, 255), Malformed::BadAddressLen { hlen: 6, plen: 255 });
    assert_eq!(with(7, 3), Malformed::BadOperation(3));
    for len in 0..PACKET_LEN {
        assert!(matches!(Packet::parse(&REQUEST[..len]), Err(Malformed::Truncated { need: 28, .. })));
    }
}

proptest! {
    #[test]
    fn round_trip(reply: bool, sha: [u8; 6], spa: [u8; 4], tha: [u8; 6], tpa: [u8; 4]) {
        let op = if reply { Op::Reply } else { Op::Request };
        let packet = Packet { op, sha: Mac(sha), spa: spa.into(), tha: Mac(tha), tpa: tpa.into() };
        prop_assert_eq!(Packet::parse(&packet.emit()), Ok(packet));
    }
}
