//! Two smoltcp hosts and the wire between them: rings of frames each way, and of empty buffers back.
//!
//! A frame is built in a buffer that the receiver has read before; the one that came back last is taken first, so that
//! few stay in use. An end may be carried to another thread. Time is the time-stamp counter, read once a round.

use std::hint::black_box;

use ::smoltcp::iface::{Config, Interface, SocketSet};
use ::smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, RxToken, TxToken};
use ::smoltcp::time::Instant;
use ::smoltcp::wire::{EthernetAddress, IpCidr, Ipv4Address};
use anyhow::anyhow;
use buf::ring::{Consumer, Producer, ring};
use lab::{timer, tsc};

use crate::frame::Checksums;

/// Frames that the wire holds: a window of 256 KiB in frames of 1514 bytes, and more.
const SLOTS: usize = 256;
/// Bytes in front of an IP packet.
const LINK: usize = 14;

/// What joins two hosts.
#[derive(Debug, Clone, Copy)]
pub struct Wire {
    /// The largest IP packet.
    pub mtu: usize,
    /// Who computes checksums.
    pub checksums: Checksums,
}

/// A frame on its way, or an empty buffer.
struct Carried {
    buffer: Box<[u8]>,
    len: usize,
}

/// One end of the wire.
pub struct Plug {
    wire: Wire,
    tx: Tx,
    rx: Rx,
}

struct Tx {
    out: Producer<Carried>,
    back: Consumer<Carried>,
    /// Empty ones, the last that came back on top.
    free: Vec<Carried>,
}

struct Rx {
    arriving: Consumer<Carried>,
    back: Producer<Carried>,
}

/// Both ends.
pub fn plugs(wire: Wire) -> [Plug; 2] {
    let [one, other] = [(); 2].map(|()| {
        let ((out, arriving), (back, returned)) = (ring(SLOTS), ring(SLOTS));
        let size = wire.mtu + LINK;
        let free = (0..SLOTS).map(|_| Carried { buffer: vec![0; size].into(), len: 0 }).collect();
        (Tx { out, back: returned, free }, Rx { arriving, back })
    });
    [Plug { wire, tx: one.0, rx: other.1 }, Plug { wire, tx: other.0, rx: one.1 }]
}

impl Tx {
    /// Is there an empty buffer? There are as many as frames may be under way.
    #[inline(always)]
    fn is_ready(&mut self) -> bool {
        let free = &mut self.free;
        self.back.pop_into(SLOTS, |buffer| free.push(buffer));
        !free.is_empty()
    }
}

impl Device for Plug {
    type RxToken<'a> = Arrived<'a>;
    type TxToken<'a> = Leaving<'a>;

    #[inline(always)]
    fn receive(&mut self, _: Instant) -> Option<(Arrived<'_>, Leaving<'_>)> {
        let frame = self.rx.arriving.pop()?;
        Some((Arrived { frame, back: &mut self.rx.back }, Leaving(&mut self.tx)))
    }

    #[inline(always)]
    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        self.tx.is_ready().then_some(Leaving(&mut self.tx))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.max_transmission_unit = self.wire.mtu + LINK;
        if self.wire.checksums == Checksums::Offloaded {
            capabilities.checksum = ChecksumCapabilities::ignored();
        }
        capabilities
    }
}

/// A frame lent to the stack; its buffer goes back.
pub struct Arrived<'a> {
    frame: Carried,
    back: &'a mut Producer<Carried>,
}

impl RxToken for Arrived<'_> {
    #[inline(always)]
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, each: F) -> R {
        let answer = each(&self.frame.buffer[..self.frame.len]);
        // There is a place for every buffer: one that finds none would only be lost to the other side.
        drop(self.back.push(self.frame));
        answer
    }
}

/// Leave to build a frame.
pub struct Leaving<'a>(&'a mut Tx);

impl TxToken for Leaving<'_> {
    #[inline(always)]
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, build: F) -> R {
        if !self.0.is_ready() {
            return build(&mut vec![0; len]); // an answer for which there is no buffer is lost, as on any wire
        }
        let Some(mut frame) = self.0.free.pop() else { return build(&mut vec![0; len]) };
        frame.len = len;
        let answer = build(&mut frame.buffer[..len]);
        drop(self.0.out.push(black_box(frame))); // as many places as buffers
        answer
    }
}

/// A host on one end of a wire.
pub struct Host {
    /// smoltcp's.
    pub iface: Interface,
    /// Its sockets.
    pub sockets: SocketSet<'static>,
    plug: Plug,
    /// Microseconds in a tick, in 2^-32.
    scale: u64,
}

/// The address of host `n`.
pub fn address(n: u8) -> Ipv4Address {
    Ipv4Address::new(10, 99, 0, n)
}

impl Host {
    /// Host 1 or 2.
    ///
    /// # Errors
    /// No room for its address.
    pub fn new(n: u8, mut plug: Plug) -> anyhow::Result<Host> {
        let mut config = Config::new(EthernetAddress([2, 0, 0, 0, 0, n]).into());
        config.random_seed = u64::from(n);
        let mut iface = Interface::new(config, &mut plug, Instant::ZERO);
        let mut full = Ok(());
        iface.update_ip_addrs(|addresses| full = addresses.push(IpCidr::new(address(n).into(), 24)));
        full.map_err(|_| anyhow!("no room for an address"))?;
        let scale = ((1_000_000u128 << 32) / u128::from(timer::rate().hz.max(1))) as u64;
        Ok(Host { iface, sockets: SocketSet::new(Vec::new()), plug, scale })
    }

    #[inline(always)]
    fn now(&self) -> Instant {
        Instant::from_micros(((u128::from(tsc::now()) * u128::from(self.scale)) >> 32) as i64)
    }

    /// All that has arrived, and all that may leave. Was there anything?
    #[inline(always)]
    pub fn poll(&mut self) -> bool {
        let now = self.now();
        self.iface.poll(now, &mut self.plug, &mut self.sockets) != ::smoltcp::iface::PollResult::None
    }

    /// One frame that has arrived, and its answer.
    #[inline(always)]
    pub fn poll_ingress(&mut self) -> bool {
        let now = self.now();
        let done = self.iface.poll_ingress_single(now, &mut self.plug, &mut self.sockets);
        done != ::smoltcp::iface::PollIngressSingleResult::None
    }

    /// What may leave: a frame a socket.
    #[inline(always)]
    pub fn poll_egress(&mut self) -> bool {
        let now = self.now();
        self.iface.poll_egress(now, &mut self.plug, &mut self.sockets) != ::smoltcp::iface::PollResult::None
    }
}
