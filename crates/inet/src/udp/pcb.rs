//! Protocol control block of a datagram socket.

use super::Options;
use super::ancillary::{AncillaryKind, Reception, UNKNOWN, note_iface};
use super::cache::Kept;
use super::error::SoError;
use crate::demux::Ends4;
use crate::ends::{Domain, Families};
use crate::groups::SourceFilter;
use crate::iface::IfaceId;
use crate::raw::RawState;
use crate::ready::ReadySet;
use buf::{Drain, Frame};
use lock::{Cx, Locks, Signal};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// Membership of a socket in a multicast group.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    pub(crate) iface: IfaceId,
    pub(crate) group: IpAddr,
    pub(crate) filter: SourceFilter,
}

/// Factor by which the memory of queued frames may exceed the size of the receive buffer (BSD's
/// sb_mbmax).
const FRAMES_FACTOR: usize = 8;
/// Number of bytes that each datagram is charged for its sender's address (a sockaddr_in). An empty
/// datagram thus also occupies space in the receive buffer.
const NAME_LEN: usize = 16;

/// Converts a buffer size to the type of the Pcb's fields, limited to 4 GiB - 1.
fn saturated(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// State of a datagram socket.
///
/// The fields that every datagram needs come first. Together with the lock word and the tag of the
/// slot, they fit into one cache line. With 100,000 sockets in random order, a datagram therefore
/// waits for one cache line of its Pcb instead of three. An IPv6 datagram also needs the second
/// cache line.
#[derive(Debug)]
#[repr(C)]
pub struct Pcb<L: Locks> {
    pub(super) first: Option<Frame>, // a queue of one datagram needs no other allocation
    pub(super) watch: Option<Arc<ReadySet<L>>>,
    pub(super) ends: Ends4,
    pub(super) queued_bytes: u32,
    pub(super) recv_limit: u32,
    pub(crate) reception: Reception,
    pub(crate) error: Option<SoError>,
    pub(super) signalled: bool, // true if a signal is set in `rest`
    pub(super) families: Families,
    /// Local and remote address of a socket with IPv6 addresses; its ports are in `ends`.
    pub(super) wide: [u128; 2],
    /// Options that the socket layer sets. They are boxed so that a Pcb fits into two cache lines.
    pub options: Box<Options>,
    pub(crate) shut_write: bool,
    /// True if the stack selected the local address for the current peer, and the application did
    /// not bind it.
    pub(crate) chosen_local: bool,
    /// Calls on this socket never block.
    pub nonblocking: bool,
    pub(super) rest: Option<Box<Rest>>, // allocated when first needed
}

const _: () = assert!(std::mem::offset_of!(Pcb<lock::Up>, wide) == 64 - 8 - 8); // lock word, tag of the slot
const _: () = assert!(size_of::<Pcb<lock::Up>>() <= 128 - 8 - 8);

/// Fields that few datagrams or sockets need.
#[derive(Debug, Default)]
pub(super) struct Rest {
    pub(super) more: VecDeque<Frame>,
    pub(super) signal: Option<Arc<Signal>>,
    pub(super) groups: Vec<Joined>,
    pub(super) kept: Kept,
    /// State of a raw or ICMP socket; `None` for UDP.
    pub(super) raw: Option<Box<RawState>>,
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

    /// Returns whether the socket is connected.
    #[inline(always)]
    pub fn is_connected(&self) -> bool {
        self.ends.remote_port.0 != 0
    }

    /// Returns whether the socket is bound.
    #[inline(always)]
    pub fn is_bound(&self) -> bool {
        self.ends.local_port.0 != 0
    }

    #[inline(always)]
    pub(super) fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    /// Returns the state of a raw or ICMP socket; `None` for UDP.
    pub fn raw(&self) -> Option<&RawState> {
        self.rest.as_ref()?.raw.as_deref()
    }

    /// Returns a mutable reference to the state of a raw or ICMP socket; `None` for UDP.
    pub fn raw_mut(&mut self) -> Option<&mut RawState> {
        self.rest.as_mut()?.raw.as_deref_mut()
    }

    /// Makes this a raw or ICMP socket.
    pub(crate) fn set_raw(&mut self, state: RawState) {
        self.rest().raw = Some(Box::new(state));
    }

    /// Returns the groups that the socket has joined.
    pub(crate) fn groups(&self) -> &[Joined] {
        self.rest.as_ref().map_or(&[], |rest| &rest.groups)
    }

    pub(crate) fn groups_mut(&mut self) -> &mut Vec<Joined> {
        &mut self.rest().groups
    }

    /// Returns the number of queued datagrams.
    pub fn queued(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| rest.more.len()) + usize::from(self.first.is_some())
    }

    /// Returns the number of payload bytes queued, without the bytes charged for senders'
    /// addresses.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes as usize - self.queued() * NAME_LEN
    }

    /// Returns the length in bytes of the next datagram; `None` if the queue is empty.
    pub fn next_len(&self) -> Option<usize> {
        self.peek().map(Frame::len)
    }

    /// Returns whether no datagram is queued. Even an empty datagram is charged some bytes, so that
    /// the queue is empty if and only if no bytes are charged.
    #[inline(always)]
    pub(crate) fn is_queue_empty(&self) -> bool {
        self.queued_bytes == 0
    }

    /// Returns the size of the receive buffer in bytes.
    pub fn recv_limit(&self) -> usize {
        self.recv_limit as usize
    }

    /// Changes the size of the receive buffer in bytes (at most 4 GiB). Datagrams that are already
    /// queued stay in it.
    pub fn set_recv_limit(&mut self, bytes: usize) {
        self.recv_limit = saturated(bytes);
    }

    /// Removes and returns the pending error.
    pub fn take_error(&mut self) -> Option<SoError> {
        self.error.take()
    }

    /// Returns whether an error is pending.
    pub fn has_error(&self) -> bool {
        self.error.is_some()
    }

    /// Returns whether the socket is shut down for reading.
    pub fn is_shut_for_reading(&self) -> bool {
        self.reception.has(Reception::SHUT)
    }

    /// Discards the cached headers, after a change of an option that they contain.
    pub fn forget_headers(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.forget_headers();
        }
    }

    /// Returns whether a read would return at once: with a datagram, with an error, or at the end
    /// of input.
    pub fn is_readable(&self) -> bool {
        !self.is_queue_empty() || self.error.is_some() || self.is_shut_for_reading()
    }

    /// Sets the signal that is raised when a datagram or an error arrives.
    pub fn set_signal(&mut self, signal: Option<Arc<Signal>>) {
        self.signalled = signal.is_some();
        self.rest().signal = signal;
    }

    /// Returns the signal that is raised at events of this socket.
    pub fn signal(&mut self) -> Arc<Signal> {
        self.signalled = true;
        self.rest().signal.get_or_insert_default().clone()
    }

    /// Queues a datagram. Returns the datagram if the buffer is full.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn enqueue(&mut self, cx: Cx, id: usize, frame: Frame, buffer_size: usize) -> Result<(), Frame> {
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

    /// Queues the first `n` of `frames` if there is space for all of them. Otherwise returns
    /// `false` and queues none.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn enqueue_run(
        &mut self,
        cx: Cx,
        id: usize,
        frames: &mut Drain<'_>,
        n: usize,
        buffer_size: usize,
    ) -> bool {
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

    /// Returns the maximum total size in bytes of the buffers of queued datagrams, including their
    /// unused parts.
    #[inline(always)]
    fn frames_limit(&self) -> usize {
        self.recv_limit as usize * FRAMES_FACTOR
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn wake(&self, cx: Cx, id: usize) {
        if let Some(watch) = &self.watch {
            watch.push(cx, id);
        }
        if self.signalled
            && let Some(signal) = self.rest.as_ref().and_then(|rest| rest.signal.as_ref())
        {
            signal.raise();
        }
    }

    /// Removes and returns the first datagram.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn dequeue(&mut self) -> Option<Frame> {
        let frame = match self.first.take() {
            Some(frame) => frame,
            None if self.is_queue_empty() => return None,
            None => self.rest.as_mut()?.more.pop_front()?,
        };
        self.queued_bytes -= (frame.len() + NAME_LEN) as u32;
        Some(frame)
    }

    /// Returns the first datagram without removing it.
    pub(crate) fn peek(&self) -> Option<&Frame> {
        self.first.as_ref().or_else(|| self.rest.as_ref()?.more.front())
    }

    /// Removes and returns all queued datagrams.
    pub(crate) fn drain(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.dequeue()).collect()
    }

    /// Sets the pending error.
    pub(crate) fn set_error(&mut self, cx: Cx, id: usize, error: SoError) {
        self.error = Some(error);
        self.wake(cx, id);
    }

    /// Adds the socket to `set` whenever it becomes readable, and immediately if it is readable
    /// now.
    pub(crate) fn set_watch(&mut self, cx: Cx, id: usize, set: Option<Arc<ReadySet<L>>>) {
        self.watch = set;
        if self.is_readable() {
            self.wake(cx, id);
        }
    }

    /// Returns whether receive calls return ancillary data of this kind.
    pub fn receives(&self, kind: AncillaryKind) -> bool {
        self.reception.has(kind.bit())
    }

    /// Sets whether receive calls return ancillary data of this kind. If
    /// [`AncillaryKind::PacketInfo`] is switched on, the receiving interface of IPv4 datagrams that
    /// are already queued is unknown.
    pub fn set_receives(&mut self, kind: AncillaryKind, on: bool) {
        if on && kind == AncillaryKind::PacketInfo && !self.receives(kind) {
            let more = self.rest.as_mut().map(|rest| rest.more.iter_mut()).into_iter().flatten();
            self.first.iter_mut().chain(more).for_each(|datagram| {
                note_iface(datagram, UNKNOWN);
            });
        }
        self.reception.set(kind.bit(), on);
    }
}

impl Rest {
    /// Discards the cached headers.
    pub(super) fn forget_headers(&mut self) {
        self.kept = Kept::Nothing;
    }
}
