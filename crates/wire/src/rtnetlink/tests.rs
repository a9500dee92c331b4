use super::*;
use std::string::ToString;
use std::vec::Vec;

fn attribute(ty: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [(ATTRIBUTE_LEN + value.len()) as u16, ty].map(u16::to_ne_bytes).concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
    bytes
}

fn message(ty: u16, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut bytes = ((HEADER_LEN + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(ty.to_ne_bytes());
    bytes.extend([0; 10]);
    bytes.extend(body);
    bytes
}

fn first(bytes: &[u8]) -> Result<Message<'_>, RtnetlinkError> {
    messages(bytes).next().unwrap()
}

const ROUTE: [u8; 12] = [AF_INET, 16, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
const HOP: [u8; 8] = [AF_INET, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn a_multipath_route_has_its_paths_and_weights() {
    let gateway = attribute(RTA_GATEWAY, &[192, 0, 2, 1]);
    let path = |hops: u8, oif: u32, gateway: &[u8]| {
        let mut bytes = ((8 + gateway.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend([0, hops]);
        bytes.extend(oif.to_ne_bytes());
        bytes.extend(gateway);
        bytes
    };
    let paths = attribute(RTA_MULTIPATH, &[path(0, 3, &gateway), path(9, 4, &[])].concat());
    let bytes = message(NEWROUTE, &[&ROUTE, &attribute(RTA_TABLE, &1000u32.to_ne_bytes()), &paths]);
    let Ok(Message::NewRoute(route)) = first(&bytes) else { panic!() };
    assert_eq!((route.dst, route.table, route.proto), (Ipv4Addr::UNSPECIFIED.into(), 1000, 186));
    let NextHop::Multipath(paths) = route.to else { panic!() };
    let gateway = Some(IpAddr::from([192, 0, 2, 1]));
    let expected = [(Hop { oif: 3, gateway }, 1), (Hop { oif: 4, gateway: None }, 10)];
    assert_eq!(paths.paths().collect::<Vec<_>>(), expected);
}

#[test]
fn an_ipv4_route_may_have_an_ipv6_gateway() {
    let mut value = u16::from(AF_INET6).to_ne_bytes().to_vec();
    value.extend(Ipv6Addr::LOCALHOST.octets());
    let bytes = message(NEWROUTE, &[&ROUTE, &attribute(RTA_VIA, &value)]);
    let Ok(Message::NewRoute(route)) = first(&bytes) else { panic!() };
    assert_eq!(route.to, NextHop::Path(Hop { oif: 0, gateway: Some(Ipv6Addr::LOCALHOST.into()) }));
}

#[test]
fn invalid_messages_are_errors_and_end_the_frame() {
    let mut too_long = ROUTE;
    too_long[1] = 33;
    let mut unknown = HOP;
    unknown[0] = 7;
    let id = attribute(NHA_ID, &5u32.to_ne_bytes());
    let cut = message(NEWROUTE, &[&ROUTE, &[9, 0, 1, 0, 10]]);
    let cases = [
        (message(NEWROUTE, &[&ROUTE[..11]]), RtnetlinkError::Truncated),
        (message(NEWROUTE, &[&ROUTE, &[1]]), RtnetlinkError::Truncated),
        (cut, RtnetlinkError::Attribute(RTA_DST)),
        (message(NEWROUTE, &[&ROUTE, &[3, 0, 1, 0]]), RtnetlinkError::Attribute(RTA_DST)),
        (message(NEWROUTE, &[&ROUTE, &attribute(RTA_DST, &[10, 0, 0])]), RtnetlinkError::Attribute(RTA_DST)),
        (message(NEWROUTE, &[&ROUTE, &attribute(RTA_MULTIPATH, &[8, 0, 0])]), RtnetlinkError::Attribute(RTA_MULTIPATH)),
        (message(NEWROUTE, &[&ROUTE, &attribute(RTA_MULTIPATH, &[4; 8])]), RtnetlinkError::Attribute(RTA_MULTIPATH)),
        (message(NEWROUTE, &[&too_long]), RtnetlinkError::PrefixLength(33)),
        (message(NEWNEXTHOP, &[&unknown, &id, &attribute(NHA_GATEWAY, &[0; 4])]), RtnetlinkError::Family(7)),
        (message(NEWNEXTHOP, &[&HOP]), RtnetlinkError::NoId),
        (message(NEWNEXTHOP, &[&HOP, &id, &attribute(NHA_GROUP, &[0; 7])]), RtnetlinkError::Attribute(NHA_GROUP)),
        (message(DELNEXTHOP, &[&HOP[..7]]), RtnetlinkError::Truncated),
        (255u32.to_ne_bytes().to_vec(), RtnetlinkError::Truncated),
    ];
    for (bytes, why) in cases {
        let twice = [&bytes[..], &message(999, &[])].concat();
        let mut messages = messages(&twice);
        assert_eq!(messages.next(), Some(Err(why)), "{bytes:?}");
        assert_eq!(messages.next(), None);
    }
    let known = [message(999, &[]), message(DELNEXTHOP, &[&HOP, &id])].concat();
    let known: Vec<_> = messages(&known).collect();
    assert_eq!(known, [Ok(Message::Other(999)), Ok(Message::DelNextHop(5))]);
}

#[test]
fn errors_have_a_text() {
    let texts = [
        (RtnetlinkError::Truncated, "truncated netlink message"),
        (RtnetlinkError::Attribute(5), "attribute 5 has an invalid length"),
        (RtnetlinkError::Family(7), "address family 7 is not supported"),
        (RtnetlinkError::PrefixLength(33), "prefix length 33 exceeds the address length"),
        (RtnetlinkError::NoId, "next hop without a number"),
    ];
    texts.iter().for_each(|(why, text)| assert_eq!(why.to_string(), *text));
}

#[test]
fn routes_that_need_more_than_a_next_hop_are_recognized() {
    let mut labels = ROUTE;
    labels[0] = 28; // MPLS
    let mut from_source = ROUTE;
    from_source[2] = 24;
    for header in [labels, from_source] {
        assert_eq!(first(&message(NEWROUTE, &[&header])), Ok(Message::Other(NEWROUTE)));
        assert_eq!(first(&message(DELROUTE, &[&header])), Ok(Message::Other(DELROUTE)));
    }
    let encapsulated = message(NEWROUTE, &[&ROUTE, &attribute(RTA_ENCAP, &[0; 8]), &attribute(RTA_OIF, &[3, 0, 0, 0])]);
    let Ok(Message::NewRoute(route)) = first(&encapsulated) else { panic!() };
    assert!(matches!(route.kind, RouteKind::Other(_)));
    let id = attribute(NHA_ID, &5u32.to_ne_bytes());
    let hop = message(NEWNEXTHOP, &[&HOP, &id, &attribute(NHA_OIF, &[3, 0, 0, 0]), &attribute(NHA_ENCAP, &[0; 8])]);
    assert_eq!(first(&hop), Ok(Message::NewNextHop { id: 5, to: NextHop::None }));
}
