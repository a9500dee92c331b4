//! Packets drawn from a seed, as input to both routers.

use super::net::{GATEWAYS, LINKS, SECOND, STATIONS};
use super::packet::{DF, MF, Packet, Spoilt, icmp, tcp, udp};
use crate::common::Rng;
use std::net::Ipv4Addr;
use wire::{Mac, Proto};

pub struct Draw {
    pub rng: Rng,
    /// The /24 of the current stations, and the next station in it. Stations change, since the
    /// kernel redirects each one only rarely.
    third: u8,
    next: u8,
}

impl Draw {
    pub fn new(seed: u64, turn: usize) -> Draw {
        Draw { rng: Rng(seed), third: 1 + turn as u8, next: 0 }
    }

    /// Draws a packet as a frame, and the link by which it arrives.
    pub fn any(&mut self) -> (usize, Vec<u8>) {
        let link = self.rng.below(2);
        let (src, dst) = (self.source(link), self.destination(link));
        let proto = self.rng.one(&[17, 17, 17, 6, 6, 1, 1, 1, 132, 99, 253]);
        let payload = self.payload(src, dst, proto);
        let mut packet = Packet::new(src, dst, Proto(proto), payload);
        packet.tos = self.rng.one(&[0, 0, 0x10, 0xb8, 0x01, 0x04, 0xe0]);
        packet.id = self.rng.next() as u16;
        packet.frag = self.fragment();
        packet.ttl = self.rng.one(&[0, 1, 2, 64, 64, 64, 64, 255]);
        if self.rng.below(3) == 0 {
            packet = packet.options(&self.options());
        }
        packet.to = self.station(dst);
        packet.spoilt = self.spoilt();
        let room = 1480 - packet.options.len() - packet.payload.len();
        packet.padding = self.rng.one(&[0, 0, 0, 0, 1, 18]).min(room);
        (link, packet.frame(link))
    }

    /// Draws a source address. Most are beyond a link, where there are so many that the kernel's
    /// limit of errors per source is not reached.
    fn source(&mut self, link: usize) -> Ipv4Addr {
        match self.rng.below(24) {
            0 => self.odd_address(),
            1 => self.far(1 - link),
            2 => Ipv4Addr::new(10, 6, 0, 1 + self.rng.below(250) as u8),
            3 => Ipv4Addr::new(10, 3 + self.rng.below(3) as u8, 0, 1 + self.rng.below(250) as u8),
            4 => LINKS[1].addr,
            5..=8 if link == 0 && self.next < STATIONS => {
                self.next += 1;
                Ipv4Addr::new(10, 0, self.third, self.next)
            }
            _ => self.far(link),
        }
    }

    /// Returns an address beyond a link.
    fn far(&mut self, link: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 1 + link as u8, 10 + self.rng.below(200) as u8, 1 + self.rng.below(250) as u8)
    }

    fn destination(&mut self, link: usize) -> Ipv4Addr {
        match self.rng.below(40) {
            0 | 1 => self.odd_address(),
            2..=6 => LINKS[self.rng.below(2)].addr,
            7 | 8 => Ipv4Addr::new(10, 6, 0, 1),
            9..=11 => Ipv4Addr::new(10, 3 + self.rng.below(3) as u8, 0, 1),
            12..=14 => Ipv4Addr::new(10, 2, 9, 9),
            15..=17 => Ipv4Addr::new(10, 0, 1 + self.rng.below(3) as u8, 1 + self.rng.below(200) as u8),
            18..=20 => Ipv4Addr::new(10, 0, 4, 2 + self.rng.below(200) as u8),
            21 => self.rng.one(&[GATEWAYS[0], GATEWAYS[1], SECOND]),
            22..=24 => self.far(link),
            _ => self.far(1 - link),
        }
    }

    /// Draws an address that is unspecified, multicast, broadcast or loopback.
    fn odd_address(&mut self) -> Ipv4Addr {
        let all: [[u8; 4]; 16] = [
            [0, 0, 0, 0],
            [0, 1, 2, 3],
            [127, 0, 0, 1],
            [127, 9, 9, 9],
            [224, 0, 0, 1],
            [224, 0, 0, 5],
            [239, 1, 2, 3],
            [240, 0, 0, 1],
            [255, 255, 255, 254],
            [255, 255, 255, 255],
            [10, 0, 3, 255],
            [10, 0, 4, 255],
            [10, 0, 0, 1],
            [10, 0, 4, 1],
            [169, 254, 1, 1],
            [192, 0, 2, 1],
        ];
        self.rng.one(&all).into()
    }

    fn payload(&mut self, src: Ipv4Addr, dst: Ipv4Addr, proto: u8) -> Vec<u8> {
        let len = self.rng.one(&[0, 1, 8, 64, 500, 552, 572, 580, 581, 600, 800, 1300, 1420]);
        let mut payload = match proto {
            17 => udp(src, dst, len),
            6 => {
                let flags = self.rng.one(&[0x02, 0x10, 0x18, 0x11, 0x04, 0x12, 0x14]);
                tcp(src, dst, flags, len)
            }
            1 => self.message(len),
            _ => (0..len).map(|at| at as u8).collect(),
        };
        if self.rng.below(20) == 0
            && let Some(byte) = payload.last_mut()
        {
            *byte ^= 1; // its checksum no longer verifies
        }
        payload
    }

    /// Draws an ICMP message, possibly an error, about a packet that the router may have sent.
    fn message(&mut self, len: usize) -> Vec<u8> {
        let ty = self.rng.one(&[8, 8, 8, 0, 3, 4, 5, 11, 12, 15, 17, 30]);
        let body = match ty {
            3 | 4 | 5 | 11 | 12 => {
                let (src, dst) = (LINKS[self.rng.below(2)].addr, self.far(0));
                Packet::udp(src, dst, 8).frame(0).split_off(14)
            }
            _ => (0..len).map(|at| at as u8).collect(),
        };
        icmp(ty, self.rng.below(5) as u8 * u8::from(ty != 8), self.rng.next() as u32, &body)
    }

    fn fragment(&mut self) -> u16 {
        match self.rng.below(10) {
            0..=3 => DF,
            4 => MF,
            5 => MF | self.rng.below(100) as u16,
            6 => 1 + self.rng.below(100) as u16,
            _ => 0,
        }
    }

    fn options(&mut self) -> Vec<u8> {
        let mut options = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            let one = self.option();
            if options.len() + one.len() <= 40 {
                options.extend(one);
            }
        }
        options
    }

    fn option(&mut self) -> Vec<u8> {
        let slots = 1 + self.rng.below(4);
        match self.rng.below(16) {
            0 | 1 => vec![1],
            2 => vec![0],
            3..=5 => self.route(7, slots),
            6 => {
                let kind = self.rng.one(&[131, 137]);
                self.route(kind, slots)
            }
            7..=10 => self.timestamp(slots),
            11 => vec![148, 4, 0, 0],
            12 => vec![0x9e, 6, 1, 2, 3, 4],
            13 => vec![82, 3, 9],
            _ => self.malformed(),
        }
    }

    fn route(&mut self, kind: u8, slots: usize) -> Vec<u8> {
        let len = 3 + 4 * slots;
        let filled = self.rng.below(slots + 1);
        let mut option = vec![kind, len as u8, 4 + 4 * filled as u8];
        option.resize(len, 9);
        option
    }

    fn timestamp(&mut self, slots: usize) -> Vec<u8> {
        let flag = self.rng.one(&[0, 1, 3, 2]);
        let entry = if flag == 0 { 4 } else { 8 };
        let (slots, filled) = (slots.min(4), self.rng.below(slots + 1));
        let overflow = self.rng.one(&[0, 0, 1, 14, 15]);
        let mut option = vec![68, (4 + entry * slots) as u8, (5 + entry * filled) as u8, overflow << 4 | flag];
        for slot in 0..slots {
            let addr = self.rng.one(&[LINKS[0].addr, LINKS[1].addr, GATEWAYS[1]]);
            let word = if flag == 3 { addr.octets() } else { [slot as u8; 4] };
            option.extend(word);
            if flag != 0 {
                option.extend([0; 4]);
            }
        }
        option
    }

    fn malformed(&mut self) -> Vec<u8> {
        let kind = self.rng.one(&[7, 68, 131, 137, 148, 0x9e]);
        match self.rng.below(6) {
            0 => vec![kind, 0, 4],
            1 => vec![kind, 1, 4],
            2 => vec![kind, 41, 4],
            3 => vec![kind],
            4 => vec![kind, 2],
            // A pointer into the option's header or between two entries, or a length between two
            // entries.
            _ => {
                let (len, pointer) = (self.rng.one(&[7, 8, 10, 12]), self.rng.below(16) as u8);
                let mut option = vec![kind, len, pointer, 0];
                option.resize(usize::from(len), 0);
                option
            }
        }
    }

    /// Draws the link address for a destination, or one that does not match it.
    fn station(&mut self, dst: Ipv4Addr) -> Option<Mac> {
        let group = dst.is_multicast().then(|| Mac::multicast4(dst));
        match self.rng.below(30) {
            0 => Some(Mac::BROADCAST),
            1 => Some(Mac([0x02, 0, 0, 0, 0, 99])),
            2 => None,
            _ if dst.is_broadcast() => Some(Mac::BROADCAST),
            _ => group,
        }
    }

    fn spoilt(&mut self) -> Spoilt {
        match self.rng.below(60) {
            0 => Spoilt::Checksum,
            1 => Spoilt::Version,
            2 => Spoilt::Ihl(self.rng.below(16) as u8),
            3 => Spoilt::TotalLen(self.rng.below(60) as i16 - 30),
            _ => Spoilt::Not,
        }
    }
}
