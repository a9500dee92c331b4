//! Configuration of the source, and its default addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use wire::{L4Port, Mac, ip4, ip6};

/// Length of the Ethernet header in bytes.
pub const ETH: usize = 14;
/// Length of the UDP header in bytes.
pub const UDP: usize = 8;

/// Order of the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Round robin.
    #[default]
    Sequence,
    /// Pseudo-random, from a fixed seed, so that every run has the same order.
    Random,
}

/// Configuration of the source.
#[derive(Clone, Debug)]
pub struct Source {
    /// Number of payload bytes after the UDP header.
    pub size: usize,
    /// Number of frames per second; 0 for as many as are polled.
    pub rate: u64,
    /// Total number of frames; 0 if it is unlimited.
    pub count: u64,
    /// Number of flows, which are distinct pairs of source address and source port. Flow `k` has
    /// the address `src + k / 50000` and the port `10000 + k % 50000`. If there is only one flow,
    /// all frames come from `src:src_port`.
    pub flows: u32,
    /// Order of the flows.
    pub order: Order,
    /// True to send to the MAC addresses of [`ROTATION`] in turn instead of to `dst_mac`.
    pub rotate: bool,
    /// True to choose each destination address at random from all unicast IPv4 addresses that are
    /// not martian (such as 127.0.0.0/8).
    pub random_dst: bool,
    /// IPv6 destination addresses that are used in turn instead of `dst`; if empty, `dst` is used.
    pub destinations: Arc<[Ipv6Addr]>,
    /// True to give each frame its own IP identification and recompute its header checksum, instead
    /// of sending the identification 0.
    pub id: bool,
    /// True to fill in the UDP checksum. The generator of the report rump2014 sends 0, which the
    /// report calls "cheating".
    pub udp_csum: bool,
    /// True to mark the checksums of generated frames as verified, as a NIC with receive checksum
    /// offload does.
    pub rx_csum: bool,
    /// Destination MAC address of the frames, which is that of the host under test.
    pub dst_mac: Mac,
    /// Source MAC address of the frames.
    pub src_mac: Mac,
    /// Source address, of the same family as `dst`.
    pub src: IpAddr,
    /// Source UDP port, used if `flows` is 1.
    pub src_port: L4Port,
    /// Destination address of the packets.
    pub dst: IpAddr,
    /// Destination UDP port.
    pub dst_port: L4Port,
    /// Time to live (IPv4) or hop limit (IPv6).
    pub ttl: u8,
    /// Maximum packet length in bytes. Longer datagrams are sent as fragments. `None` if there is
    /// no limit.
    pub mtu: Option<usize>,
}

impl Default for Source {
    /// Returns the configuration of the generator of the report rump2014, for unit 0.
    fn default() -> Source {
        Source {
            size: 22,
            rate: 0,
            count: 0,
            flows: 1,
            order: Order::Sequence,
            rotate: false,
            random_dst: false,
            destinations: Arc::default(),
            id: true,
            udp_csum: false,
            rx_csum: false,
            dst_mac: Mac::ZERO,
            src_mac: Mac([0x12, 0x23, 0x34, 0x45, 0x56, 0x00]),
            src: net(Family::V4, 0, 2),
            src_port: L4Port(12345),
            dst: net(Family::V4, 0, 1),
            dst_port: L4Port(54321),
            ttl: 5,
            mtu: None,
        }
    }
}

/// Address family of the frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Frames contain IPv4 packets.
    V4,
    /// Frames contain IPv6 packets.
    V6,
}

/// Returns the address of host `host` in the network of unit `unit`. For IPv4, this is
/// (UNIT+1).0.0.HOST. The first byte skips 127 and ends at 222; further units are numbered in the
/// second byte. For IPv6, it is 2001:2:0:UNIT::HOST, in the block for benchmarks (RFC 5180 8).
pub fn net(family: Family, unit: u16, host: u8) -> IpAddr {
    match family {
        Family::V4 => {
            let (turn, first) = (unit / 221, (unit % 221) as u8 + 1);
            Ipv4Addr::new(if first < 127 { first } else { first + 1 }, turn as u8, 0, host).into()
        }
        Family::V6 => Ipv6Addr::new(0x2001, 2, 0, unit, 0, 0, 0, host.into()).into(),
    }
}

impl Source {
    /// Returns the family of the frames.
    pub fn family(&self) -> Family {
        if self.dst.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// Returns the length of the IP header in bytes.
    fn ip_len(&self) -> usize {
        match self.family() {
            Family::V4 => ip4::HEADER_LEN,
            Family::V6 => ip6::HEADER_LEN,
        }
    }

    /// Returns the number of bytes in front of the payload: Ethernet, IP and UDP headers.
    pub fn headers(&self) -> usize {
        ETH + self.ip_len() + UDP
    }
}

/// Destination MAC addresses of the dummy device of the report ethpipe2013, in its order: from
/// 00:11:11:11:11:11 to 00:99:99:99:99:99, then the broadcast address.
pub const ROTATION: [Mac; 10] = [
    twice_a_digit(0x11),
    twice_a_digit(0x22),
    twice_a_digit(0x33),
    twice_a_digit(0x44),
    twice_a_digit(0x55),
    twice_a_digit(0x66),
    twice_a_digit(0x77),
    twice_a_digit(0x88),
    twice_a_digit(0x99),
    Mac::BROADCAST,
];

const fn twice_a_digit(byte: u8) -> Mac {
    Mac([0, byte, byte, byte, byte, byte])
}
