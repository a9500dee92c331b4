//! `pktgen:NAME`: a source and sink of UDP frames without any I/O, like pktgenif of the report
//! rump2014.
//!
//! The source creates frames from a template, and varies flows, destinations, rate and size as
//! configured. By default the template is a datagram from port 12345 of the peer to port 54321 of
//! the host, as in the generator of rump2014. With `id=on` each frame has its own IP identification
//! and header checksum, computed for each frame, as in that generator. With `id=off` only fields
//! that vary are changed, and checksums are updated incrementally; if no field varies, all frames
//! are copies of one template. Results state the mode. The sink counts frames and frees buffers.
//!
//! The addresses determine the address family. IPv6 has no identification and no header checksum,
//! and always has a UDP checksum (RFC 8200 8.1).

mod frag;
mod six;

use crate::null::Nothing;
use crate::{Caps, Port, PortCounts, RxHalf, TxHalf};
use buf::{Burst, Flags, Frame, Pool};
use clock::{Duration, Instant};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use wire::checksum::Partial;
use wire::{L4Port, Mac, eth, ip4, ip6, udp};

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

const ETH: usize = 14;
const UDP: usize = 8;
/// Number of bytes in front of the payload over IPv4.
const HEADERS: usize = ETH + 20 + UDP;

/// Capabilities of the generator. It has every offload of a NIC, because its frames are never
/// transmitted.
pub const CAPS: Caps = Caps { mtu: 9000, tx_ip_csum: true, tx_l4_csum: true, rx_csum: true, tso_max: 0, lro: false };

/// Opens a generator. If `source` is `None`, the port only discards frames. The buffers of `pool`
/// must be long enough for the frames of the source.
pub fn open(name: &str, source: Option<&Source>, pool: &Pool) -> Port {
    let counts = Arc::new(PortCounts::default());
    let rx: Box<dyn RxHalf> = match source {
        Some(source) => match frag::Fragments::new(source, pool, &counts) {
            Some(fragments) => Box::new(fragments),
            None => match source.family() {
                Family::V4 => Box::new(Generator::<Variety>::new(source.clone(), pool.clone(), counts.clone())),
                Family::V6 => Box::new(Generator::<six::Variety>::new(source.clone(), pool.clone(), counts.clone())),
            },
        },
        None => Box::new(Nothing),
    };
    Port {
        name: name.to_string(),
        spec: format!("pktgen:{name}"),
        caps: CAPS,
        rx,
        tx: Box::new(Sink { counts: counts.clone() }),
        counts,
        nic: None,
    }
}

/// Checksums over the constant fields of the template, and the template's values of the varying
/// fields.
#[derive(Clone, Copy)]
struct Sums {
    ip: Partial,
    l4: Partial,
    src: u32,
    dst: u32,
    port: u16,
}

impl Sums {
    fn of(template: &[u8]) -> Sums {
        let mut bytes = template.to_vec();
        let (mut ends, mut port) = ([0; 8], [0; 2]);
        for (kept, from) in [(&mut ends[..], 26), (&mut port[..], 34)] {
            for (kept, byte) in kept.iter_mut().zip(bytes.iter_mut().skip(from)) {
                *kept = std::mem::take(byte);
            }
        }
        // Omits the checksums and the identification, which may vary.
        for at in [18, 19, 24, 25, 40, 41] {
            bytes.get_mut(at).map(std::mem::take);
        }
        let part = |from, to| wire::checksum::sum(bytes.get(from..to).unwrap_or_default());
        let len = (bytes.len() - ETH - 20) as u16;
        let unspecified = Ipv4Addr::UNSPECIFIED;
        let [s0, s1, s2, s3, d0, d1, d2, d3] = ends;
        Sums {
            ip: part(ETH, ETH + 20),
            l4: Partial::pseudo4(unspecified, unspecified, ip4::Proto::UDP, len).add(part(ETH + 20, bytes.len())),
            src: u32::from_be_bytes([s0, s1, s2, s3]),
            dst: u32::from_be_bytes([d0, d1, d2, d3]),
            port: u16::from_be_bytes(port),
        }
    }
}

/// Differences between the generated frames of one address family.
trait Vary: Clone + Send {
    fn new(source: &Source, template: &[u8]) -> Self;

    /// Returns whether any field varies from frame to frame.
    fn is_any(&self) -> bool;

    /// Patches the varying fields in a copy of the template.
    fn vary(&mut self, frame: &mut Frame);

    /// Fills the frames with copies of the template and varies them.
    fn make(&mut self, frames: &mut [Frame], template: &[u8]);
}

struct Generator<V> {
    source: Source,
    variety: V,
    pool: Pool,
    counts: Arc<PortCounts>,
    template: Box<[u8]>,
    made: u64,
    started: Option<Instant>,
}

impl<V: Vary> Generator<V> {
    fn new(source: Source, pool: Pool, counts: Arc<PortCounts>) -> Generator<V> {
        let template = template(&source);
        let variety = V::new(&source, &template);
        Generator { source, variety, pool, counts, template, made: 0, started: None }
    }

    /// Returns the number of frames to create now according to the configured rate, at most `most`.
    fn due(&mut self, most: usize, now: Instant) -> usize {
        let left = if self.source.count == 0 { u64::MAX } else { self.source.count - self.made };
        let paced = if self.source.rate == 0 {
            u64::MAX
        } else {
            let since = now.since(*self.started.get_or_insert(now));
            let by_now = (since.as_nanos() * u128::from(self.source.rate) / 1_000_000_000) as u64 + 1;
            by_now.saturating_sub(self.made)
        };
        left.min(paced).min(most as u64) as usize
    }
}

/// Copies the template into the frames and varies each copy. `variety` is copied for the duration
/// of the burst, so that the compiler keeps it in registers; otherwise it would be reloaded after
/// each write to a frame.
#[inline(always)]
fn copy_and_vary<V: Vary>(variety: &mut V, frames: &mut [Frame], template: &[u8]) {
    let mut own = variety.clone();
    let varies = own.is_any();
    for frame in frames {
        fill(frame, template);
        if varies {
            own.vary(frame);
        }
    }
    *variety = own;
}

/// State that advances with each frame in both address families: flow, MAC address, random number.
#[derive(Clone, Copy)]
struct Turns {
    flows: u32,
    order: Order,
    flow: u32,
    rotate: bool,
    turn: u8,
    random: u64,
}

impl Turns {
    fn new(source: &Source) -> Turns {
        let Source { flows, order, rotate, .. } = *source;
        Turns { flows, order, flow: 0, rotate, turn: 0, random: 0x9e37_79b9_7f4a_7c15 }
    }

    fn is_any(&self) -> bool {
        self.flows > 1 || self.rotate
    }

    /// Returns the number of the next flow; `None` if there is only one flow.
    #[inline(always)]
    fn next_flow(&mut self) -> Option<u32> {
        if self.flows <= 1 {
            return None;
        }
        Some(match self.order {
            Order::Sequence => {
                self.flow = if self.flow + 1 >= self.flows { 0 } else { self.flow + 1 };
                self.flow
            }
            Order::Random => ((u64::from(self.draw()) * u64::from(self.flows)) >> 32) as u32,
        })
    }

    /// Writes the next destination MAC address, if the addresses rotate.
    #[inline(always)]
    fn rotate<const N: usize>(&mut self, headers: &mut [u8; N]) {
        if self.rotate {
            if let Some((to, mac)) = headers.first_chunk_mut::<6>().zip(ROTATION.get(usize::from(self.turn))) {
                *to = mac.0;
            }
            self.turn = if self.turn == 9 { 0 } else { self.turn + 1 };
        }
    }

    /// Returns the next number of the generator xorshift64*. It is cheap and seeded, and good
    /// enough to spread addresses.
    #[inline(always)]
    fn draw(&mut self) -> u32 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }
}

/// Fields that vary between generated IPv4 frames: flow, addresses, identification.
#[derive(Clone, Copy)]
struct Variety {
    turns: Turns,
    sums: Sums,
    base: u32,
    random_dst: bool,
    id: bool,
    udp_csum: bool,
    next_id: u16,
}

impl Vary for Variety {
    fn new(source: &Source, template: &[u8]) -> Variety {
        let sums = Sums::of(template);
        Variety {
            turns: Turns::new(source),
            sums,
            base: sums.src,
            random_dst: source.random_dst,
            id: source.id,
            udp_csum: source.udp_csum,
            next_id: 0,
        }
    }

    fn is_any(&self) -> bool {
        self.id || self.random_dst || self.turns.is_any()
    }

    fn make(&mut self, frames: &mut [Frame], template: &[u8]) {
        match template.as_array::<64>() {
            Some(template) if self.is_destination_alone() => self.send_anywhere(frames, template),
            _ => copy_and_vary(self, frames, template),
        }
    }

    /// Changes the varying fields in a copy of the template. The sums of the constant fields are
    /// computed once ([`Sums`]), so a checksum takes two additions. Updating the template's
    /// checksums word by word took 140 instructions per frame.
    #[inline(always)]
    fn vary(&mut self, frame: &mut Frame) {
        let (src, port) = self.next_flow().unwrap_or((self.sums.src, self.sums.port));
        let dst = if self.random_dst { self.random_unicast() } else { self.sums.dst };
        let ends = Partial::pseudo4(Ipv4Addr::from(src), Ipv4Addr::from(dst), ip4::Proto(0), 0);
        let addresses = (u64::from(src) << 32 | u64::from(dst)).to_be_bytes();
        let Some(headers) = frame.bytes_mut().first_chunk_mut::<HEADERS>() else { return };
        self.turns.rotate(headers);
        let id = if self.id { self.next_id } else { 0 };
        if self.id {
            headers[18..20].copy_from_slice(&id.to_be_bytes());
            self.next_id = self.next_id.wrapping_add(1);
        }
        headers[26..34].copy_from_slice(&addresses);
        headers[34..36].copy_from_slice(&port.to_be_bytes());
        // Computed without reading the header again: a load that is wider than the preceding stores
        // must wait for them. This wait was 40 % of this function's samples in a profile.
        let ip_sum = self.sums.ip.add(ends).add_u16(id).finish();
        headers[24..26].copy_from_slice(&ip_sum.to_be_bytes());
        if self.udp_csum {
            let l4_sum = self.sums.l4.add(ends).add_u16(port).finish_nonzero();
            headers[40..42].copy_from_slice(&l4_sum.to_be_bytes());
        }
    }
}

impl Variety {
    /// Returns whether only the destination address varies between the generated frames.
    fn is_destination_alone(&self) -> bool {
        self.random_dst && !(self.id || self.udp_csum || self.turns.is_any())
    }

    /// Creates frames in which only the destination address varies, as for a router test. The
    /// checks of [`Variety::vary`] are made once for all frames: 59 instructions per frame instead
    /// of 103.
    fn send_anywhere(&mut self, frames: &mut [Frame], template: &[u8; 64]) {
        let mut variety = *self;
        let (src, template) = (Ipv4Addr::from(variety.sums.src), *template);
        for frame in frames {
            let dst = variety.random_unicast();
            let Some(bytes) = frame.bytes_mut().first_chunk_mut::<64>() else { continue };
            *bytes = template;
            bytes[30..34].copy_from_slice(&dst.to_be_bytes());
            let ends = Partial::pseudo4(src, Ipv4Addr::from(dst), ip4::Proto(0), 0);
            bytes[24..26].copy_from_slice(&variety.sums.ip.add(ends).finish().to_be_bytes());
        }
        *self = variety;
    }

    #[inline(always)]
    fn next_flow(&mut self) -> Option<(u32, u16)> {
        let flow = self.turns.next_flow()?;
        Some((self.base.wrapping_add(flow / PER_ADDRESS), flow_port(flow)))
    }

    #[inline(always)]
    fn random_unicast(&mut self) -> u32 {
        loop {
            // Addresses that a router may forward: 1.0.0.0 to 223.255.255.255 without 127/8.
            let dst = ((u64::from(self.turns.draw()) * 0xdf00_0000) >> 32) as u32 + 0x0100_0000;
            if dst >> 24 != 127 {
                return dst;
            }
        }
    }
}

/// Number of flows per source address.
const PER_ADDRESS: u32 = 50_000;

/// Returns the source UDP port of flow `k`.
#[inline(always)]
fn flow_port(k: u32) -> u16 {
    10_000 + (k % PER_ADDRESS) as u16
}

/// Returns the source address and UDP port of flow `k`, if flow 0 has the address `base`.
pub fn flow_address(base: IpAddr, k: u32) -> (IpAddr, u16) {
    let more = k / PER_ADDRESS;
    let addr = match base {
        IpAddr::V4(base) => Ipv4Addr::from_bits(base.to_bits().wrapping_add(more)).into(),
        IpAddr::V6(base) => Ipv6Addr::from_bits(base.to_bits().wrapping_add(more.into())).into(),
    };
    (addr, flow_port(k))
}

fn template(source: &Source) -> Box<[u8]> {
    let payload: Vec<u8> = (0..source.size).map(|i| i as u8).collect();
    let (src, port) = match source.flows {
        0 | 1 => (source.src, source.src_port),
        _ => {
            let (src, port) = flow_address(source.src, 0);
            (src, L4Port(port))
        }
    };
    let ethertype = match source.family() {
        Family::V4 => eth::EtherType::IPV4,
        Family::V6 => eth::EtherType::IPV6,
    };
    let (mut link, mut transport) = ([0; ETH], [0; UDP]);
    eth::Header { dst: source.dst_mac, src: source.src_mac, ethertype }.emit(&mut link);
    let len = (UDP + source.size) as u16;
    let network = network(source, src, len);
    let mut datagram = udp::Header { src: port, dst: source.dst_port, len, checksum: 0 };
    datagram.emit(&mut transport);
    let pseudo = match (src, source.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => source.udp_csum.then(|| Partial::pseudo4(src, dst, ip4::Proto::UDP, len)),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Partial::pseudo6(src, dst, ip6::Proto::UDP, len.into())),
        _ => None,
    };
    if let Some(pseudo) = pseudo {
        let whole = pseudo.add(wire::checksum::sum(&transport)).add(wire::checksum::sum(&payload));
        datagram.checksum = whole.finish_nonzero();
        datagram.emit(&mut transport);
    }
    [&link, network.as_slice(), &transport, &payload].concat().into()
}

/// Returns the IP header of a packet with `len` bytes of payload. If source and destination have
/// different address families, the source is unspecified.
fn network(source: &Source, src: IpAddr, len: u16) -> Vec<u8> {
    match source.dst {
        IpAddr::V4(dst) => {
            let src = if let IpAddr::V4(src) = src { src } else { Ipv4Addr::UNSPECIFIED };
            let header = ip4::Header {
                ihl_len: 20,
                tos: 0,
                total_len: len + 20,
                id: 0,
                df: false,
                mf: false,
                frag_off: 0,
                ttl: source.ttl,
                proto: ip4::Proto::UDP,
                checksum: 0,
                src,
                dst,
            };
            let mut bytes = [0; ip4::HEADER_LEN];
            header.emit(&mut bytes);
            bytes.to_vec()
        }
        IpAddr::V6(dst) => {
            let src = if let IpAddr::V6(src) = src { src } else { Ipv6Addr::UNSPECIFIED };
            let header = ip6::Header {
                traffic_class: 0,
                flow_label: 0,
                payload_len: len,
                next: ip6::Proto::UDP,
                hop_limit: source.ttl,
                src,
                dst,
            };
            let mut bytes = [0; ip6::HEADER_LEN];
            header.emit(&mut bytes);
            bytes.to_vec()
        }
    }
}

/// Copies the template into a frame: with moves of constant size for 64 bytes, and with memcpy for
/// longer frames.
#[inline(always)]
fn fill(frame: &mut Frame, template: &[u8]) {
    let room = frame.bytes_mut();
    match (room.first_chunk_mut::<64>(), template.first_chunk::<64>()) {
        (Some(to), Some(from)) if template.len() == 64 => *to = *from,
        _ => room.copy_from_slice(template),
    }
}

impl<V: Vary> RxHalf for Generator<V> {
    #[inline]
    fn rx_burst(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize {
        let due = self.due(most.min(into.room()), now);
        let (before, len) = (into.len(), self.template.len());
        if self.pool.headroom() + len > self.pool.size() {
            self.counts.rx.malformed.bump();
            return 0;
        }
        let frames = self.pool.get_burst_of(due, len, into);
        if frames < due {
            self.counts.rx.no_buffer.bump();
        }
        let made = into.as_mut_slice().get_mut(before..).unwrap_or_default();
        self.variety.make(made, &self.template);
        if self.source.rx_csum {
            for frame in made {
                frame.set_flags(frame.flags().with(Flags::RX_IP_OK).with(Flags::RX_L4_OK));
            }
        }
        self.made += frames as u64;
        self.counts.rx.frames.add(frames as u64);
        self.counts.rx.bytes.add((frames * len) as u64);
        self.counts.rx.idle.add(u64::from(frames == 0));
        frames
    }

    fn next_event(&self) -> Option<Instant> {
        if self.source.rate == 0 || self.is_gone() {
            return None;
        }
        let ns = u128::from(self.made) * 1_000_000_000 / u128::from(self.source.rate);
        Some(self.started?.after(Duration::from_nanos(ns as u64)))
    }

    fn is_gone(&self) -> bool {
        self.source.count != 0 && self.made >= self.source.count
    }
}

struct Sink {
    counts: Arc<PortCounts>,
}

impl TxHalf for Sink {
    #[inline]
    fn tx_burst(&mut self, from: &mut Burst, _now: Instant) -> usize {
        let (frames, bytes) = (from.len(), from.bytes() as u64);
        self.counts.tx.frames.add(frames as u64);
        self.counts.tx.bytes.add(bytes);
        self.counts.tx.bursts.bump();
        from.clear();
        frames
    }

    #[inline]
    fn tx_one(&mut self, frame: Frame, _now: Instant) -> Result<(), Frame> {
        self.counts.tx.frames.bump();
        self.counts.tx.bytes.add(frame.len() as u64);
        self.counts.tx.bursts.bump();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
