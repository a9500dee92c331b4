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

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[2..4].fill(0);
    let sum = checksum::sum(&bytes).finish();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[test]
fn version_3() {
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let query = v3::query(group, 10, 2, 125);
    assert_eq!(Message::parse(&query), Ok(Message::Query { max_resp_ds: 10, group }));
    assert_eq!(v3::query_more(&query), Some(v3::QueryMore { suppress: false, sources: 0 }));
    assert_eq!(v3::query_more(&query[..8]), None);
    let records =
        [2, 0, 0, 0, 239, 1, 2, 3, 3, 1, 0, 1, 239, 1, 2, 4, 10, 0, 0, 1, 9, 9, 9, 9, 3, 0, 0, 0, 239, 1, 2, 5];
    let report = sealed([&[0x22, 0, 0, 0, 0, 0, 0, 3][..], &records].concat());
    let read: Vec<_> = v3::report(&report).unwrap().map(|record| (record.group[3], record.listens())).collect();
    assert_eq!(read, [(3, Some(true)), (4, Some(true)), (5, Some(false))]);
    for len in 4..report.len() {
        assert!(v3::report(&sealed(report[..len].to_vec())).is_err(), "{len}");
    }
    assert!(v3::report(&query).is_err());
}

#[test]
fn codes_of_eight_bits() {
    for (number, code) in
        [(0, 0), (127, 127), (128, 0x80), (135, 0x80), (136, 0x81), (260, 0x90), (31_744, 0xff), (65_535, 0xff)]
    {
        assert_eq!(v3::code8(number), code, "{number}");
    }
    for code in 0..=255 {
        assert_eq!(v3::code8(v3::number8(code)), code);
    }
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
