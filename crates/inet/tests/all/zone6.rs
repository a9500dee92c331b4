//! Tests of link-local addresses, each of which belongs to one link: RFC 4007, RFC 4291 2.5.6.

use crate::common::six::*;
use crate::common::*;
use linerate_inet::ip4::OutputError;
use linerate_inet::udp::{BindError, SendError};
use linerate_inet::zone;
use lock::Locks;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

conversations! {
    a_link_local_address_belongs_to_its_link
    a_received_address_with_zone_bits_is_dropped
    our_own_link_local_address_on_another_link_is_a_neighbors
}

fn a_link_local_address_belongs_to_its_link<L: Locks>() {
    let h = Host::<L>::router6();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.near, PEER6.mac);
    h.stack.set_neighbor6(h.cx(), EM1, PEER6.near, FAR6.mac); // another host, with the same address on the other link
    h.forget_counters();
    let s = h.bound6(any6(9));
    h.inject(EM0, udp6((PEER6.near, 5), (ME6.near, 9), b"one").between(PEER6, ME6));
    h.inject(EM1, udp6((PEER6.near, 5), (MY6.near, 9), b"two").between(FAR6, MY6));
    let (one, two) = (h.recv(s).unwrap(), h.recv(s).unwrap());
    let scoped = |iface| SocketAddr::from(SocketAddrV6::new(PEER6.near, 5, 0, zone::scope_id(iface)));
    assert_eq!([one.1, two.1], [scoped(EM0), scoped(EM1)]);
    for (iface, from, to, mac) in [(EM1, MY6, two.1, FAR6.mac), (EM0, ME6, one.1, PEER6.mac)] {
        assert_eq!(h.send(s, b"answer", to), Ok(6));
        let (link, header, payload) = h.sent6_one(iface);
        assert_eq!((link.dst, header.src, header.dst), (mac, from.near, PEER6.near), "no zone goes on the wire");
        udp6_of(&header, &payload);
    }
    // A socket connected to one address does not receive from the same address on the other link.
    // Without a zone, the address is unreachable.
    let c = h.bound6(any6(10));
    h.stack.udp_connect(h.cx(), c, scoped(EM1)).unwrap();
    h.inject(EM0, udp6((PEER6.near, 5), (ME6.near, 10), b"one").between(PEER6, ME6));
    h.inject(EM1, udp6((PEER6.near, 5), (MY6.near, 10), b"two").between(FAR6, MY6));
    assert_eq!((h.recv(c), h.recv(c)), (Some((b"two".to_vec(), scoped(EM1))), None));
    h.sent(EM0);
    let plain = SocketAddr::from((PEER6.near, 5));
    assert_eq!(h.send(s, b"x", plain), Err(SendError::Output(OutputError::NoRoute)));
    let bare = h.open6();
    assert_eq!(h.stack.udp_bind(h.cx(), bare, (ME6.near, 11).into()), Err(BindError::Invalid));
    let bind = |addr: Ipv6Addr, iface| {
        let scoped = SocketAddrV6::new(addr, 11, 0, zone::scope_id(iface));
        h.stack.udp_bind(h.cx(), bare, scoped.into())
    };
    assert_eq!(bind(ME6.near, EM1), Err(BindError::NotOurs), "on the other link, the address is not ours");
    let unknown = SocketAddrV6::new(ME6.near, 11, 0, 77);
    assert_eq!(h.stack.udp_bind(h.cx(), bare, unknown.into()), Err(BindError::NotOurs), "unknown zone");
    let forged: Ipv6Addr = Ipv6Addr::from_bits(ME6.near.to_bits() | 1 << 96);
    assert_eq!(h.stack.udp_bind(h.cx(), bare, (forged, 11).into()), Err(BindError::Invalid), "no zone");
    assert_eq!(bind(ME6.near, EM0), Ok(near(ME6.near, 11)));
    h.inject(EM0, udp6((PEER6.near, 5), (ME6.near, 11), b"here").between(PEER6, ME6));
    assert_eq!(h.recv(bare).unwrap().0, b"here");
    h.audit();
}

/// RFC 4291 2.5.6: the bits in which the stack stores the zone are 0 on a wire; a packet that sets
/// them is dropped.
fn a_received_address_with_zone_bits_is_dropped<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    h.bound6(any6(9));
    let forged = |addr: Ipv6Addr| Ipv6Addr::from_bits(addr.to_bits() | 2 << 96);
    h.inject(EM0, udp6((forged(PEER6.near), 5), (ME6.near, 9), b"x").between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.in.martian_source 1");
    h.inject(EM0, udp6((PEER6.near, 5), (forged(ME6.near), 9), b"x").between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.in.martian_destination 1");
    h.audit();
}

/// The same link-local address on another link belongs to another host (RFC 4007 6).
fn our_own_link_local_address_on_another_link_is_a_neighbors<L: Locks>() {
    let h = Host::<L>::router6();
    h.stack.set_neighbor6(h.cx(), EM1, ME6.near, FAR6.mac);
    let s = h.bound6(any6(9));
    let to = SocketAddrV6::new(ME6.near, 5, 0, zone::scope_id(EM1));
    assert_eq!(h.send(s, b"x", SocketAddr::from(to)), Ok(1));
    assert_eq!(h.sent6_one(EM1).0.dst, FAR6.mac);
    h.audit();
}
