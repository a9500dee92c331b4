use super::*;
use crate::rtnetlink::{Message, NextHop, RouteKind, messages};
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

/// Stream recorded from FRR 8.4.4 (zebra and staticd): static routes with one next hop, with two,
/// blackhole, unreachable, recursive, IPv6; then a path is removed, a next hop is replaced, and the
/// blackhole is removed.
fn recorded() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/wire_fpm/frr-8.4.4-static");
    std::fs::read(path).unwrap()
}

fn line(message: Message<'_>) -> String {
    let of_route = |route: crate::rtnetlink::Route<'_>| {
        let to = match (route.nh_id, route.to) {
            (Some(id), NextHop::None) => format!("nhid {id}"),
            (None, NextHop::None) if route.kind != RouteKind::Unicast => format!("{:?}", route.kind),
            (None, NextHop::None) => "-".to_string(),
            other => format!("{other:?}"),
        };
        format!(
            "{}/{} table {} proto {} metric {} {to}",
            route.dst, route.dst_len, route.table, route.proto, route.priority
        )
    };
    match message {
        Message::NewRoute(route) => format!("+{}", of_route(route)),
        Message::DelRoute(route) => format!("-{}", of_route(route)),
        Message::NewNextHop { id, to: NextHop::Group(group) } => {
            format!("+nh {id} group {:?}", group.members().collect::<Vec<_>>())
        }
        Message::NewNextHop { id, to: NextHop::Path(hop) } => match hop.gateway {
            Some(gateway) => format!("+nh {id} dev {} via {gateway}", hop.oif),
            None => format!("+nh {id} dev {}", hop.oif),
        },
        Message::NewNextHop { id, to } => format!("+nh {id} {to:?}"),
        Message::DelNextHop(id) => format!("-nh {id}"),
        Message::Other(ty) => format!("type {ty}"),
    }
}

fn lines(stream: &[u8]) -> Vec<String> {
    let (mut rest, mut lines) = (stream, Vec::new());
    while let Some(frame) = split(&mut rest).unwrap() {
        let of_frame: Vec<String> = messages(frame).map(|message| line(message.unwrap())).collect();
        lines.push(of_frame.join("; "));
    }
    assert!(rest.is_empty());
    lines
}

#[test]
#[cfg(target_endian = "little")]
fn a_recorded_stream_has_its_next_hops_and_routes() {
    let expected = "\
+nh 17 dev 4
+nh 18 dev 2
+nh 19 Blackhole
+nh 20 Blackhole
+nh 4 dev 3
+nh 21 dev 3 via 192.168.0.2
+nh 5 dev 5
+nh 22 group [(21, 1), (23, 1)]
+nh 6 dev 5
+nh 23 dev 5 via 192.168.1.2
+nh 24 dev 5 via 2001:db8:1::2
+nh 8 dev 3
+nh 27 dev 3 via 192.168.0.2
+10.1.0.0/16 table 254 proto 196 metric 20 nhid 21
+10.2.0.0/16 table 254 proto 196 metric 20 nhid 22
+10.3.0.0/16 table 254 proto 196 metric 20 Blackhole
+10.4.0.0/16 table 254 proto 196 metric 20 Unreachable
+10.5.0.0/24 table 254 proto 196 metric 20 nhid 27
+192.168.0.0/24 table 254 proto 2 metric 20 nhid 4
+192.168.1.0/24 table 254 proto 2 metric 20 nhid 5
+2001:db8:1::/64 table 254 proto 2 metric 20 nhid 6
+2001:db8:5::/48 table 254 proto 196 metric 20 nhid 24
+fe80::/64 table 254 proto 2 metric 20 nhid 8
-10.2.0.0/16 table 254 proto 196 metric 20 -; +10.2.0.0/16 table 254 proto 196 metric 20 nhid 21
-nh 22
-nh 23
+nh 31 dev 5 via 192.168.1.7
-10.1.0.0/16 table 254 proto 196 metric 20 -; +10.1.0.0/16 table 254 proto 196 metric 20 nhid 31
+nh 34 dev 5 via 192.168.1.7
-10.5.0.0/24 table 254 proto 196 metric 20 -; +10.5.0.0/24 table 254 proto 196 metric 20 nhid 34
-nh 27
-10.3.0.0/16 table 254 proto 196 metric 20 -
-nh 19";
    // The types of the removed routes are 0.
    let lines = lines(&recorded()).join("\n").replace("Other(0)", "-");
    assert_eq!(lines, expected);
}

#[test]
fn frames_are_split_wherever_the_stream_is_cut() {
    let stream = recorded();
    let (mut rest, mut ends) = (&stream[..], Vec::from([0]));
    while split(&mut rest).unwrap().is_some() {
        ends.push(stream.len() - rest.len());
    }
    for cut in 0..=stream.len() {
        let whole = *ends.iter().rfind(|end| **end <= cut).unwrap();
        assert_eq!(whole_frames(&stream[..cut]), Ok(whole));
    }
}

#[test]
fn a_stream_that_is_not_fpm_is_an_error() {
    assert_eq!(split(&mut &[2, 1, 0, 4][..]), Err(FpmError::Version(2)));
    assert_eq!(split(&mut &[1, 2, 0, 4][..]), Err(FpmError::Type(2)));
    assert_eq!(split(&mut &[1, 1, 0, 3][..]), Err(FpmError::Length(3)));
    assert_eq!(split(&mut &[1, 1, 0][..]), Ok(None));
    assert_eq!(split(&mut &[1, 1, 0, 5][..]), Ok(None));
    let text = |why: FpmError| why.to_string();
    assert_eq!(text(FpmError::Version(2)), "FPM version 2 is not supported, only 1");
    assert_eq!(text(FpmError::Type(2)), "FPM with protobuf is not supported: load dplane_fpm_nl in zebra");
    assert_eq!(text(FpmError::Type(9)), "FPM message type 9 is not supported, only 1 (netlink)");
    assert_eq!(text(FpmError::Length(3)), "FPM frame length 3 is shorter than its header");
    let frames = [1, 1, 0, 4, 1, 1, 0, 4, 7, 7, 7, 7];
    assert_eq!(whole_frames(&frames), Err((8, FpmError::Version(7))));
}

#[test]
fn a_changed_stream_is_parsed_or_rejected() {
    let stream = recorded();
    for at in 0..stream.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = stream.clone();
            changed[at] = value;
            crate::fuzz::fpm(&changed);
        }
        crate::fuzz::fpm(&stream[at..]);
    }
}
