use super::message::Message;
use super::*;
use crate::tap::{self, TapConfig};
use crate::testns::{has_tun, isolated};
use buf::{Pool, PoolConfig};
use clock::Instant;
use std::net::Ipv4Addr;
use std::net::UdpSocket;

#[test]
fn attributes_are_padded_and_nested_ones_have_their_length() {
    let mut message = Message::new(libc::RTM_NEWLINK, 0);
    message.nest(5, |nest| nest.text(1, "veth"));
    let bytes = message.finish(7);
    assert_eq!(bytes.len(), 16 + 4 + 12);
    assert_eq!(bytes[..4], 32u32.to_ne_bytes());
    assert_eq!(bytes[8..12], 7u32.to_ne_bytes());
    assert_eq!(bytes[16..18], 16u16.to_ne_bytes(), "a nest counts its padding");
    assert_eq!(bytes[20..22], 9u16.to_ne_bytes(), "an attribute does not");
}

#[test]
fn truncated_or_invalid_replies_end_the_parsing() {
    for len in 0..16 {
        assert!(Reader::new(&vec![0xff; len]).next().is_none());
    }
    let mut bytes = vec![0; 20];
    bytes[..4].copy_from_slice(&1000u32.to_ne_bytes());
    assert!(Reader::new(&bytes).next().is_none());
}

#[test]
fn attributes_are_found_at_any_depth_and_invalid_ones_end_the_search() {
    let mut message = Message::new(libc::RTM_NEWQDISC, 0);
    message.text(1, "abc");
    message.nest(7, |stats| stats.attr(3, &[1, 0, 0, 0]));
    let bytes = message.finish(0);
    let nest = message::find(&bytes[16..], 7).unwrap();
    assert_eq!(message::find(nest, 3).and_then(|value| message::word(value, 0)), Some(1u32.to_le()));
    assert_eq!(message::find(nest, 4), None);
    for absurd in [&[4, 0][..], &[0; 64], &[0xff; 64]] {
        assert_eq!(message::find(absurd, 1), None);
    }
}

#[test]
fn counters_wrap_around() {
    let before = TxDrops { queues: u32::MAX - 1, driver: 7 };
    assert_eq!(TxDrops { queues: 3, driver: 8 }.since(before), 6);
}

#[test]
fn an_unknown_device_is_an_error() {
    let error = Netlink::open().unwrap().ifindex("no-such-dev0").unwrap_err();
    assert_eq!(error.errno, libc::ENODEV);
    assert!(error.to_string().starts_with("find no-such-dev0: No such device (os error 19)"), "{error}");
}

#[test]
fn links_addresses_neighbours_and_routes_are_set() {
    isolated("os::netlink::tests::links_addresses_neighbours_and_routes_are_set", || {
        let mut netlink = Netlink::open().unwrap();
        netlink.set_up("lo").unwrap();
        match netlink.add_veth("va", "vb") {
            Err(error) if error.errno == libc::EOPNOTSUPP => return println!("skipped: {error}"),
            answer => answer.unwrap(),
        }
        netlink.set_mtu("va", 1400).unwrap();
        netlink.set_mac("va", Mac([2, 0, 0, 0, 0, 1])).unwrap();
        let group = netlink.set_mac("va", Mac([3, 0, 0, 0, 0, 1])).unwrap_err();
        assert_eq!(group.errno, libc::EADDRNOTAVAIL, "{group}");
        netlink.set_up("va").unwrap();
        netlink.set_up("vb").unwrap();
        netlink.add_addr("va", Ipv4Addr::new(10, 1, 0, 1), 24).unwrap();
        let twice = netlink.add_addr("va", Ipv4Addr::new(10, 1, 0, 1), 24).unwrap_err();
        assert_eq!(twice.errno, libc::EEXIST, "{twice}");
        netlink.add_neighbor("va", Ipv4Addr::new(10, 1, 0, 2), Mac([2, 0, 0, 0, 0, 2])).unwrap();
        netlink.add_route(Ipv4Addr::new(10, 2, 0, 0), 16, Some(Ipv4Addr::new(10, 1, 0, 2)), "va").unwrap();
        netlink.add_route(Ipv4Addr::new(10, 3, 0, 0), 16, None, "va").unwrap();
        let nowhere = netlink.add_route(Ipv4Addr::new(10, 4, 0, 0), 16, Some(Ipv4Addr::new(9, 9, 9, 9)), "va");
        assert_eq!(nowhere.unwrap_err().errno, libc::ENETUNREACH);
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(b"x", "10.2.3.4:9").unwrap();
        assert_eq!(crate::os::tun::mtu("va").unwrap(), 1400);
        netlink.set_down("va").unwrap();
        assert!(socket.send_to(b"x", "10.2.3.4:9").is_err(), "no route leads through a device that is down");
        netlink.delete_link("va").unwrap();
        assert!(netlink.ifindex("vb").is_err(), "the peer was deleted too");
    });
}

#[test]
fn drop_filters_drop_and_name_the_classifier() {
    let name = "os::netlink::tests::drop_filters_drop_and_name_the_classifier";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let pool = Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap();
        let mut port = tap::open("tap0", &TapConfig { up: true, ..TapConfig::default() }, &pool).unwrap();
        let mut netlink = Netlink::open().unwrap();
        netlink.add_addr("tap0", Ipv4Addr::new(10, 1, 0, 1), 24).unwrap();
        netlink.add_neighbor("tap0", Ipv4Addr::new(10, 1, 0, 2), Mac([2, 0, 0, 0, 0, 2])).unwrap();
        for by in DropBy::ALL {
            let probe = tap::open("probe0", &TapConfig::default(), &pool).unwrap();
            let answer = netlink.add_drop_filter_by("probe0", by);
            println!("{by}: {}", answer.map_or_else(|error| error.to_string(), |()| "works".into()));
            drop(probe);
        }
        let socket = UdpSocket::bind("10.1.0.1:0").unwrap();
        let sent_and_seen = |port: &mut crate::Port| {
            socket.send_to(b"probe", "10.1.0.2:9").unwrap();
            let mut burst = buf::Burst::new();
            port.rx.rx_burst(&mut burst, 32, Instant::ZERO);
            burst.as_slice().iter().filter(|frame| frame.bytes().ends_with(b"probe")).count()
        };
        assert_eq!(sent_and_seen(&mut port), 1, "without the filter the frame arrives");
        match netlink.add_drop_filter("tap0") {
            Ok(by) => {
                println!("dropping by {by}");
                let before = netlink.tx_drops("tap0").unwrap();
                assert_eq!(sent_and_seen(&mut port), 0, "{by}");
                assert_eq!(netlink.tx_drops("tap0").unwrap().since(before), 1, "the dropped frame is counted");
            }
            Err(error) => println!("skipped: {error}"),
        }
    });
}

#[test]
fn changes_of_links_are_reported() {
    isolated("os::netlink::tests::changes_of_links_are_reported", || {
        let mut kernel = Netlink::open().unwrap();
        kernel.add_veth("a0", "b0").unwrap();
        let index = kernel.ifindex("a0").unwrap();
        let mut watch = LinkWatch::open().unwrap();
        assert_eq!(watch.take(), LinkChanges::default());
        assert_eq!(kernel.device("a0").unwrap(), DeviceLink { index, is_up: false, is_set_up: false });
        let last = |watch: &mut LinkWatch| {
            let links = watch.take().links;
            links.iter().rfind(|link| link.index == index).map(|link| link.is_up)
        };
        kernel.set_up("a0").unwrap();
        assert_eq!(last(&mut watch), Some(false), "up, but without carrier");
        kernel.set_up("b0").unwrap();
        assert!(crate::os::is_readable(watch.fd()));
        // The kernel reports the carrier from a work queue, up to a second later.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let mut state = last(&mut watch);
        while state != Some(true) {
            assert!(std::time::Instant::now() < end, "no carrier: {:?}", kernel.link_at(index));
            std::thread::sleep(std::time::Duration::from_millis(5));
            state = last(&mut watch).or(state);
        }
        assert_eq!(watch.link_at(index), Ok(Some(DeviceLink { index, is_up: true, is_set_up: true })));
        kernel.delete_link("a0").unwrap();
        assert_eq!(watch.link_at(index), Ok(None));
        watch.take();
        // More reports than the socket's buffer holds: the loss is reported.
        kernel.add_veth("a0", "b0").unwrap();
        for _ in 0..2_000 {
            kernel.set_mtu("a0", 1400).unwrap();
            kernel.set_mtu("a0", 1500).unwrap();
        }
        assert_eq!(watch.take(), LinkChanges { is_incomplete: true, ..LinkChanges::default() });
        kernel.set_mtu("a0", 1400).unwrap();
        assert!(!watch.take().links.is_empty(), "reports arrive again");
    });
}
