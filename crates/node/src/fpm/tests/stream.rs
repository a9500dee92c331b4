//! Writes FPM frames.

use inet::fib::{Prefix, Prefix6};
use std::net::IpAddr;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// A netlink message with attributes.
#[derive(Clone)]
pub(crate) struct Wire {
    ty: u16,
    header: Vec<u8>,
    attributes: Vec<u8>,
}

fn attribute(ty: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [(4 + value.len()) as u16, ty].map(u16::to_ne_bytes).concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

impl Wire {
    fn of_route(ty: u16, dst: IpAddr, len: u8, proto: u8) -> Wire {
        let (family, addr) = match dst {
            IpAddr::V4(addr) => (AF_INET, addr.octets().to_vec()),
            IpAddr::V6(addr) => (AF_INET6, addr.octets().to_vec()),
        };
        let header = vec![family, len, 0, 0, 254, proto, 0, 1, 0, 0, 0, 0];
        Wire { ty, header, attributes: attribute(1, &addr) }
    }

    pub(crate) fn route(to: Prefix, proto: u8) -> Wire {
        Wire::of_route(24, to.addr().into(), to.len(), proto)
    }

    pub(crate) fn route6(to: Prefix6, proto: u8) -> Wire {
        Wire::of_route(24, to.addr().into(), to.len(), proto)
    }

    pub(crate) fn del(to: Prefix, proto: u8) -> Wire {
        Wire::of_route(25, to.addr().into(), to.len(), proto)
    }

    fn of_hop(ty: u16, id: u32) -> Wire {
        Wire { ty, header: vec![AF_INET, 0, 0, 0, 0, 0, 0, 0], attributes: attribute(1, &id.to_ne_bytes()) }
    }

    /// A next hop through gateway 192.0.2.`last` on device `oif`.
    pub(crate) fn hop(id: u32, oif: u32, last: u8) -> Wire {
        Wire::of_hop(104, id).and(5, &oif.to_ne_bytes()).and(6, &[192, 0, 2, last])
    }

    pub(crate) fn hop6(id: u32, oif: u32) -> Wire {
        let mut hop = Wire::of_hop(104, id).and(5, &oif.to_ne_bytes()).and(6, &[0x20; 16]);
        hop.header[0] = AF_INET6;
        hop
    }

    pub(crate) fn group(id: u32, members: &[(u32, u16)]) -> Wire {
        let member = |(id, weight): &(u32, u16)| [&id.to_ne_bytes()[..], &[(weight - 1) as u8, 0, 0, 0]].concat();
        Wire::of_hop(104, id).and(2, &members.iter().flat_map(member).collect::<Vec<u8>>())
    }

    pub(crate) fn del_hop(id: u32) -> Wire {
        Wire::of_hop(105, id)
    }

    pub(crate) fn other(ty: u16) -> Wire {
        Wire { ty, header: Vec::new(), attributes: Vec::new() }
    }

    fn and(mut self, ty: u16, value: &[u8]) -> Wire {
        self.attributes.extend(attribute(ty, value));
        self
    }

    pub(crate) fn nh(self, id: u32) -> Wire {
        self.and(30, &id.to_ne_bytes())
    }

    pub(crate) fn dev(self, oif: u32) -> Wire {
        self.and(4, &oif.to_ne_bytes())
    }

    pub(crate) fn via(self, gateway: [u8; 4]) -> Wire {
        self.and(5, &gateway)
    }

    pub(crate) fn paths(self, paths: &[(u32, [u8; 4], u8)]) -> Wire {
        let path = |(oif, gateway, weight): &(u32, [u8; 4], u8)| {
            let head = [&16u16.to_ne_bytes()[..], &[0, weight - 1], &oif.to_ne_bytes()].concat();
            [head, attribute(5, gateway)].concat()
        };
        self.and(9, &paths.iter().flat_map(path).collect::<Vec<u8>>())
    }

    pub(crate) fn kind(mut self, kind: u8) -> Wire {
        self.header[7] = kind;
        self
    }

    pub(crate) fn table(mut self, table: u32) -> Wire {
        if let Ok(table) = u8::try_from(table) {
            self.header[4] = table;
            return self;
        }
        self.header[4] = 0;
        self.and(15, &table.to_ne_bytes())
    }

    fn bytes(&self) -> Vec<u8> {
        let len = (16 + self.header.len() + self.attributes.len()) as u32;
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend(self.ty.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(&self.header);
        bytes.extend(&self.attributes);
        bytes
    }
}

/// Returns a frame with these messages.
pub(crate) fn frame(messages: &[Wire]) -> Vec<u8> {
    let body: Vec<u8> = messages.iter().flat_map(Wire::bytes).collect();
    let [high, low] = ((body.len() + 4) as u16).to_be_bytes();
    [&[1, 1, high, low][..], &body].concat()
}
