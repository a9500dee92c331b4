//! A BGP speaker (RFC 4271, RFC 4760) that announces a table with the prefix lengths of the
//! Internet's, to test routers with many routes.

use port::os::netns::Namespace;
use std::io::{BufWriter, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::time::Duration;

/// A prefix: address and length.
pub type Prefix = (IpAddr, u8);

/// Number of prefixes in an UPDATE, about as many as routers announce with equal attributes.
const PER_UPDATE: usize = 5;
/// Lengths of IPv4 prefixes, from the shortest, and their share of the table in thousandths (CIDR
/// report, 2024: /24 about 60 %, /22 12 %, /23 10 %; the lengths that are left out are added to /24).
const LENGTHS: [(u8, usize); 9] =
    [(16, 13), (17, 8), (18, 13), (19, 24), (20, 43), (21, 50), (22, 118), (23, 99), (24, 632)];
/// Lengths of IPv6 prefixes, and their share in thousandths.
const LENGTHS6: [(u8, usize); 6] = [(32, 120), (36, 40), (40, 110), (44, 130), (46, 100), (48, 500)];

/// Returns `v4` and `v6` different prefixes.
pub fn table(v4: usize, v6: usize) -> Vec<Prefix> {
    let mut all: Vec<Prefix> = Vec::with_capacity(v4 + v6);
    let mut next: u32 = 11 << 24;
    for (len, share) in LENGTHS {
        let count = if len == 24 { v4 - all.len() } else { v4 * share / 1000 };
        for _ in 0..count {
            next = if next >> 24 == 127 { 128 << 24 } else { next };
            all.push((Ipv4Addr::from_bits(next).into(), len));
            next += 1 << (32 - len);
        }
    }
    let mut next: u128 = 0x2a00 << 112;
    for (len, share) in LENGTHS6 {
        let count = if len == 48 { v4 + v6 - all.len() } else { v6 * share / 1000 };
        for _ in 0..count {
            all.push((Ipv6Addr::from_bits(next).into(), len));
            next += 1 << (128 - len);
        }
    }
    all
}

/// An established session.
pub struct Speaker {
    stream: BufWriter<TcpStream>,
    number: u32,
}

impl Speaker {
    /// Connects to the neighbor `peer` from the namespace `within`, as the autonomous system
    /// `number`.
    pub fn connect(within: &Namespace, peer: Ipv4Addr, number: u32, id: Ipv4Addr) -> Speaker {
        let mut stream = within.within(|| TcpStream::connect((peer, 179)).unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // Multiprotocol extensions for IPv4 and IPv6 unicast, and numbers of four bytes.
        let [a, b, c, d] = number.to_be_bytes();
        let capabilities = [1, 4, 0, 1, 0, 1, 1, 4, 0, 2, 0, 1, 65, 4, a, b, c, d];
        let mut open = vec![4, c, d, 0, 0]; // hold time 0: no KEEPALIVEs (RFC 4271 4.2)
        open.extend(id.octets());
        open.extend([capabilities.len() as u8 + 2, 2, capabilities.len() as u8]);
        open.extend(capabilities);
        stream.write_all(&message(1, &open)).unwrap();
        assert_eq!(read(&mut stream), 1, "the neighbor's OPEN");
        stream.write_all(&message(4, &[])).unwrap();
        assert_eq!(read(&mut stream), 4, "the neighbor's KEEPALIVE");
        // The neighbor's messages are read and ignored. The session ends with the socket.
        let mut from = stream.try_clone().unwrap();
        from.set_read_timeout(None).unwrap();
        std::thread::spawn(move || std::io::copy(&mut from, &mut std::io::sink()));
        Speaker { stream: BufWriter::with_capacity(1 << 16, stream), number }
    }

    /// Announces prefixes of one or both families, with a next hop for each.
    pub fn announce(&mut self, prefixes: &[Prefix], next_hop: Ipv4Addr, next_hop6: Ipv6Addr) {
        let mut path = vec![0x40, 1, 1, 0, 0x40, 2, 6, 2, 1];
        path.extend(self.number.to_be_bytes());
        for (is_v6, prefixes) in runs(prefixes) {
            let nlri: Vec<u8> = prefixes.iter().flat_map(|prefix| encoded(*prefix)).collect();
            let mut attributes = path.clone();
            if is_v6 {
                let len = 21 + nlri.len() as u16;
                attributes.extend([0x90, 14]);
                attributes.extend(len.to_be_bytes());
                attributes.extend([0, 2, 1, 16]);
                attributes.extend(next_hop6.octets());
                attributes.push(0);
                attributes.extend(&nlri);
                self.update(&[], &attributes, &[]);
            } else {
                attributes.extend([0x40, 3, 4]);
                attributes.extend(next_hop.octets());
                self.update(&[], &attributes, &nlri);
            }
        }
        self.stream.flush().unwrap();
    }

    /// Withdraws prefixes.
    pub fn withdraw(&mut self, prefixes: &[Prefix]) {
        for (is_v6, prefixes) in runs(prefixes) {
            let nlri: Vec<u8> = prefixes.iter().flat_map(|prefix| encoded(*prefix)).collect();
            if is_v6 {
                let mut attributes = vec![0x90, 15];
                attributes.extend((3 + nlri.len() as u16).to_be_bytes());
                attributes.extend([0, 2, 1]);
                attributes.extend(&nlri);
                self.update(&[], &attributes, &[]);
            } else {
                self.update(&nlri, &[], &[]);
            }
        }
        self.stream.flush().unwrap();
    }

    fn update(&mut self, withdrawn: &[u8], attributes: &[u8], nlri: &[u8]) {
        let lens = [withdrawn.len(), attributes.len()].map(|len| (len as u16).to_be_bytes());
        let body = [&lens[0], withdrawn, &lens[1], attributes, nlri].concat();
        self.stream.write_all(&message(2, &body)).unwrap();
    }
}

/// Splits prefixes into parts for one UPDATE each: (true for IPv6, prefixes).
fn runs(prefixes: &[Prefix]) -> impl Iterator<Item = (bool, &[Prefix])> {
    let families = prefixes.chunk_by(|one, other| one.0.is_ipv6() == other.0.is_ipv6());
    families.flat_map(|of| of.chunks(PER_UPDATE)).map(|of| (of[0].0.is_ipv6(), of))
}

/// Returns a prefix as in NLRI: its length and as many bytes as it needs.
fn encoded((addr, len): Prefix) -> Vec<u8> {
    let octets = match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    };
    [&[len], &octets[..usize::from(len).div_ceil(8)]].concat()
}

fn message(ty: u8, body: &[u8]) -> Vec<u8> {
    let len = (19 + body.len() as u16).to_be_bytes();
    [&[0xff; 16][..], &len, &[ty], body].concat()
}

/// Reads a message, and returns its type.
fn read(stream: &mut TcpStream) -> u8 {
    let mut header = [0; 19];
    stream.read_exact(&mut header).unwrap();
    let len = u16::from_be_bytes([header[16], header[17]]);
    stream.read_exact(&mut vec![0; usize::from(len) - header.len()]).unwrap();
    header[18]
}

#[test]
fn a_table_has_different_prefixes_with_zeros_after_them() {
    let all = table(20_000, 4_000);
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!((all.len(), different.len()), (24_000, 24_000));
    for (addr, len) in all {
        let (bits, width) = match addr {
            IpAddr::V4(addr) => (u128::from(addr.to_bits()), 32),
            IpAddr::V6(addr) => (addr.to_bits(), 128),
        };
        assert_eq!(bits & ((1 << (width - len)) - 1), 0, "{addr}/{len}");
    }
    let last = table(1_000_000, 0).into_iter().map(|(addr, _)| addr).max();
    assert!(last < Some(IpAddr::from([224, 0, 0, 0])), "{last:?}");
}
