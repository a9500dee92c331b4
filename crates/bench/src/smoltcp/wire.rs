//! Two smoltcp hosts and the wire between them. Each direction of the wire has a ring of frames,
//! and a ring that returns empty buffers.
//!
//! Frames are built in returned buffers, the most recently returned first, so that few buffers are
//! in use. The caller may move one end to another thread. Each poll reads the host's time from the
//! time-stamp counter.

use std::hint::black_box;

use ::smoltcp::iface::{Config, Interface, SocketSet};
use ::smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, RxToken, TxToken};
use ::smoltcp::time::Instant;
use ::smoltcp::wire::{EthernetAddress, IpCidr, Ipv4Address};
use anyhow::anyhow;
use buf::ring::{Consumer, Producer, ring};
use lab::{timer, tsc};

use crate::frame::Checksums;

/// Number of frames that the wire can contain: more than a window of 256 KiB in frames of 1514
/// bytes.
const SLOTS: usize = 256;
/// Length of the Ethernet header in front of an IP packet, in bytes.
const LINK: usize = 14;

/// Parameters of the wire between two hosts.
#[derive(Debug, Clone, Copy)]
pub struct Wire {
    /// Maximum length of an IP packet in bytes.
    pub mtu: usize,
    /// Computation of checksums: in software, or none.
    pub checksums: Checksums,
}

/// A frame in flight, or an empty buffer.
struct Carried {
    buffer: Box<[u8]>,
    len: usize,
}

/// One end of the wire between two hosts.
pub struct Plug {
    wire: Wire,
    tx: Tx,
    rx: Rx,
}

struct Tx {
    out: Producer<Carried>,
    back: Consumer<Carried>,
    /// Empty buffers, the most recently returned on top.
    free: Vec<Carried>,
}

struct Rx {
    arriving: Consumer<Carried>,
    back: Producer<Carried>,
}

/// Creates both ends of a wire.
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
    /// Returns whether an empty buffer is available. The number of buffers limits the frames in
    /// flight.
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

/// A received frame, lent to the stack; dropping it returns its buffer to the sender.
pub struct Arrived<'a> {
    frame: Carried,
    back: &'a mut Producer<Carried>,
}

impl RxToken for Arrived<'_> {
    #[inline(always)]
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, each: F) -> R {
        let answer = each(&self.frame.buffer[..self.frame.len]);
        // The ring has space for every buffer, so this cannot fail. A failure would only leave the
        // sender with one buffer less.
        drop(self.back.push(self.frame));
        answer
    }
}

/// Permission for the stack to build one frame (smoltcp's transmit token).
pub struct Leaving<'a>(&'a mut Tx);

impl TxToken for Leaving<'_> {
    #[inline(always)]
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, build: F) -> R {
        if !self.0.is_ready() {
            // If no buffer is free, the reply is built in a temporary buffer and lost, as on a full
            // wire.
            return build(&mut vec![0; len]);
        }
        let Some(mut frame) = self.0.free.pop() else { return build(&mut vec![0; len]) };
        frame.len = len;
        let answer = build(&mut frame.buffer[..len]);
        drop(self.0.out.push(black_box(frame))); // the ring has space for all buffers
        answer
    }
}

/// A host on one end of a wire.
pub struct Host {
    /// The interface of smoltcp.
    pub iface: Interface,
    /// Sockets of the host.
    pub sockets: SocketSet<'static>,
    plug: Plug,
    /// Microseconds per tick, in units of 2^-32.
    scale: u64,
}

/// Returns the address of host `n`.
pub fn address(n: u8) -> Ipv4Address {
    Ipv4Address::new(10, 99, 0, n)
}

impl Host {
    /// Creates host 1 or 2.
    ///
    /// # Errors
    /// There is no space for the host's address.
    pub fn new(n: u8, mut plug: Plug) -> anyhow::Result<Host> {
        let mut config = Config::new(EthernetAddress([2, 0, 0, 0, 0, n]).into());
        config.random_seed = u64::from(n);
        let mut iface = Interface::new(config, &mut plug, Instant::ZERO);
        let mut full = Ok(());
        iface.update_ip_addrs(|addresses| full = addresses.push(IpCidr::new(address(n).into(), 24)));
        full.map_err(|_| anyhow!("no room for the address"))?;
        let scale = ((1_000_000u128 << 32) / u128::from(timer::rate().hz.max(1))) as u64;
        Ok(Host { iface, sockets: SocketSet::new(Vec::new()), plug, scale })
    }

    #[inline(always)]
    fn now(&self) -> Instant {
        Instant::from_micros(((u128::from(tsc::now()) * u128::from(self.scale)) >> 32) as i64)
    }

    /// Processes all frames that have arrived, and sends all frames that the sockets have ready.
    /// Returns whether the state of a socket may have changed.
    #[inline(always)]
    pub fn poll(&mut self) -> bool {
        let now = self.now();
        self.iface.poll(now, &mut self.plug, &mut self.sockets) != ::smoltcp::iface::PollResult::None
    }

    /// Processes one frame that has arrived, and sends the reply to it. Returns whether a frame had
    /// arrived.
    #[inline(always)]
    pub fn poll_ingress(&mut self) -> bool {
        let now = self.now();
        let done = self.iface.poll_ingress_single(now, &mut self.plug, &mut self.sockets);
        done != ::smoltcp::iface::PollIngressSingleResult::None
    }

    /// Sends at most one frame per socket. Returns whether any frame was sent.
    #[inline(always)]
    pub fn poll_egress(&mut self) -> bool {
        let now = self.now();
        self.iface.poll_egress(now, &mut self.plug, &mut self.sockets) != ::smoltcp::iface::PollResult::None
    }
}
