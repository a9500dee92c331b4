//! The peer smoltcp 0.14, configured for its best result.
//!
//! Sending: `udp::Socket::send_slice` copies the payload in, and `Interface::poll` or `poll_egress`
//! builds the frame in the device's only buffer. Receiving: the device lends a prepared frame, and
//! `recv_slice` copies the payload out. The interface gets a constant time, so it reads no clock,
//! and its neighbor entry, learnt from one ARP request, never expires. The source address is in the
//! datagram's metadata, which saves smoltcp a lookup.
//!
//! There are several methods to call smoltcp. The first build of a side measures all of them, and
//! every build uses the fastest ([`Chosen`]).
//!
//! The compiled-in features have a larger effect: with IPv6, an address is an enum of 17 bytes
//! instead of 4. Measured on 2 vCPUs, in ticks: with only IPv4 and UDP, send 105, send offloaded
//! 74, receive 90; with default features 200, 158, 149; and with one `poll` for each datagram 247,
//! 185, 177. TCP, ICMP or log without IPv6 have little effect. Here smoltcp is built without IPv6,
//! with UDP and, for [`tcp`], TCP. The function `built` reports if another crate enables IPv6.

pub mod tcp;
mod wire;

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

use ::smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use ::smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, RxToken, TxToken};
use ::smoltcp::socket::udp::{PacketBuffer, PacketMetadata, Socket, UdpMetadata};
use ::smoltcp::time::Instant;
use ::smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpAddress,
    IpCidr, Ipv4Address,
};
use anyhow::{Context, anyhow, ensure};
use lab::subject::{Reading, Subject, measure};

use crate::frame::{self, Checksums, End, FRAME, HERE, PAYLOAD, THERE};

/// Constant time that the interface is given.
const NOW: Instant = Instant::ZERO;
/// Number of datagrams per poll in the burst methods.
const BURST: usize = 32;
/// Number of trials of each method when the methods are compared.
const TRIES: usize = 7;

/// Method of calling smoltcp, for each datagram or for a burst of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// Passes one datagram to the socket (sending) or to the device (receiving), then calls `poll`.
    Poll,
    /// Passes `BURST` datagrams in the same way, then calls `poll` once.
    PollBurst,
    /// Passes one datagram, then calls `poll_egress` (sending) or `poll_ingress_single`
    /// (receiving), each of which does half the work of `poll`.
    Half,
    /// Passes `BURST` datagrams, then calls `poll_egress` or `poll_ingress_single` `BURST` times.
    HalfBurst,
}

impl Call {
    const ALL: [Call; 4] = [Call::Poll, Call::PollBurst, Call::Half, Call::HalfBurst];

    fn burst(self) -> usize {
        match self {
            Call::Poll | Call::Half => 1,
            Call::PollBurst | Call::HalfBurst => BURST,
        }
    }

    fn how(self, half: &str) -> String {
        match self {
            Call::Poll => "one datagram, then poll".to_owned(),
            Call::PollBurst => format!("{BURST} datagrams, then poll"),
            Call::Half => format!("one datagram, then {half}"),
            Call::HalfBurst => format!("{BURST} datagrams, then {half} {BURST} times"),
        }
    }
}

/// The method of calling that a side uses in all its builds. The first build measures every method,
/// and later builds reuse the fastest.
#[derive(Debug, Clone, Default)]
pub struct Chosen(Rc<RefCell<Option<(usize, String)>>>);

impl Chosen {
    /// Describes the chosen method, with the ticks of all methods that were tried. Returns an empty
    /// string before the first build.
    pub fn how(&self) -> String {
        self.0.borrow().as_ref().map_or(String::new(), |(_, how)| how.clone())
    }

    /// Returns the method that an earlier build chose. The first build runs [`TRIES`] interleaved
    /// trials of every method and chooses the one with the lowest median.
    pub(crate) fn of<W: Copy>(
        &self,
        ways: &[W],
        how: impl Fn(W) -> String,
        mut trial: impl FnMut(W) -> anyhow::Result<Reading>,
    ) -> anyhow::Result<W> {
        if let Some(way) = self.0.borrow().as_ref().and_then(|(at, _)| ways.get(*at)) {
            return Ok(*way);
        }
        let mut tried: Vec<Vec<f64>> = ways.iter().map(|_| Vec::new()).collect();
        for _ in 0..TRIES {
            for (way, ticks) in ways.iter().zip(&mut tried) {
                ticks.push(trial(*way)?.ticks_per_op());
            }
        }
        let mut medians: Vec<(f64, usize)> = tried.into_iter().map(median).zip(0..).collect();
        medians.sort_by(|a, b| a.0.total_cmp(&b.0));
        let reported = |(ticks, at): &(f64, usize)| format!("{}: {}", how(ways[*at]), lab::table::number(*ticks));
        let [first, others @ ..] = medians.as_slice() else { anyhow::bail!("no variant to try") };
        let others: Vec<String> = others.iter().map(reported).collect();
        let how = format!("{}; {} ticks in the selection ({})", built(), reported(first), others.join("; "));
        *self.0.borrow_mut() = Some((first.1, how));
        Ok(ways[first.1])
    }
}

/// Returns the median of [`TRIES`] values.
fn median(mut ticks: Vec<f64>) -> f64 {
    ticks.sort_by(f64::total_cmp);
    ticks.get(TRIES / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the features with which smoltcp was compiled, as far as they are visible from outside.
/// Cargo merges the features requested by all crates.
fn built() -> &'static str {
    if size_of::<IpAddress>() > 4 { "built with IPv6, which makes it slower" } else { "built for IPv4 without IPv6" }
}

/// Sends 22 bytes into a device that drops frames.
pub struct SmoltcpSend {
    id: &'static str,
    host: Host,
    checksums: Checksums,
    call: Call,
    payload: [u8; PAYLOAD],
    ops: u64,
}

impl SmoltcpSend {
    /// Creates a subject with both checksums computed in software.
    ///
    /// # Errors
    /// The device receives a frame that differs from the one that the row specifies.
    pub fn new(chosen: &Chosen) -> anyhow::Result<SmoltcpSend> {
        SmoltcpSend::with("smoltcp.send.csum", Checksums::Software, chosen)
    }

    /// Creates a subject with both checksums left to the device (`ChecksumCapabilities::ignored`).
    ///
    /// # Errors
    /// As for [`SmoltcpSend::new`].
    pub fn offload(chosen: &Chosen) -> anyhow::Result<SmoltcpSend> {
        SmoltcpSend::with("smoltcp.send.offload", Checksums::Offloaded, chosen)
    }

    fn with(id: &'static str, checksums: Checksums, chosen: &Chosen) -> anyhow::Result<SmoltcpSend> {
        let host = Host::new(checksums, &[HERE.l4_port], 2 * BURST)?;
        let payload = *b"twenty-two bytes of it";
        let mut subject = SmoltcpSend { id, host, checksums, call: Call::Poll, payload, ops: 20_000 };
        let call = chosen.of(&Call::ALL, |call| call.how("poll_egress"), |call| subject.run(call))?;
        Ok(SmoltcpSend { call, ..subject })
    }

    fn run(&mut self, call: Call) -> anyhow::Result<Reading> {
        let ops = self.ops.next_multiple_of(BURST as u64);
        let before = (self.host.device.tx.frames, self.host.device.tx.bytes);
        let mut outcome = Ok(());
        let reading = match call {
            Call::Poll | Call::PollBurst => measure(ops, || outcome = self.send(ops, call.burst(), Host::poll)),
            Call::Half => measure(ops, || outcome = self.send(ops, 1, Host::poll_egress)),
            Call::HalfBurst => {
                let every = |host: &mut Host| (0..BURST).for_each(|_| host.poll_egress());
                measure(ops, || outcome = self.send(ops, BURST, every))
            }
        };
        outcome?;
        let tx = &self.host.device.tx;
        let (frames, bytes) = (tx.frames - before.0, tx.bytes - before.1);
        ensure!(frames == ops, "the device received {frames} of {ops} frames");
        ensure!(bytes == ops * FRAME as u64, "the device received {bytes} bytes in {ops} frames");
        frame::check(&tx.buffer[..tx.last], HERE, THERE, &self.payload, self.checksums)?;
        Ok(reading)
    }

    #[inline(always)] // compiles a separate loop for each polling function
    fn send(&mut self, ops: u64, burst: usize, poll: impl Fn(&mut Host)) -> anyhow::Result<()> {
        let to = metadata_to(THERE);
        for _ in 0..ops / burst as u64 {
            let socket = self.host.sockets.get_mut::<Socket>(self.host.handles[0]);
            for _ in 0..burst {
                socket.send_slice(black_box(&self.payload), to).map_err(|why| anyhow!("send_slice: {why}"))?;
            }
            poll(&mut self.host);
        }
        Ok(())
    }
}

impl Subject for SmoltcpSend {
    fn id(&self) -> &str {
        self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        self.run(self.call)
    }
}

/// Receives 64-byte frames with correct checksums and copies the payload out. Each frame is
/// processed to completion before the next.
pub struct SmoltcpRecv {
    id: String,
    host: Host,
    call: Call,
    ops: u64,
}

/// First port that sockets are bound to.
const FIRST_PORT: u16 = 5000;

impl SmoltcpRecv {
    /// Creates a subject with one socket.
    ///
    /// # Errors
    /// A payload does not arrive.
    pub fn new(chosen: &Chosen) -> anyhow::Result<SmoltcpRecv> {
        SmoltcpRecv::with("smoltcp.recv.one_thread".to_owned(), 1, 20_000, chosen)
    }

    /// Creates a subject with `count` sockets, each bound to its own port. Frames for these ports
    /// arrive in pseudo-random order. The trial reads each datagram from the socket that received
    /// it, without searching for that socket.
    ///
    /// # Errors
    /// As for [`SmoltcpRecv::new`], or the range of UDP ports is too small for `count` sockets.
    pub fn sockets(count: u16, chosen: &Chosen) -> anyhow::Result<SmoltcpRecv> {
        // A frame costs 10 to 40 ticks for each socket: a trial takes 10 to 30 ms.
        let ops = (2_000_000 / u64::from(count.max(1))).clamp(160, 100_000);
        SmoltcpRecv::with(format!("smoltcp.recv.sockets_{count}"), count, ops, chosen)
    }

    fn with(id: String, count: u16, ops: u64, chosen: &Chosen) -> anyhow::Result<SmoltcpRecv> {
        let last = FIRST_PORT.checked_add(count).context("too many sockets for the range of ports")?;
        ensure!(count > 0, "number of sockets: must be at least 1");
        let ports: Vec<u16> = shuffled(FIRST_PORT..last);
        let deep = if usize::from(count) < BURST { 2 * BURST } else { 4 };
        let mut host = Host::new(Checksums::Software, &ports, deep)?;
        let arriving = |(i, port): (usize, &u16)| {
            let payload = [i as u8; PAYLOAD];
            frame::build(THERE, End { l4_port: *port, ..HERE }, &payload)
        };
        host.device.rx.frames = shuffled(ports.iter().enumerate().map(arriving));
        host.in_order_of_frames(&ports)?;
        let mut subject = SmoltcpRecv { id, host, call: Call::Poll, ops: (ops / 5).max(BURST as u64) };
        let call = chosen.of(&Call::ALL, |call| call.how("poll_ingress_single"), |call| subject.run(call))?;
        Ok(SmoltcpRecv { call, ops, ..subject })
    }

    fn run(&mut self, call: Call) -> anyhow::Result<Reading> {
        let ops = self.ops.next_multiple_of(BURST as u64);
        let mut outcome = Ok(());
        let reading = match call {
            Call::Poll | Call::PollBurst => measure(ops, || outcome = self.receive(ops, call.burst(), Host::poll)),
            Call::Half => measure(ops, || outcome = self.receive(ops, 1, Host::poll_ingress)),
            Call::HalfBurst => {
                let every = |host: &mut Host| (0..BURST).for_each(|_| host.poll_ingress());
                measure(ops, || outcome = self.receive(ops, BURST, every))
            }
        };
        outcome?;
        ensure!(self.host.device.rx.ready == 0, "{} frames remain in the device", self.host.device.rx.ready);
        Ok(reading)
    }

    #[inline(always)] // compiles a separate loop for each polling function
    fn receive(&mut self, ops: u64, burst: usize, poll: impl Fn(&mut Host)) -> anyhow::Result<()> {
        let mut payload = [0; 64];
        for _ in 0..ops / burst as u64 {
            let first = self.host.device.rx.next;
            self.host.device.rx.ready = burst;
            poll(&mut self.host);
            let mut at = first;
            for _ in 0..burst {
                let socket = self.host.sockets.get_mut::<Socket>(self.host.handles[at]);
                let (length, _) = socket.recv_slice(&mut payload).map_err(|why| anyhow!("recv_slice: {why}"))?;
                // All bytes of a payload are equal and identify the frame, so checking one byte is
                // enough.
                let expected = self.host.device.rx.frames[at][FRAME - 1];
                ensure!(length == PAYLOAD && payload[PAYLOAD - 1] == expected, "received an unexpected datagram");
                black_box(&payload);
                at = if at + 1 == self.host.handles.len() { 0 } else { at + 1 };
            }
        }
        Ok(())
    }
}

impl Subject for SmoltcpRecv {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        self.run(self.call)
    }
}

/// Returns the items in a pseudo-random order that is always the same (Fisher-Yates with a 64-bit
/// linear congruential generator).
fn shuffled<T>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for i in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(i, (state >> 33) as usize % (i + 1));
    }
    items
}

/// A smoltcp host: interface, sockets and device.
struct Host {
    iface: Interface,
    device: Edge,
    sockets: SocketSet<'static>,
    handles: Vec<SocketHandle>,
}

impl Host {
    /// Creates a host with a UDP socket on each port, each with space for `deep` datagrams, and
    /// with a neighbor entry.
    fn new(checksums: Checksums, ports: &[u16], deep: usize) -> anyhow::Result<Host> {
        let mut device = Edge::new(checksums);
        let mut iface = Interface::new(Config::new(EthernetAddress(HERE.mac).into()), &mut device, NOW);
        let address = IpCidr::new(Ipv4Address::from(HERE.ip).into(), 24);
        let mut full = Ok(());
        iface.update_ip_addrs(|addresses| full = addresses.push(address));
        full.map_err(|_| anyhow!("no room for the address"))?;
        let mut sockets = SocketSet::new(Vec::new());
        let mut handles = Vec::new();
        for port in ports {
            let mut socket = Socket::new(buffer(deep), buffer(deep));
            socket.bind(*port).map_err(|why| anyhow!("cannot bind to UDP port {port}: {why}"))?;
            handles.push(sockets.add(socket));
        }
        let mut host = Host { iface, device, sockets, handles };
        host.learn_neighbor()?;
        Ok(host)
    }

    /// Passes in one ARP request from the neighbor; the host answers it and stores the neighbor's
    /// address.
    fn learn_neighbor(&mut self) -> anyhow::Result<()> {
        self.device.rx.frames = vec![arp_request()];
        self.device.rx.ready = 1;
        self.poll();
        ensure!(self.device.tx.frames == 1 && self.device.tx.buffer[12..14] == [8, 6], "no ARP reply");
        self.device.rx.frames.clear();
        Ok(())
    }

    /// Arranges `handles` so that handle i belongs to the socket that receives frame i.
    fn in_order_of_frames(&mut self, ports: &[u16]) -> anyhow::Result<()> {
        let by_port: std::collections::HashMap<_, _> = ports.iter().zip(&self.handles).collect();
        let port_of = |frame: &[u8; FRAME]| u16::from_be_bytes([frame[36], frame[37]]);
        let handles = self.device.rx.frames.iter().map(|frame| by_port.get(&port_of(frame)).map(|handle| **handle));
        self.handles = handles.collect::<Option<_>>().context("no socket for the port of a frame")?;
        Ok(())
    }

    #[inline(always)]
    fn poll(&mut self) {
        self.iface.poll(NOW, &mut self.device, &mut self.sockets);
    }

    #[inline(always)]
    fn poll_egress(&mut self) {
        self.iface.poll_egress(NOW, &mut self.device, &mut self.sockets);
    }

    #[inline(always)]
    fn poll_ingress(&mut self) {
        self.iface.poll_ingress_single(NOW, &mut self.device, &mut self.sockets);
    }
}

fn buffer(deep: usize) -> PacketBuffer<'static> {
    PacketBuffer::new(vec![PacketMetadata::EMPTY; deep], vec![0; deep * 64])
}

fn metadata_to(end: End) -> UdpMetadata {
    let mut metadata = UdpMetadata::from((Ipv4Address::from(end.ip), end.l4_port));
    metadata.local_address = Some(Ipv4Address::from(HERE.ip).into());
    metadata
}

fn arp_request() -> [u8; FRAME] {
    let request = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: EthernetAddress(THERE.mac),
        source_protocol_addr: THERE.ip.into(),
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: HERE.ip.into(),
    };
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress(THERE.mac),
        dst_addr: EthernetAddress::BROADCAST,
        ethertype: EthernetProtocol::Arp,
    };
    let mut bytes = [0; FRAME];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes[..]);
    ethernet.emit(&mut frame);
    request.emit(&mut ArpPacket::new_unchecked(frame.payload_mut()));
    bytes
}

/// The device: a sink with one reused buffer, and a source that lends prepared frames.
struct Edge {
    checksums: Checksums,
    tx: Tx,
    rx: Rx,
}

struct Tx {
    buffer: [u8; 1514],
    last: usize,
    frames: u64,
    bytes: u64,
}

/// Prepared frames, which the device lends to the stack in a cycle. The next `ready` frames
/// beginning at index `next` are available.
struct Rx {
    frames: Vec<[u8; FRAME]>,
    next: usize,
    ready: usize,
}

impl Edge {
    fn new(checksums: Checksums) -> Edge {
        let tx = Tx { buffer: [0; 1514], last: 0, frames: 0, bytes: 0 };
        Edge { checksums, tx, rx: Rx { frames: Vec::new(), next: 0, ready: 0 } }
    }
}

impl Device for Edge {
    type RxToken<'a> = Lent<'a>;
    type TxToken<'a> = Dropped<'a>;

    #[inline(always)]
    fn receive(&mut self, _: Instant) -> Option<(Lent<'_>, Dropped<'_>)> {
        let rx = &mut self.rx;
        rx.ready = rx.ready.checked_sub(1)?;
        let frame = rx.frames.get(rx.next)?;
        rx.next = if rx.next + 1 == rx.frames.len() { 0 } else { rx.next + 1 };
        Some((Lent(frame), Dropped(&mut self.tx)))
    }

    #[inline(always)]
    fn transmit(&mut self, _: Instant) -> Option<Dropped<'_>> {
        Some(Dropped(&mut self.tx))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.max_transmission_unit = 1514;
        if self.checksums == Checksums::Offloaded {
            capabilities.checksum = ChecksumCapabilities::ignored();
        }
        capabilities
    }
}

/// A frame lent to the stack.
struct Lent<'a>(&'a [u8; FRAME]);

impl RxToken for Lent<'_> {
    #[inline(always)]
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, each: F) -> R {
        each(black_box(&self.0[..]))
    }
}

/// The buffer lent to the stack to build a frame in. The frame is then counted and dropped.
struct Dropped<'a>(&'a mut Tx);

impl TxToken for Dropped<'_> {
    #[inline(always)]
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, build: F) -> R {
        let answer = build(&mut self.0.buffer[..length]);
        self.0.last = length;
        self.0.frames += 1;
        self.0.bytes += length as u64;
        black_box(&self.0.buffer);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_calling_sends_the_row_s_frames() {
        for mut subject in
            [SmoltcpSend::new(&Chosen::default()).unwrap(), SmoltcpSend::offload(&Chosen::default()).unwrap()]
        {
            subject.ops = 320;
            for call in Call::ALL {
                assert_eq!(subject.run(call).unwrap().ops, 320, "{call:?}");
            }
        }
    }

    #[test]
    fn every_way_of_calling_receives_every_datagram() {
        for count in [1, 3, 10, 100] {
            let mut subject = SmoltcpRecv::sockets(count, &Chosen::default()).unwrap();
            subject.ops = 320;
            for call in Call::ALL {
                assert_eq!(subject.run(call).unwrap().ops, 320, "{count} sockets, {call:?}");
            }
        }
    }

    #[test]
    fn the_variant_is_chosen_once() {
        let chosen = Chosen::default();
        assert_eq!(chosen.how(), "");
        SmoltcpSend::new(&chosen).unwrap();
        let how = chosen.how();
        assert!(how.contains("ticks in the selection"), "{how}");
        SmoltcpSend::new(&chosen).unwrap();
        assert_eq!(chosen.how(), how);
    }

    #[test]
    fn a_wrong_frame_is_an_error() {
        let mut subject = SmoltcpSend::new(&Chosen::default()).unwrap();
        subject.checksums = Checksums::Offloaded;
        assert!(subject.run(Call::Poll).unwrap_err().to_string().contains("expected zero (offloaded)"));
    }

    #[test]
    fn too_many_sockets_are_rejected() {
        assert!(SmoltcpRecv::sockets(u16::MAX, &Chosen::default()).is_err());
        assert!(SmoltcpRecv::sockets(0, &Chosen::default()).is_err());
    }
}
