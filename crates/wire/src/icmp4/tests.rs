use super::*;
use crate::samples::rump_frame;
use proptest::prelude::*;

fn error(problem: Problem, quoted: &[u8]) -> Vec<u8> {
    let mut message = vec![0xee; HEADER_LEN + quoted.len()];
    assert_eq!(emit_error(problem, quoted, &mut message), Some(message.len()));
    message
}

#[test]
fn errors_quote_the_offending_packet() {
    let frame = rump_frame();
    let quoted = &frame[14..14 + 28];
    let inner = Inner::parse(quoted).unwrap();
    assert_eq!((inner.header.total_len, inner.payload.len()), (50, 8));
    let gateway = Ipv4Addr::new(9, 8, 7, 6);
    let cases = [
        (Problem::Unreachable { code: 4, next_mtu: 1400 }, Message::Unreachable { code: 4, next_mtu: 1400, inner }),
        (Problem::TimeExceeded { code: 1 }, Message::TimeExceeded { code: 1, inner }),
        (Problem::Redirect { code: 1, gateway }, Message::Redirect { code: 1, gateway, inner }),
        (Problem::ParameterProblem { pointer: 20 }, Message::ParameterProblem { pointer: 20, inner }),
    ];
    for (problem, expected) in cases {
        assert_eq!(Message::parse(&error(problem, quoted)), Ok(expected));
    }
}

/// A truncated quoted packet is rejected at every length below its header and 8 bytes
/// (CVE-2020-11910 and similar).
#[test]
fn quoted_packets_cut_short() {
    let frame = rump_frame();
    let packet = &frame[14..];
    for len in 0..=packet.len() {
        let message = error(Problem::TimeExceeded { code: 0 }, &packet[..len]);
        match Message::parse(&message) {
            Ok(Message::TimeExceeded { inner, .. }) => {
                assert!(len >= 28);
                assert_eq!(inner.payload, &packet[20..len]);
            }
            Err(Malformed::Truncated { layer: Layer::IcmpInner, have, .. }) => {
                assert!(len < 28 && usize::from(have) == len);
            }
            other => panic!("{len}: {other:?}"),
        }
    }
}

#[test]
fn quoted_packets_with_wrong_lengths() {
    let frame = rump_frame();
    let with = |at: usize, value: u8| {
        let mut quoted = frame[14..14 + 28].to_vec();
        quoted[at] = value;
        Inner::parse(&quoted).unwrap_err()
    };
    let layer = Layer::IcmpInner;
    assert_eq!(with(0, 0x65), Malformed::BadVersion { layer, found: 6 });
    assert_eq!(with(0, 0x4f), Malformed::Truncated { layer, need: 60, have: 28 });
    assert_eq!(with(0, 0x46), Malformed::Truncated { layer, need: 32, have: 28 });
    assert_eq!(with(3, 27), Malformed::Truncated { layer, need: 28, have: 27 });
    assert_eq!(with(3, 10), Malformed::BadTotalLen { layer, len: 10 });
}

#[test]
fn trailing_bytes_are_not_the_quoted_packets() {
    let frame = rump_frame();
    let quoted = [&frame[14..], &[0xaa; 30]].concat();
    assert_eq!(Inner::parse(&quoted).unwrap().payload, &frame[34..]);
}

#[test]
fn checksum_and_length_come_first() {
    let mut message = error(Problem::TimeExceeded { code: 0 }, &[0; 4]);
    message[9] ^= 1;
    assert_eq!(Message::parse(&message), Err(Malformed::BadChecksum { layer: Layer::Icmp4 }));
    for len in 0..HEADER_LEN {
        let why = Malformed::Truncated { layer: Layer::Icmp4, need: 8, have: len as u16 };
        assert_eq!(Message::parse(&message[..len]), Err(why));
    }
}

#[test]
fn other_types_are_named_and_source_quench_is_not_parsed() {
    let emit = |bytes: &mut [u8; 8]| {
        let sum = checksum::sum(&bytes[..]).finish();
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    };
    let mut bytes = [13, 5, 0, 0, 1, 2, 3, 4];
    emit(&mut bytes);
    assert_eq!(Message::parse(&bytes), Ok(Message::Other { ty: 13, code: 5 }));
    let mut bytes = [4, 0, 0, 0, 0, 0, 0, 0];
    emit(&mut bytes);
    assert_eq!(Message::parse(&bytes), Ok(Message::SourceQuench));
}

#[test]
fn no_room_writes_nothing() {
    let mut out = [0x77; 11];
    assert_eq!(emit_echo(ty::ECHO_REQUEST, 1, 2, b"four", &mut out), None);
    assert_eq!(out, [0x77; 11]);
}

proptest! {
    #[test]
    fn echo_and_its_reply(ident: u16, seq: u16, payload in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut message = vec![0; HEADER_LEN + payload.len()];
        prop_assert_eq!(emit_echo(ty::ECHO_REQUEST, ident, seq, &payload, &mut message), Some(message.len()));
        prop_assert_eq!(Message::parse(&message), Ok(Message::EchoRequest { ident, seq, payload: &payload }));
        prop_assert_eq!(echo_reply_in_place(&mut message), Some(()));
        prop_assert_eq!(Message::parse(&message), Ok(Message::EchoReply { ident, seq, payload: &payload }));
        prop_assert_eq!(echo_reply_in_place(&mut message), None);
    }

    #[test]
    fn etherparse_computes_the_same(id: u16, seq: u16, payload in prop::collection::vec(any::<u8>(), 0..100)) {
        use etherparse::{IcmpEchoHeader, Icmpv4Header, Icmpv4Type};
        let mut message = vec![0; HEADER_LEN + payload.len()];
        emit_echo(ty::ECHO_REPLY, id, seq, &payload, &mut message);
        let oracle = Icmpv4Header::with_checksum(Icmpv4Type::EchoReply(IcmpEchoHeader { id, seq }), &payload);
        prop_assert_eq!(&message[..8], &oracle.to_bytes()[..]);
    }
}

/// Found by fuzzing: an echo request whose reply is all zeros except for its checksum.
#[test]
fn the_reply_to_an_empty_echo_with_ident_and_seq_0_verifies() {
    let mut message = [0x08, 0, 0xf7, 0xff, 0, 0, 0, 0];
    assert!(crate::checksum::sum(&message).verifies());
    assert_eq!(echo_reply_in_place(&mut message), Some(()));
    assert_eq!(message, [0, 0, 0xff, 0xff, 0, 0, 0, 0]);
    assert!(crate::checksum::sum(&message).verifies());
}
