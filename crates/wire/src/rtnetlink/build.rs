//! Writes messages as `zebra` sends them, for tests and measurements.

use super::{
    AF_INET, AF_INET6, ALIGN, ATTRIBUTE_LEN, DELNEXTHOP, DELROUTE, HEADER_LEN, NEWNEXTHOP, NEWROUTE, NHA_GATEWAY,
    NHA_GROUP, NHA_ID, NHA_OIF, RTA_DST, RTA_GATEWAY, RTA_MULTIPATH, RTA_NH_ID, RTA_OIF, RTA_TABLE,
};
use alloc::vec::Vec;
use core::net::IpAddr;

/// A message that is being written.
#[derive(Clone, Debug)]
pub struct Builder {
    ty: u16,
    header: Vec<u8>,
    attributes: Vec<u8>,
}

fn put_attribute(to: &mut Vec<u8>, ty: u16, parts: &[&[u8]]) {
    let len = ATTRIBUTE_LEN + parts.iter().map(|part| part.len()).sum::<usize>();
    to.extend((len as u16).to_ne_bytes());
    to.extend(ty.to_ne_bytes());
    parts.iter().for_each(|part| to.extend(*part));
    to.resize(to.len().next_multiple_of(ALIGN), 0);
}

/// Octets of an address, and its family.
fn octets(addr: IpAddr) -> (u8, Vec<u8>) {
    match addr {
        IpAddr::V4(addr) => (AF_INET, addr.octets().to_vec()),
        IpAddr::V6(addr) => (AF_INET6, addr.octets().to_vec()),
    }
}

impl Builder {
    /// Begins a message of any type, without a header of its own.
    pub fn other(ty: u16) -> Builder {
        Builder { ty, header: Vec::new(), attributes: Vec::new() }
    }

    fn of_route(ty: u16, dst: IpAddr, len: u8, proto: u8) -> Builder {
        let (family, dst) = octets(dst);
        let header = Vec::from([family, len, 0, 0, 254, proto, 0, 1, 0, 0, 0, 0]);
        Builder { ty, header, attributes: Vec::new() }.and(RTA_DST, &[&dst])
    }

    /// Begins a unicast route of the main table to the first `len` bits of `dst`, from protocol
    /// `proto`.
    pub fn new_route(dst: IpAddr, len: u8, proto: u8) -> Builder {
        Builder::of_route(NEWROUTE, dst, len, proto)
    }

    /// Begins the removal of a route.
    pub fn del_route(dst: IpAddr, len: u8, proto: u8) -> Builder {
        Builder::of_route(DELROUTE, dst, len, proto)
    }

    fn of_next_hop(ty: u16, family: u8, id: u32) -> Builder {
        let header = Vec::from([family, 0, 0, 0, 0, 0, 0, 0]);
        Builder { ty, header, attributes: Vec::new() }.and(NHA_ID, &[&id.to_ne_bytes()])
    }

    /// Begins next hop `id` through `gateway` on the interface with index `oif`.
    pub fn new_next_hop(id: u32, oif: u32, gateway: IpAddr) -> Builder {
        let (family, gateway) = octets(gateway);
        let hop = Builder::of_next_hop(NEWNEXTHOP, family, id);
        hop.and(NHA_OIF, &[&oif.to_ne_bytes()]).and(NHA_GATEWAY, &[&gateway])
    }

    /// Begins next hop `id` with several paths: (number of a next hop, weight from 1 to 256).
    pub fn new_group(id: u32, members: &[(u32, u16)]) -> Builder {
        let member = |(id, weight): &(u32, u16)| {
            let [a, b, c, d] = id.to_ne_bytes();
            [a, b, c, d, weight.saturating_sub(1) as u8, 0, 0, 0]
        };
        let members: Vec<u8> = members.iter().flat_map(member).collect();
        Builder::of_next_hop(NEWNEXTHOP, 0, id).and(NHA_GROUP, &[&members])
    }

    /// Begins the removal of next hop `id`.
    pub fn del_next_hop(id: u32) -> Builder {
        Builder::of_next_hop(DELNEXTHOP, 0, id)
    }

    fn and(mut self, ty: u16, value: &[&[u8]]) -> Builder {
        put_attribute(&mut self.attributes, ty, value);
        self
    }

    /// Lets the route use next hop `id`.
    pub fn nh_id(self, id: u32) -> Builder {
        self.and(RTA_NH_ID, &[&id.to_ne_bytes()])
    }

    /// Lets the route use the interface with index `oif`.
    pub fn oif(self, oif: u32) -> Builder {
        self.and(RTA_OIF, &[&oif.to_ne_bytes()])
    }

    /// Lets the route use a gateway of its family.
    pub fn gateway(self, gateway: IpAddr) -> Builder {
        self.and(RTA_GATEWAY, &[&octets(gateway).1])
    }

    /// Lets the route use several paths: (index of the interface, gateway, weight from 1 to 256).
    pub fn multipath(self, paths: &[(u32, IpAddr, u16)]) -> Builder {
        let mut value = Vec::new();
        for (oif, gateway, weight) in paths {
            let mut attributes = Vec::new();
            put_attribute(&mut attributes, RTA_GATEWAY, &[&octets(*gateway).1]);
            value.extend((8 + attributes.len() as u16).to_ne_bytes());
            value.extend([0, weight.saturating_sub(1) as u8]);
            value.extend(oif.to_ne_bytes());
            value.extend(attributes);
        }
        self.and(RTA_MULTIPATH, &[&value])
    }

    /// Sets the type of the route (`rtm_type`), such as 6 for a blackhole.
    pub fn kind(mut self, kind: u8) -> Builder {
        self.header.iter_mut().skip(7).take(1).for_each(|byte| *byte = kind);
        self
    }

    /// Sets the table of the route.
    pub fn table(mut self, table: u32) -> Builder {
        let short = u8::try_from(table).unwrap_or(0);
        self.header.iter_mut().skip(4).take(1).for_each(|byte| *byte = short);
        if short == 0 { self.and(RTA_TABLE, &[&table.to_ne_bytes()]) } else { self }
    }

    /// Appends the message to `to`.
    pub fn emit(&self, to: &mut Vec<u8>) {
        let len = HEADER_LEN + self.header.len() + self.attributes.len();
        to.extend((len as u32).to_ne_bytes());
        to.extend(self.ty.to_ne_bytes());
        to.extend([0; 10]);
        to.extend(&self.header);
        to.extend(&self.attributes);
    }
}
