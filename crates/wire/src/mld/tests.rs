use super::*;
use crate::igmp::v3::RecordKind;
use proptest::prelude::*;

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const ALL: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 9);

fn sealed(mut message: Vec<u8>) -> Vec<u8> {
    message[2..4].fill(0);
    let pseudo = Partial::pseudo6(ROUTER, ALL, Proto::IPV6_ICMP, message.len() as u32);
    let sum = pseudo.add_at(0, checksum::sum(&message)).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

fn parse(message: &[u8]) -> Result<Option<Message<'_>>, Malformed> {
    Message::parse(message, ROUTER, ALL)
}

#[test]
fn messages_are_parsed() {
    let more = Some(QueryMore { suppress: false, sources: 0 });
    let bytes = query((ROUTER, ALL), GROUP, 1000, 2, 125);
    assert_eq!(parse(&bytes), Ok(Some(Message::Query { max_resp: 1000, group: GROUP, more })));
    let old = sealed(bytes[..24].to_vec());
    assert_eq!(parse(&old), Ok(Some(Message::Query { max_resp: 1000, group: GROUP, more: None })));
    let of = |ty: u8| sealed([&[ty, 0, 0, 0, 0, 0, 0, 0][..], &GROUP.octets()].concat());
    assert_eq!(parse(&of(131)), Ok(Some(Message::Report { group: GROUP })));
    assert_eq!(parse(&of(132)), Ok(Some(Message::Done { group: GROUP })));
    assert_eq!((parse(&of(135)), parse(&[])), (Ok(None), Ok(None)), "another of ICMPv6, or nothing");
}

#[test]
fn records_end_where_the_message_does() {
    let records = [&[3, 0, 0, 0][..], &GROUP.octets(), &[4, 1, 0, 1], &ALL.octets(), &[7; 20]].concat();
    let report = sealed([&[143, 0, 0, 0, 0, 0, 0, 2][..], &records].concat());
    let Ok(Some(Message::ReportV2(read))) = parse(&report) else { panic!("{:?}", parse(&report)) };
    let read: Vec<_> = read.map(|record| (record.kind, Ipv6Addr::from(record.group), record.listens())).collect();
    assert_eq!(read, [(RecordKind::ToInclude, GROUP, Some(false)), (RecordKind::ToExclude, ALL, Some(true))]);
    for len in 1..report.len() {
        assert!(parse(&sealed(report[..len.max(4)].to_vec())).is_err(), "{len}");
    }
}

proptest! {
    #[test]
    fn junk(message in prop::collection::vec(any::<u8>(), 4..80), ty in prop::sample::select(vec![130_u8, 131, 132, 143])) {
        let mut message = message;
        message[0] = ty;
        let message = sealed(message);
        if let Ok(Some(Message::ReportV2(records))) = parse(&message) {
            let said = u16::from_be_bytes([message[6], message[7]]);
            prop_assert_eq!(records.count(), usize::from(said));
        }
        let mut bad = message.clone();
        bad[2] ^= 1;
        prop_assert!(parse(&bad).is_err());
    }
}
