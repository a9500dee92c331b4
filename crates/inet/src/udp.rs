//! UDP (RFC 768, RFC 1122 4.1, RFC 8200 8.1): protocol control blocks, and what is common to both directions and families.
//!
//! A [`Pcb`] holds one socket's addresses, receive queue and kept headers. Datagrams come in as whole frames and wait as
//! such: the one copy is the reader's, or none if it takes the [`Frame`]. A socket of IPv6 that is bound to no address
//! takes datagrams of both families, unless it says otherwise (RFC 3493 3.7, 5.3).

mod ancillary;
mod bind;
mod cache;
mod ends;
mod group;
mod input;
mod net;
mod output;
mod read;
mod receive;
mod to;

use crate::demux::Ends4;
use crate::iface::IfaceId;
use crate::raw::RawState;
use buf::{Drain, Frame};
use lock::{Guarded, Locks, Signal};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use wire::L4Port;

pub use crate::ends::Domain;
pub(crate) use crate::ends::{Families, SockEnds};
pub use ancillary::{Ancillary, AncillaryKind, PacketInfo};
pub(crate) use ancillary::{NOTE, Reception, note_iface};
pub use bind::BindError;
pub(crate) use ends::OfPcb;
pub use group::SourceChange;
pub(crate) use input::came_by;
pub use output::SendError;
pub(crate) use read::strip6;
pub use read::{Read, Received, Sender, sender};
pub(crate) use receive::Receive;

/// An error that an earlier datagram met on its way, for the socket that sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SoError {
    /// Nobody listens on that port.
    Refused,
    /// The host cannot be reached.
    HostUnreachable,
    /// The network cannot be reached.
    NetUnreachable,
    /// Too long for the path, and not to be fragmented.
    MessageSize,
    /// Something in the header was not understood.
    ProtocolOption,
}

/// What a socket wants of the datagrams it sends and receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Time to live, or hop limit of IPv6; `None`: the knob's.
    pub ttl: Option<u8>,
    /// Type of service, or traffic class of IPv6.
    pub tos: u8,
    /// Time to live, or hop limit of IPv6, of multicasts.
    pub multicast_ttl: u8,
    /// The iface multicasts leave through.
    pub multicast_iface: Option<IfaceId>,
    /// Own multicasts come back to this host's members.
    pub multicast_loop: bool,
    /// May send to broadcast addresses.
    pub broadcast: bool,
    /// The port may be bound by others that say the same.
    pub reuse_addr: bool,
    /// As `reuse_addr`, also for unicast.
    pub reuse_port: bool,
    /// Never fragment; too long is an error.
    pub dont_fragment: bool,
    /// A socket of IPv6 takes no IPv4, not even where it is bound to no address.
    pub v6only: bool,
    /// How long a receive may wait; `None`: for ever.
    pub recv_timeout: Option<clock::Duration>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ttl: None,
            tos: 0,
            multicast_ttl: 1,
            multicast_iface: None,
            multicast_loop: true,
            broadcast: false,
            reuse_addr: false,
            reuse_port: false,
            dont_fragment: false,
            v6only: false,
            recv_timeout: None,
        }
    }
}

/// Descriptors that became readable, for one who reads from many sockets.
#[derive(Debug)]
pub struct ReadySet<L: Locks> {
    ready: Guarded<L, Ready>,
    /// Raised when the set is no longer empty.
    pub signal: Signal,
}

/// Datagram sockets tell when they turn readable, so each stands here once for each time that somebody has emptied it. Streams
/// tell of all that happens to them, which is the peer's to say: each stands here once at most.
#[derive(Debug, Default)]
struct Ready {
    queue: VecDeque<u32>,
    /// The streams in the queue, a bit each by their number.
    streams: Vec<u64>,
}

impl Ready {
    /// Notes a stream; `false` if it is there already.
    #[inline]
    fn enter(&mut self, id: usize) -> bool {
        let at = id & !crate::tcp::SOCK_BIT;
        if at / 64 >= self.streams.len() {
            self.streams.resize(at / 64 + 1, 0);
        }
        let Some(word) = self.streams.get_mut(at / 64) else { return false };
        let fresh = *word & 1 << (at % 64) == 0;
        *word |= 1 << (at % 64);
        fresh
    }

    #[inline]
    fn pop(&mut self) -> Option<usize> {
        let id = self.queue.pop_front()? as usize;
        if id & crate::tcp::SOCK_BIT != 0 {
            let at = id & !crate::tcp::SOCK_BIT;
            if let Some(word) = self.streams.get_mut(at / 64) {
                *word &= !(1 << (at % 64));
            }
        }
        Some(id)
    }
}

impl<L: Locks> Default for ReadySet<L> {
    fn default() -> Self {
        ReadySet { ready: Guarded::default(), signal: Signal::default() }
    }
}

impl<L: Locks> ReadySet<L> {
    /// Takes the next descriptor that became readable.
    #[inline]
    pub fn pop(&self, cx: lock::Cx) -> Option<usize> {
        self.ready.lock(cx).pop()
    }

    /// Moves up to `most` descriptors that became readable into `into`.
    pub fn pop_many(&self, cx: lock::Cx, most: usize, into: &mut Vec<usize>) {
        let mut ready = self.ready.lock(cx);
        let n = most.min(ready.queue.len());
        into.extend((0..n).map_while(|_| ready.pop()));
    }

    pub(crate) fn push(&self, cx: lock::Cx, id: usize) {
        let mut ready = self.ready.lock(cx);
        if id & crate::tcp::SOCK_BIT != 0 && !ready.enter(id) {
            return;
        }
        ready.queue.push_back(id as u32);
        drop(ready);
        self.signal.raise();
    }
}

/// Receive buffers may pin this many times their size in frames (BSD's sb_mbmax).
const FRAMES_FACTOR: usize = 8;
/// What the sender's address counts for in the buffer: a sockaddr_in. With it no queued datagram counts for nothing.
const NAME_LEN: usize = 16;

/// As much of a buffer size as the Pcb can note.
fn saturated(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// One UDP socket's state.
///
/// What a datagram touches on its way in and out again comes first: with the lock's word and the place's tag in front it is
/// one cache line, so that among 100,000 sockets in random order a datagram waits for one line of its Pcb and not for three;
/// one of IPv6 for the next line, too.
#[derive(Debug)]
#[repr(C)]
pub struct Pcb<L: Locks> {
    first: Option<Frame>, // of a queue that was empty: the usual one is one datagram long and needs no second place
    watch: Option<Arc<ReadySet<L>>>,
    ends: Ends4,
    queued_bytes: u32,
    recv_limit: u32,
    pub(crate) reception: Reception,
    pub(crate) error: Option<SoError>,
    signalled: bool, // there is a signal in `rest`
    families: Families,
    /// Local and remote address of a socket whose addresses are of IPv6; its ports are in `ends`.
    wide: [u128; 2],
    /// Options, as the socket layer sets them; boxed, so that a Pcb is two lines long.
    pub options: Box<Options>,
    pub(crate) shut_write: bool,
    /// The local address was chosen for the present peer, not bound.
    pub(crate) chosen_local: bool,
    /// Calls on this socket never wait.
    pub nonblocking: bool,
    rest: Option<Box<Rest>>, // made when first needed
}

const _: () = assert!(std::mem::offset_of!(Pcb<lock::Up>, wide) == 64 - 8 - 8); // word, tag
const _: () = assert!(size_of::<Pcb<lock::Up>>() <= 128 - 8 - 8);

/// What not every datagram needs, or not every socket.
#[derive(Debug, Default)]
struct Rest {
    more: VecDeque<Frame>,
    signal: Option<Arc<Signal>>,
    groups: Vec<group::Joined>,
    kept: cache::Kept,
    /// Of a raw or ICMP socket.
    raw: Option<Box<RawState>>,
}

impl<L: Locks> Pcb<L> {
    pub(crate) fn new(domain: Domain, options: Options, recv_limit: usize) -> Pcb<L> {
        Pcb {
            first: None,
            watch: None,
            ends: Ends4::default(),
            queued_bytes: 0,
            recv_limit: saturated(recv_limit),
            reception: Reception::default(),
            error: None,
            signalled: false,
            families: Families::of(domain),
            wide: [0; 2],
            nonblocking: false,
            options: Box::new(options),
            shut_write: false,
            chosen_local: false,
            rest: None,
        }
    }

    /// Is it connected?
    #[inline(always)]
    pub fn is_connected(&self) -> bool {
        self.ends.remote_port.0 != 0
    }

    /// Is it bound?
    #[inline(always)]
    pub fn is_bound(&self) -> bool {
        self.ends.local_port.0 != 0
    }

    #[inline(always)]
    fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    /// Returns what a raw or ICMP socket has besides; `None` of UDP.
    pub fn raw(&self) -> Option<&RawState> {
        self.rest.as_ref()?.raw.as_deref()
    }

    /// Returns what a raw or ICMP socket has besides, to change.
    pub fn raw_mut(&mut self) -> Option<&mut RawState> {
        self.rest.as_mut()?.raw.as_deref_mut()
    }

    /// Makes it a raw or ICMP socket.
    pub(crate) fn set_raw(&mut self, state: RawState) {
        self.rest().raw = Some(Box::new(state));
    }

    /// Groups it has joined.
    pub(crate) fn groups(&self) -> &[group::Joined] {
        self.rest.as_ref().map_or(&[], |rest| &rest.groups)
    }

    pub(crate) fn groups_mut(&mut self) -> &mut Vec<group::Joined> {
        &mut self.rest().groups
    }

    /// Returns the headers kept from the datagram before, if that was of this family.
    #[inline(always)]
    fn cache<A: net::Net<N>, const N: usize>(&mut self) -> Option<&mut cache::HeaderCache<A, N>> {
        self.rest.as_mut().and_then(|rest| A::kept(rest))
    }

    /// Datagrams waiting.
    pub fn queued(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| rest.more.len()) + usize::from(self.first.is_some())
    }

    /// Bytes waiting, senders' addresses not counted.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes as usize - self.queued() * NAME_LEN
    }

    /// Length of the next datagram.
    pub fn next_len(&self) -> Option<usize> {
        self.peek().map(Frame::len)
    }

    /// No datagram waits: each counts for more than nothing.
    #[inline(always)]
    pub(crate) fn is_queue_empty(&self) -> bool {
        self.queued_bytes == 0
    }

    /// The size of the receive buffer.
    pub fn recv_limit(&self) -> usize {
        self.recv_limit as usize
    }

    /// Changes the size of the receive buffer (4 GiB at most); what is queued stays.
    pub fn set_recv_limit(&mut self, bytes: usize) {
        self.recv_limit = saturated(bytes);
    }

    /// Takes the error that waits, if any.
    pub fn take_error(&mut self) -> Option<SoError> {
        self.error.take()
    }

    /// Does an error wait?
    pub fn has_error(&self) -> bool {
        self.error.is_some()
    }

    /// Was reading shut down?
    pub fn is_shut_for_reading(&self) -> bool {
        self.reception.has(Reception::SHUT)
    }

    /// Forgets the kept headers: an option that stands in them has changed.
    pub fn forget_headers(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.forget_headers();
        }
    }

    /// Is there something to read: a datagram, an error, the end?
    pub fn is_readable(&self) -> bool {
        !self.is_queue_empty() || self.error.is_some() || self.is_shut_for_reading()
    }

    /// Raises `signal` whenever something comes.
    pub fn set_signal(&mut self, signal: Option<Arc<Signal>>) {
        self.signalled = signal.is_some();
        self.rest().signal = signal;
    }

    /// Something to wait on for this socket.
    pub fn signal(&mut self) -> Arc<Signal> {
        self.signalled = true;
        self.rest().signal.get_or_insert_default().clone()
    }

    /// Queues a datagram; gives it back if the buffer is full.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, cx: lock::Cx, id: usize, frame: Frame, buffer_size: usize) -> Result<(), Frame> {
        let bytes = self.queued_bytes as usize + frame.len() + NAME_LEN;
        if bytes > self.recv_limit as usize {
            return Err(frame);
        }
        if self.is_queue_empty() {
            self.first = Some(frame);
            self.wake(cx, id);
        } else {
            let limit = self.frames_limit();
            let more = &mut self.rest().more;
            if more.len() * buffer_size > limit {
                return Err(frame);
            }
            more.push_back(frame);
        }
        self.queued_bytes = bytes as u32;
        Ok(())
    }

    /// Queues the first `n` of `frames` if there is room for all of them; `false`: nothing was done.
    #[inline(always)]
    fn enqueue_run(&mut self, cx: lock::Cx, id: usize, frames: &mut Drain<'_>, n: usize, buffer_size: usize) -> bool {
        let run = frames.as_slice().get(..n).unwrap_or_default();
        let bytes = self.queued_bytes as usize + run.iter().map(|frame| frame.len() + NAME_LEN).sum::<usize>();
        let (limit, was_empty) = (self.frames_limit(), self.is_queue_empty());
        if bytes > self.recv_limit as usize || (self.queued() + n) * buffer_size > limit {
            return false;
        }
        if was_empty {
            self.first = frames.next();
        }
        self.rest().more.extend(frames.by_ref().take(n - usize::from(was_empty)));
        self.queued_bytes = bytes as u32;
        if was_empty {
            self.wake(cx, id);
        }
        true
    }

    /// Bytes of buffers, used or not, that what waits may pin.
    #[inline(always)]
    fn frames_limit(&self) -> usize {
        self.recv_limit as usize * FRAMES_FACTOR
    }

    #[inline(always)]
    fn wake(&self, cx: lock::Cx, id: usize) {
        if let Some(watch) = &self.watch {
            watch.push(cx, id);
        }
        if self.signalled
            && let Some(signal) = self.rest.as_ref().and_then(|rest| rest.signal.as_ref())
        {
            signal.raise();
        }
    }

    /// Takes the first datagram.
    #[inline(always)]
    pub(crate) fn dequeue(&mut self) -> Option<Frame> {
        let frame = match self.first.take() {
            Some(frame) => frame,
            None if self.is_queue_empty() => return None,
            None => self.rest.as_mut()?.more.pop_front()?,
        };
        self.queued_bytes -= (frame.len() + NAME_LEN) as u32;
        Some(frame)
    }

    /// The first datagram, left where it is.
    pub(crate) fn peek(&self) -> Option<&Frame> {
        self.first.as_ref().or_else(|| self.rest.as_ref()?.more.front())
    }

    /// Takes everything queued.
    pub(crate) fn drain(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.dequeue()).collect()
    }

    /// Puts an error where the socket's owner will find it.
    pub(crate) fn set_error(&mut self, cx: lock::Cx, id: usize, error: SoError) {
        self.error = Some(error);
        self.wake(cx, id);
    }

    /// Reports what becomes readable to `set`; once now if something is.
    pub(crate) fn set_watch(&mut self, cx: lock::Cx, id: usize, set: Option<Arc<ReadySet<L>>>) {
        self.watch = set;
        if self.is_readable() {
            self.wake(cx, id);
        }
    }
}

/// The bound but unconnected sockets of each L4 port, those that broadcasts and multicasts may be for; and the connected
/// ones that keep their port for themselves (BSD and Linux count them too when somebody wants to bind it).
#[derive(Debug, Default)]
pub struct ByPort(HashMap<L4Port, Vec<usize>>, HashMap<L4Port, Vec<usize>>);

impl ByPort {
    pub(crate) fn add(&mut self, port: L4Port, pcb: usize) {
        self.0.entry(port).or_default().push(pcb);
    }

    pub(crate) fn remove(&mut self, port: L4Port, pcb: usize) {
        for map in [&mut self.0, &mut self.1] {
            if let Some(pcbs) = map.get_mut(&port) {
                pcbs.retain(|&other| other != pcb);
                if pcbs.is_empty() {
                    map.remove(&port);
                }
            }
        }
    }

    /// Notes that a connected socket keeps `port` for itself.
    pub(crate) fn hold(&mut self, port: L4Port, pcb: usize) {
        self.1.entry(port).or_default().push(pcb);
    }

    /// Does a connected socket keep `port` for itself?
    pub(crate) fn is_held(&self, port: L4Port) -> bool {
        self.1.contains_key(&port)
    }

    pub(crate) fn get(&self, port: L4Port) -> &[usize] {
        self.0.get(&port).map_or(&[], Vec::as_slice)
    }
}
