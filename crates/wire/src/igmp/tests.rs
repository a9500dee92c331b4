use super::*;
use proptest::prelude::*;

#[test]
fn a_known_report() {
    let bytes = [0x16, 0, 0x09, 0x04, 224, 0, 0, 251];
    let report = Message::Report { group: Ipv4Addr::new(224, 0, 0, 251) };
    assert_eq!(Message::parse(&bytes), Ok(report));
    assert_eq!(report.emit(), bytes);
}

#[test]
fn junk() {
    let bytes = Message::Leave { group: Ipv4Addr::new(224, 0, 0, 5) }.emit();
    for len in 0..MESSAGE_LEN {
        let why = Malformed::Truncated { layer: Layer::Igmp, need: 8, have: len as u16 };
        assert_eq!(Message::parse(&bytes[..len]), Err(why));
    }
    for at in 0..MESSAGE_LEN {
        let mut bytes = bytes;
        bytes[at] ^= 0x10;
        assert_eq!(Message::parse(&bytes), Err(Malformed::BadChecksum { layer: Layer::Igmp }));
    }
}

/// A version 3 query is longer; its first 8 bytes are read as version 2 (RFC 2236 2.5).
#[test]
fn longer_queries() {
    let mut bytes = [0x11, 100, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0];
    let sum = checksum::sum(&bytes).finish();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    let query = Message::Query { max_resp_ds: 100, group: Ipv4Addr::UNSPECIFIED };
    assert_eq!(Message::parse(&bytes), Ok(query));
}

proptest! {
    #[test]
    fn round_trip(ty in 0..5, byte: u8, group: [u8; 4]) {
        let group = group.into();
        let message = match ty {
            0 => Message::Query { max_resp_ds: byte, group },
            1 => Message::ReportV1 { group },
            2 => Message::Report { group },
            3 => Message::Leave { group },
            _ => Message::Other { ty: byte | 0x80 },
        };
        prop_assert_eq!(Message::parse(&message.emit()), Ok(message));
    }
}
