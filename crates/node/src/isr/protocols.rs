//! The frames that netisr queues, and the protocols that netisr distinguishes.

use buf::Frame;
use dispatch::netisr::{Item, Netisr, NetisrError, ProtoId, Protocol};
use inet::iface::IfaceId;
use wire::eth::{EtherType, Header};

/// A frame received from a port.
#[derive(Debug)]
pub struct Received {
    pub(super) iface: IfaceId,
    pub(crate) frame: Frame,
}

impl Item for Received {}

impl Received {
    pub(crate) fn iface(&self) -> IfaceId {
        self.iface
    }

    pub(crate) fn new(iface: IfaceId, frame: Frame) -> Received {
        Received { iface, frame }
    }
}

/// Indices of netisr's protocols. The protocol ether is for VLAN-tagged frames and all other
/// EtherTypes.
pub(crate) const IP: usize = 0;
pub(crate) const ARP: usize = 1;
pub(crate) const ETHER: usize = 2;
pub(crate) const IP6: usize = 3;
/// Number of netisr's protocols.
pub(crate) const CLASSES: usize = 4;
/// Names of the protocols, and their numbers in FreeBSD. FreeBSD's queues for IGMP and routing
/// sockets do not exist here, because IGMP is processed as IP, and there are no routing sockets.
pub(crate) const PROTOCOLS: [(&str, u8); CLASSES] = [("ip", 1), ("arp", 4), ("ether", 5), ("ip6", 6)];

/// Returns the bytes after the Ethernet header.
pub(crate) fn packet(received: &Received) -> &[u8] {
    received.frame.bytes().get(wire::eth::HEADER_LEN..).unwrap_or_default()
}

/// Returns the protocol with index `at`, with its name and number.
pub(crate) fn named(at: usize) -> Protocol<Received> {
    PROTOCOLS.get(at).map_or(Protocol::new("", 0), |(name, number)| Protocol::new(name, *number))
}

/// Returns the identifiers of the protocols, by index.
pub(crate) fn ids(netisr: &Netisr<Received>) -> Result<[ProtoId; CLASSES], NetisrError> {
    let id = |at: usize| netisr.protocol(PROTOCOLS.get(at).map_or("", |(name, _)| name));
    Ok([id(IP)?, id(ARP)?, id(ETHER)?, id(IP6)?])
}

/// Returns the index of the protocol to which a frame belongs.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn class_of(frame: &Frame) -> usize {
    match Header::parse(frame.bytes()).map(|header| header.ethertype) {
        Ok(EtherType::IPV4) => IP,
        Ok(EtherType::ARP) => ARP,
        Ok(EtherType::IPV6) => IP6,
        _ => ETHER,
    }
}
